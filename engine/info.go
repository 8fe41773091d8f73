package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Info is what a body may know of its run.
type Info struct {
	Reactor, RunID string
	RootID         string // of the tree; RunID for a root
	Path           string // of the node; "" at the level of the run
	Phase          string // guard, body, compensate, undo; "" outside of them
	Attempt        int    // from 1
	Recovery       int    // how often this attempt began again after a crash, from 0

	parent func(context.Context) (Status, error)
}

// IdempotencyKey is the same for every execution of one path of one run in one
// direction, whatever the attempt or process: give it to the bank. Guard hook
// and body are one direction, undo and compensate others.
func (i Info) IdempotencyKey() string {
	direction := i.Phase
	if direction == "guard" {
		direction = "body"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", i.RunID, i.Path, direction))
	return hex.EncodeToString(sum[:16])
}

// Parent is the present status of the run that dispatched this one; "" for a
// root.
func (i Info) Parent(ctx context.Context) (Status, error) {
	if i.parent == nil {
		return "", nil
	}
	return i.parent(ctx)
}

type infoKey struct{}

// RunFrom is the Info of the body or hook that ctx was given to; the zero Info
// elsewhere.
func RunFrom(ctx context.Context) Info {
	i, _ := ctx.Value(infoKey{}).(Info)
	return i
}

func withInfo(ctx context.Context, i Info) context.Context {
	return context.WithValue(ctx, infoKey{}, i)
}

package sequence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// A Placement says where a case is run: here, or by workers.
type Placement func(ctx context.Context, r *engine.Reactor[int, int], e *engine.Engine, in int) (engine.Result[int], error)

// Here runs a case in the caller's process.
func Here(ctx context.Context, r *engine.Reactor[int, int], e *engine.Engine, in int) (engine.Result[int], error) {
	return r.Run(ctx, e, in)
}

// ByWorkers starts a case and waits for its end.
func ByWorkers(ctx context.Context, r *engine.Reactor[int, int], e *engine.Engine, in int) (engine.Result[int], error) {
	h, err := r.Start(ctx, e, in)
	if err != nil {
		return engine.Result[int]{}, err
	}
	return h.Wait(ctx)
}

// Check runs a case on an engine that open makes for its reactor, and compares
// calls, status, rollback failures and the stored trace.
func Check(t *testing.T, c Case, place Placement, open func(t *testing.T, l *Ledger, r *engine.Reactor[int, int]) *engine.Engine) {
	t.Helper()
	l := NewLedger(c.Script)
	r := c.Build(l)
	e := open(t, l, r)
	res, err := place(t.Context(), r, e, c.Input)
	path := res.Node
	failure, failed := errors.AsType[*engine.RunError](err)
	if failed {
		path = failure.Node
	} else if err != nil {
		t.Fatalf("run: %v", err)
	}
	if got := Got(l.Calls(), res.Status, path); got != c.Want {
		t.Errorf("got  %s\nwant %s", got, c.Want)
	}
	if failed {
		checkFailures(t, c, failure)
	}
	view, err := e.Get(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Trace(c.Want), hooksAndBodies(view.Trace)); diff != "" {
		t.Errorf("stored trace (-want +got):\n%s", diff)
	}
	checkKeys(t, l)
	if failed {
		checkReload(t, failure, view.Failure)
	}
}

func checkFailures(t *testing.T, c Case, failure *engine.RunError) {
	t.Helper()
	var got []string
	for _, f := range failure.Rollback {
		got = append(got, f.Kind+" "+f.Node)
	}
	if diff := cmp.Diff(c.Failed, got); diff != "" {
		t.Errorf("rollback failures (-want +got):\n%s", diff)
	}
}

// hooksAndBodies leaves out the entries of skips and halts.
func hooksAndBodies(trace []string) []string {
	return slices.DeleteFunc(slices.Clone(trace), func(entry string) bool {
		return strings.HasPrefix(entry, "skipped ") || strings.HasPrefix(entry, "halt ")
	})
}

// checkKeys: each call has one idempotency key over all attempts, and no two
// directions share one; guard hook and body are one direction.
func checkKeys(t *testing.T, l *Ledger) {
	t.Helper()
	owner := map[string]string{}
	for call, keys := range l.Keys {
		direction := strings.Replace(call, "guard:", "run:", 1)
		for _, key := range keys {
			if key != keys[0] {
				t.Errorf("%s was called with keys %v", call, keys)
			}
			if other := owner[key]; other != "" && other != direction {
				t.Errorf("%s and %s share the key %s", direction, other, key)
			}
			owner[key] = direction
		}
	}
}

// checkReload: a failure read back equals the live one.
func checkReload(t *testing.T, live, stored *engine.RunError) {
	t.Helper()
	if diff := cmp.Diff(Flat(live), Flat(stored)); diff != "" {
		t.Errorf("reloaded failure (-live +stored):\n%s", diff)
	}
}

// Flat is a failure as text, field by field.
func Flat(r *engine.RunError) map[string]string {
	flat := map[string]string{
		"text": r.Error(), "node": r.NodeKind + " " + r.Node, "attempt": fmt.Sprintf("%d of %d", r.Attempt, r.Attempts),
		"code": r.Code, "type": r.Type, "permanent": fmt.Sprint(r.Permanent), "fields": fmt.Sprint(r.Fields),
		"input": string(r.Input), "stack": strings.Join(r.Stack, "\n"),
	}
	for i, f := range r.Rollback {
		flat[fmt.Sprintf("rollback %d", i)] = fmt.Sprintf("%s %s %s %s %s %v", f.Kind, f.Node, f.Reason, f.Key, f.Error(), f.At.UTC())
	}
	return flat
}

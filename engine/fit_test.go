package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// stoppedAt is a run of a -> b that has done a and waits between two attempts
// of b, stored by a process with the road's definition.
func stoppedAt(t *testing.T) (h *host, way *road, run *engine.Handle[int]) {
	t.Helper()
	r := pair(func(ctx context.Context, n int) (int, error) {
		if engine.RunFrom(ctx).Attempt == 1 {
			return 0, errors.New("not yet")
		}
		return n, nil
	}, func(_ *engine.Builder, b *engine.StepNode[int, int]) { b.Retry(2, engine.Fixed(time.Millisecond)) })
	h, way = onRoad(t, engine.Config{}, r)
	run, driven := startAndDrive(t, h, r, 1)
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	until(t, "the second attempt is due", func() bool { return h.view(t, run.ID).Waiting == "a worker" })
	return h, way, run
}

// longer is pair with a step c: a graph of another fingerprint, that fits.
func longer() *engine.Reactor[int, int] {
	return pair(func(_ context.Context, n int) (int, error) { return n, nil }, func(d *engine.Builder, b *engine.StepNode[int, int]) {
		b.Retry(2, engine.Fixed(time.Millisecond))
		engine.Step(d, "c", b, func(_ context.Context, n int) (int, error) { return n, nil })
	})
}

// A form of a graph that this release can't read, as one of a newer release,
// leaves the run as it is, blocked with the reason; it goes on where it can be
// read. A definition that this process does not know at all leaves it alone.
// spec: C-682
func TestRunOfANewerRelease(t *testing.T) {
	t.Parallel()
	h, way, run := stoppedAt(t)
	unknown := h.beside(t, engine.Config{})
	unknown.drive(t)
	if v := h.view(t, run.ID); v.Status != engine.Running || v.Blocked != "" || v.Owner != "" {
		t.Fatalf("%s, blocked %q, owner %q", v.Status, v.Blocked, v.Owner)
	}
	newer := &newerGraphs{Store: way.Store}
	config := engine.Config{Store: newer, Dispatcher: h.jobs}
	other := openHost(t, config, longer())
	if err := other.Drive(t.Context(), engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Fatal(err)
	}
	v := h.view(t, run.ID)
	if v.Status != engine.Running || v.Failure != nil || v.Owner != "" || !strings.Contains(v.Blocked, "stored graph can't be read") {
		t.Fatalf("%s, owner %q, blocked %q, %v", v.Status, v.Owner, v.Blocked, v.Failure)
	}
	goOn := h.beside(t, engine.Config{}, longer())
	if err := goOn.Drive(t.Context(), engine.Wake{Queue: "reactor", Priority: 1, Runs: []string{run.ID}}); err != nil {
		t.Fatal(err)
	}
	if v := h.view(t, run.ID); v.Status != engine.Completed || v.Blocked != "" {
		t.Errorf("%s, blocked %q", v.Status, v.Blocked)
	}
}

// newerGraphs has graphs in a form that this release does not know.
type newerGraphs struct{ engine.Store }

func (n *newerGraphs) Graph(ctx context.Context, fingerprint string) (*engine.StoredGraph, error) {
	g, err := n.Store.Graph(ctx, fingerprint)
	if g != nil {
		g.Form = json.RawMessage(`{"form":2,"nodes":{"a":{"kind":"step"}}}`)
	}
	return g, err
}

// A database that is away while the stored graph is to be compared says nothing
// about the run: it goes on once the graph can be loaded, and is not blocked.
// spec: C-992
func TestGraphThatCannotBeLoadedYet(t *testing.T) {
	t.Parallel()
	h, way, run := stoppedAt(t)
	way.cut("graph")
	other := openHost(t, engine.Config{Store: way, Dispatcher: h.jobs}, longer())
	driven := make(chan error, 1)
	go func() {
		driven <- other.Drive(t.Context(), engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1})
	}()
	until(t, "the run is claimed", func() bool { return h.view(t, run.ID).Owner != "" })
	way.mend("graph")
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if v := h.view(t, run.ID); v.Status != engine.Completed || v.Blocked != "" {
		t.Errorf("%s, blocked %q", v.Status, v.Blocked)
	}
}

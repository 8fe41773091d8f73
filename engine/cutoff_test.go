package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// hurry is a middleware that ends the context of each attempt.
func hurry(next engine.Next) engine.Next {
	return func(ctx context.Context, ev engine.Event) error {
		if ev.Kind == "reactor.step.started" && ev.Path == "b" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
		}
		return next(ctx, ev)
	}
}

// A context that a middleware ended is no interruption of the run: the body's
// error is one like any other, and spends an attempt.
// spec: K-451, C-694
func TestMiddlewareThatEndsTheContext(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			r := pair(func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
				func(_ *engine.Builder, n *engine.StepNode[int, int]) { n.Retry(2, engine.Fixed(0)) })
			h, _, err := runAt(t, place, r, engine.Config{Middleware: []func(engine.Next) engine.Next{hurry}}, 1)
			failure := failureIn(t, err)
			if failure.Node != "b" || failure.Attempt != 2 || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrTimeout) {
				t.Errorf("%+v", failure)
			}
			if diff := cmp.Diff([]string{"run a", "run b", "run b", "compensate b", "undo a"}, h.view(t, failure.RunID).Trace); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The limit of a body that called Run is, for the run inside, the end of its
// caller's context and no limit of its own.
// spec: C-188, C-197, C-317
func TestRunInsideABodyWithALimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*engine.Builder, *engine.StepNode[int, int]){
		"timeout":  func(_ *engine.Builder, n *engine.StepNode[int, int]) { n.Timeout(20 * time.Millisecond) },
		"deadline": func(b *engine.Builder, _ *engine.StepNode[int, int]) { b.Deadline(20 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine.InMemoryWith()
			inside := engine.MustDefine("inside", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				return engine.Step(b, "slow", in, func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }).
					Compensate(func(context.Context, int, error) error { t.Error("compensated"); return nil })
			})
			var inner engine.Result[int]
			r := pair(func(ctx context.Context, n int) (_ int, err error) {
				inner, err = inside.Run(ctx, e, n)
				return inner.Value, err
			}, limit)
			if _, err := r.Run(t.Context(), e, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("outside: %v", err)
			}
			if v, err := e.Get(t.Context(), inner.RunID); err != nil || v.Status != engine.Aborted || !slices.Equal(v.ToUndo, []string{"slow"}) {
				t.Errorf("inside: %s, left to undo %v, %v", v.Status, v.ToUndo, err)
			}
		})
	}
}

// Any number of bodies may start runs on an engine in memory, which drives them
// before it returns.
// spec: C-85
func TestBodiesThatStartRunsInMemory(t *testing.T) {
	t.Parallel()
	const n = 100
	e := engine.InMemoryWith()
	leaf := engine.MustDefine("leaf", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	var all sync.WaitGroup
	all.Add(n)
	parent := engine.MustDefine("parent", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			all.Done()
			all.Wait() // all of them are at work
			h, err := leaf.Start(ctx, e, n)
			if err != nil {
				return 0, err
			}
			res, err := h.Wait(ctx)
			return res.Value, err
		})
	})
	var runs sync.WaitGroup
	for i := range n {
		runs.Go(func() {
			h, err := parent.Start(t.Context(), e, i)
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := h.Wait(t.Context()); err != nil || res.Value != i {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	runs.Wait()
}

// Workers that are attached to an engine in use are told of all the same.
// spec: K-1073
func TestWorkersAreAttachedLate(t *testing.T) {
	t.Parallel()
	r := pair(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
	h := newHost(t, engine.Config{}, r)
	if _, err := r.Run(t.Context(), h.Engine, 1); err != nil {
		t.Fatal(err)
	}
	h.Works("reactor", 4)
	until(t, "the process says what it works", func() bool {
		health, err := h.Health(t.Context())
		return err == nil && len(health.Processes) == 1 && slices.Equal(health.Processes[0].Queues, []string{"reactor"})
	})
}

// A wake-up for runs that are not there ends well, and never costs the others
// on its list their place.
// spec: C-217, K-243, K-851
func TestWakeUpForRunsThatAreNotThere(t *testing.T) {
	t.Parallel()
	r := pair(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
	h := newHost(t, engine.Config{}, r)
	h.Works("reactor", 1)
	for _, runs := range [][]string{nil, {"no id"}, {engine.NewUUID()}, {engine.NewUUID(), "no id"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := h.Drive(ctx, engine.Wake{Runs: runs, Queue: "reactor", Priority: 1}); err != nil {
			t.Errorf("%v: %v", runs, err)
		}
		cancel()
	}
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.jobs.take()
	if err := h.Drive(t.Context(), engine.Wake{Runs: []string{"no id", started.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Fatal(err)
	}
	if wakes := h.jobs.take(); len(wakes) != 1 || strings.Join(wakes[0].Runs, " ") != started.ID {
		t.Errorf("with one seat the other is queued anew: %v", wakes)
	}
}

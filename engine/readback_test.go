package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// What a run waits for is stored with it and shown by every process, until it
// can go on.
// spec: C-988
func TestWaitIsShownWhileItLasts(t *testing.T) {
	t.Parallel()
	var h *host
	r := pair(func(ctx context.Context, n int) (int, error) {
		info := engine.RunFrom(ctx)
		if v := h.view(t, info.RunID); v.Waiting != "" {
			t.Errorf("in attempt %d it waits for %q", info.Attempt, v.Waiting)
		}
		if info.Attempt == 1 {
			return 0, errDeclined
		}
		return n, nil
	}, func(_ *engine.Builder, n *engine.StepNode[int, int]) { n.Retry(2, engine.Fixed(2*time.Second)) })
	h = newHost(t, engine.Config{}, r)
	run, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	other := h.beside(t, engine.Config{}, r)
	v := other.view(t, run.ID)
	why, err := other.Why(t.Context(), run.ID)
	rec := other.record(t, run.ID)
	if err != nil || rec.Due.IsZero() {
		t.Fatalf("due %s, %v", rec.Due, err)
	}
	if want := "retry of b at " + rec.Due.UTC().Format(time.RFC3339); v.Waiting != want || !strings.Contains(why, "waits for retry of b at ") {
		t.Errorf("it waits for %q, want %q; %s", v.Waiting, want, why)
	}
	until(t, "it can go on", func() bool { rec := other.record(t, run.ID); return !rec.Due.After(rec.Now) })
	if v := other.view(t, run.ID); v.Waiting != "a worker" {
		t.Errorf("it can go on and waits for %q", v.Waiting)
	}
	if why, err := other.Why(t.Context(), run.ID); err != nil || strings.Contains(why, "retry of b") {
		t.Errorf("it can go on: %s, %v", why, err)
	}
	if err := h.Drive(t.Context(), engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Fatal(err)
	}
	if v := other.view(t, run.ID); v.Status != engine.Completed || v.Waiting != "" {
		t.Errorf("%s, waits for %q", v.Status, v.Waiting)
	}
}

// errEmpty has a code.
var errEmpty = &coded{"empty"}

// said is all that a RunError says, without what holds in one process only.
type said struct {
	Reactor, RunID, Node, NodeKind, Code, Type, Input, Text string
	Attempt, Attempts                                       int
	Permanent                                               bool
	Fields                                                  engine.FieldErrors
	Stack, Rollback                                         []string
}

func saidBy(r *engine.RunError) said {
	all := said{
		Reactor: r.Reactor, RunID: r.RunID, Node: r.Node, NodeKind: r.NodeKind, Code: r.Code, Type: r.Type, Input: string(r.Input), Text: r.Error(),
		Attempt: r.Attempt, Attempts: r.Attempts, Permanent: r.Permanent, Fields: r.Fields, Stack: r.Stack,
	}
	for _, f := range r.Rollback {
		all.Rollback = append(all.Rollback, fmt.Sprintf("%s %s, %s, at %s: %s", f.Kind, f.Node, f.Reason, f.At.UTC(), f.Error()))
	}
	return all
}

// A failure that is read back says what it said in the process that ran the
// step; only there it matches the error of the body.
// spec: C-613
func TestFailureReadBack(t *testing.T) {
	t.Parallel()
	fields := engine.FieldErrors{"N": "is too much"}
	for name, c := range map[string]struct {
		cause, err error
		want       said
	}{
		"permanent, with fields": {errDeclined, engine.Permanent(fmt.Errorf("%w: %w", errDeclined, fields)), said{Permanent: true, Fields: fields, Attempt: 1}},
		"with a code":            {errEmpty, fmt.Errorf("charge: %w", errEmpty), said{Code: errEmpty.code, Attempt: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := engine.MustDefine("read_back", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
					Undo(func(context.Context, int, int) error { return errors.New("no way back") })
				return engine.Step(b, "b", a, func(context.Context, int) (int, error) { return 0, c.err }).
					Retry(2, engine.Fixed(0)).Compensate(func(context.Context, int, error) error { panic("no cleaning") })
			})
			h := newHost(t, engine.Config{}, r)
			_, err := r.Run(t.Context(), h.Engine, 1)
			live := failureIn(t, err)
			if live.Permanent != c.want.Permanent || live.Attempt != c.want.Attempt || live.Code != c.want.Code || !cmp.Equal(live.Fields, c.want.Fields) || !errors.Is(live, c.cause) {
				t.Errorf("in the process that ran it: %+v", saidBy(live))
			}
			other := h.beside(t, engine.Config{}, r)
			found, err := r.Find(t.Context(), other.Engine, live.RunID)
			if err != nil {
				t.Fatal(err)
			}
			_, err = found.Wait(t.Context())
			for place, stored := range map[string]*engine.RunError{"waiting": failureIn(t, err), "view": other.view(t, live.RunID).Failure} {
				if diff := cmp.Diff(saidBy(live), saidBy(stored)); diff != "" {
					t.Errorf("%s (-live +stored):\n%s", place, diff)
				}
				if errors.Is(stored, c.cause) {
					t.Errorf("%s: it matches the body's own error", place)
				}
				if len(stored.Rollback) != 2 {
					t.Fatalf("%s: rollback failures %v", place, stored.Rollback)
				}
				for i, want := range []string{"compensate b: panicked, compensate b: panic: no cleaning", "undo a: returned_error, undo a: no way back"} {
					f := stored.Rollback[i]
					if got := fmt.Sprintf("%s %s: %s, %s", f.Kind, f.Node, f.Reason, f.Error()); got != want || f.At.IsZero() {
						t.Errorf("%s: %s at %s, want %s", place, got, f.At, want)
					}
				}
			}
		})
	}
}

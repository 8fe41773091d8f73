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

// spec: C-858
func TestGuardHookRefuses(t *testing.T) {
	t.Parallel()
	refused := errors.New("not on the list")
	for name, c := range map[string]struct {
		refuse  func(attempt int) error
		trace   string
		attempt int
	}{
		"at once":       {func(int) error { return refused }, "run a, undo a", 1},
		"permanently":   {func(int) error { return engine.Permanent(refused) }, "run a, undo a", 1},
		"after a begin": {func(attempt int) error { return map[int]error{2: refused}[attempt] }, "run a, run b, compensate b, undo a", 2},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				r := pair(func(context.Context, int) (int, error) { return 0, errDeclined }, func(_ *engine.Builder, n *engine.StepNode[int, int]) {
					n.Retry(5, engine.Fixed(0)).Guard(func(ctx context.Context, _ int) error { return c.refuse(engine.RunFrom(ctx).Attempt) })
				})
				h, _, err := runAt(t, place, r, engine.Config{}, 1)
				failure := failureIn(t, err)
				if failure.Node != "b" || failure.Attempt != c.attempt || !strings.Contains(err.Error(), "not on the list") {
					t.Errorf("%+v", failure)
				}
				if got := strings.Join(h.view(t, failure.RunID).Trace, ", "); got != c.trace {
					t.Errorf("trace %s, want %s", got, c.trace)
				}
			})
		}
	}
}

// spec: C-859
func TestGuardHookSkipsAndHalts(t *testing.T) {
	t.Parallel()
	guarded := func(signal error) *engine.Reactor[int, int] {
		return pair(func(context.Context, int) (int, error) { return 0, errors.New("b ran") }, func(b *engine.Builder, n *engine.StepNode[int, int]) {
			n.Guard(func(context.Context, int) error { return signal })
			engine.Do(b, "c", n, func(_ context.Context, n int) error {
				if n != 0 {
					return fmt.Errorf("c got %d", n)
				}
				return nil
			})
		})
	}
	for _, place := range places {
		h, res, err := runAt(t, place, guarded(engine.Skip("nothing to do")), engine.Config{}, 1)
		if err != nil || res.Status != engine.Completed || res.Value != 0 {
			t.Errorf("skip: %+v, %v", res, err)
		}
		if got := strings.Join(h.view(t, res.RunID).Trace, ", "); got != "run a, skipped b, run c" {
			t.Errorf("trace %s", got)
		}
		_, res, err = runAt(t, place, guarded(engine.Halt("closed today")), engine.Config{}, 1)
		if err != nil || res.Status != engine.Halted || res.Node != "b" || res.Reason != "closed today" {
			t.Errorf("halt: %+v, %v", res, err)
		}
	}
}

// The zero value that a guard hook skips with has a contract like any result.
// spec: C-859
func TestGuardHookSkipsWithABadZeroValue(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("zero", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[positive] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
			Undo(func(context.Context, int, int) error { return nil })
		return engine.Step(b, "b", a, func(context.Context, int) (positive, error) { return positive{1}, nil }).
			Guard(func(context.Context, int) error { return engine.Skip("nothing to do") }).
			Compensate(func(context.Context, int, error) error { t.Error("compensated"); return nil })
	})
	h, _, err := runAt(t, "here", r, engine.Config{}, 1)
	failure := failureIn(t, err)
	if failure.Code != "contract" || failure.Fields["N"] == "" {
		t.Errorf("%+v", failure)
	}
	if diff := cmp.Diff([]string{"run a", "undo a"}, h.view(t, failure.RunID).Trace); diff != "" {
		t.Error(diff)
	}
}

// spec: C-860, C-861
func TestGuardHookHasTheLimitOfTheAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guard func(ctx context.Context) error
		code  string
	}{
		"waits":  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "timeout"},
		"panics": {func(context.Context) error { panic("no list") }, "panic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine.InMemoryWith()
			r := pair(func(context.Context, int) (int, error) { t.Error("b ran"); return 0, nil }, func(_ *engine.Builder, n *engine.StepNode[int, int]) {
				n.Timeout(10*time.Millisecond).Retry(3, engine.Fixed(0)).Guard(func(ctx context.Context, _ int) error {
					if _, limited := ctx.Deadline(); !limited || engine.RunFrom(ctx).Phase != "guard" || engine.RunFrom(ctx).Path != "b" {
						t.Errorf("limited %t, %+v", limited, engine.RunFrom(ctx))
					}
					return c.guard(ctx)
				})
			})
			_, err := r.Run(t.Context(), e, 1)
			failure := failureIn(t, err)
			if failure.Node != "b" || failure.Code != c.code || failure.Attempt != 1 || (c.code == "timeout") != errors.Is(err, engine.ErrTimeout) {
				t.Errorf("%+v", failure)
			}
			if v, err := e.Get(t.Context(), failure.RunID); err != nil || strings.Join(v.Trace, ", ") != "run a, undo a" {
				t.Errorf("trace %v, %v", v.Trace, err)
			}
		})
	}
}

// A body whose guard hook took time has what is left of the limit.
// spec: C-861
func TestLimitCountsFromTheGuardHook(t *testing.T) {
	t.Parallel()
	var hook, body time.Time
	r := pair(func(ctx context.Context, n int) (int, error) { body, _ = ctx.Deadline(); return n, nil }, func(_ *engine.Builder, n *engine.StepNode[int, int]) {
		n.Timeout(time.Hour).Guard(func(ctx context.Context, _ int) error { hook, _ = ctx.Deadline(); return nil })
	})
	if _, err := r.Run(t.Context(), engine.InMemoryWith(), 1); err != nil || hook.IsZero() || !hook.Equal(body) {
		t.Errorf("limits %s and %s, %v", hook, body, err)
	}
}

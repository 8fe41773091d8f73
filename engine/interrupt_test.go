package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// pair is a -> b; what they do is given.
func pair(b func(context.Context, int) (int, error), settle func(*engine.Builder, *engine.StepNode[int, int])) *engine.Reactor[int, int] {
	return engine.MustDefine("pair", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(d, "a", in, func(_ context.Context, n int) (int, error) { return n + 1, nil }).
			Undo(func(context.Context, int, int) error { return nil })
		node := engine.Step(d, "b", a, b).Compensate(func(context.Context, int, error) error { return nil })
		if settle != nil {
			settle(d, node)
		}
		return node
	})
}

var errCaller = errors.New("the caller has had enough")

// spec: C-5, C-188, C-197, C-317, C-318, C-321, C-968, C-206
func TestCallerInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body func(ctx context.Context, cancel func()) (int, error)
		undo []string
	}{
		"the body returns its context's error": {func(ctx context.Context, cancel func()) (int, error) { cancel(); <-ctx.Done(); return 0, ctx.Err() }, []string{"b", "a"}},
		"the body returns another error":       {func(ctx context.Context, cancel func()) (int, error) { cancel(); return 0, errors.New("broken pipe") }, []string{"b", "a"}},
		"the body returns a result":            {func(ctx context.Context, cancel func()) (int, error) { cancel(); return 5, nil }, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			e := engine.InMemoryWith()
			r := engine.MustDefine("three", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				a := engine.Step(d, "a", in, func(_ context.Context, n int) (int, error) { return n + 1, nil })
				b := engine.Step(d, "b", a, func(ctx context.Context, _ int) (int, error) { return c.body(ctx, func() { cancel(errCaller) }) })
				return engine.Step(d, "c", b, func(context.Context, int) (int, error) { t.Error("c ran"); return 0, nil })
			})
			res, err := r.Run(ctx, e, 1)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errCaller) {
				t.Errorf("the caller got %v", err)
			}
			if _, failed := errors.AsType[*engine.RunError](err); failed {
				t.Error("an interruption is no failure")
			}
			if res.Status != engine.Aborted {
				t.Errorf("status %s", res.Status)
			}
			view, err := e.Get(t.Context(), res.RunID)
			if err != nil || view.Status != engine.Aborted {
				t.Fatal(view.Status, err)
			}
			if diff := cmp.Diff(c.undo, view.ToUndo); diff != "" {
				t.Errorf("left to undo (-want +got):\n%s", diff)
			}
			h, err := r.Find(t.Context(), e, res.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Wait(t.Context()); !errors.Is(err, engine.ErrAborted) || !strings.Contains(err.Error(), "left to undo: b, a") {
				t.Errorf("Wait: %v", err)
			}
		})
	}
}

// spec: C-861, C-862, C-141, C-324, C-902
func TestTimeoutOfAnAttempt(t *testing.T) {
	t.Parallel()
	e := engine.InMemoryWith()
	var attempts atomic.Int32
	r := pair(func(ctx context.Context, _ int) (int, error) {
		attempts.Add(1)
		<-ctx.Done()
		if context.Cause(ctx) != engine.ErrTimeout || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("cause %v, err %v", context.Cause(ctx), ctx.Err())
		}
		return 0, fmt.Errorf("call bank: %w", ctx.Err())
	}, func(_ *engine.Builder, n *engine.StepNode[int, int]) {
		n.Timeout(5*time.Millisecond).Retry(2, engine.Fixed(0))
	})
	_, err := r.Run(t.Context(), e, 1)
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || attempts.Load() != 2 || failure.Attempt != 2 {
		t.Fatalf("%v after %d attempts", err, attempts.Load())
	}
	if failure.Code != "timeout" || !errors.Is(err, engine.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "b timed out after 5ms") {
		t.Errorf("code %q: %v", failure.Code, err)
	}
	view, err := e.Get(t.Context(), failure.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if stored := view.Failure; stored.Code != "timeout" || !errors.Is(stored, engine.ErrTimeout) || !errors.Is(stored, context.DeadlineExceeded) {
		t.Errorf("reloaded: code %q, %v", stored.Code, stored)
	}
}

// spec: C-862, C-874
func TestResultAfterTheLimitIsKept(t *testing.T) {
	t.Parallel()
	r := pair(func(ctx context.Context, n int) (int, error) { <-ctx.Done(); return n, nil },
		func(d *engine.Builder, _ *engine.StepNode[int, int]) { d.Timeout(5 * time.Millisecond) })
	if res, err := r.Run(t.Context(), engine.InMemoryWith(), 1); err != nil || res.Value != 2 {
		t.Errorf("%+v, %v", res, err)
	}
}

// spec: C-864, C-902, C-203
func TestDeadlineOfARun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   func(context.Context, int) (int, error)
		retry  int
		trace  []string
		cause  bool
		inside bool
	}{
		"in a body": {body: func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			if context.Cause(ctx) != engine.ErrDeadline {
				return 0, fmt.Errorf("cause %w", context.Cause(ctx))
			}
			return 0, errors.New("stopped in time")
		}, retry: 3, trace: []string{"run a", "run b", "compensate b", "undo a"}},
		"between two attempts": {body: func(context.Context, int) (int, error) { return 0, errors.New("try again") },
			retry: 3, trace: []string{"run a", "run b", "compensate b", "undo a"}},
	} {
		for place, run := range map[string]func(*engine.Reactor[int, int], *engine.Engine) error{
			"here": func(r *engine.Reactor[int, int], e *engine.Engine) error {
				_, err := r.Run(t.Context(), e, 1)
				return err
			},
			"by workers": func(r *engine.Reactor[int, int], e *engine.Engine) error {
				h, _ := r.Start(t.Context(), e, 1)
				_, err := h.Wait(t.Context())
				return err
			},
		} {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				e := engine.InMemoryWith()
				r := pair(c.body, func(d *engine.Builder, n *engine.StepNode[int, int]) {
					d.Deadline(50 * time.Millisecond)
					n.Retry(c.retry, engine.Fixed(time.Hour))
				})
				err := run(r, e)
				failure, ok := errors.AsType[*engine.RunError](err)
				if !ok || failure.Code != "deadline" || failure.Node != "b" || !failure.Permanent || !strings.Contains(err.Error(), "deadline of 50ms has passed") {
					t.Fatalf("%v", err)
				}
				if !errors.Is(err, engine.ErrDeadline) {
					t.Errorf("%v does not match ErrDeadline", err)
				}
				view, err := e.Get(t.Context(), failure.RunID)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.trace, view.Trace); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// spec: C-853, C-854, C-268, C-612
func TestPanics(t *testing.T) {
	t.Parallel()
	var none map[string]int
	var nothing *order
	zero := 0
	for name, c := range map[string]struct {
		body func()
		text string
	}{
		"string":       {func() { panic("out of paper") }, "panic: out of paper"},
		"error":        {func() { panic(errCaller) }, "panic: " + errCaller.Error()},
		"nil":          {func() { panic(nil) }, "panic: "}, //nolint:govet // a nil panic is the case
		"nil map":      {func() { none["x"] = 1 }, "panic: assignment to entry in nil map"},
		"nil pointer":  {func() { nothing.Card = "x" }, "nil pointer"},
		"division":     {func() { _ = 1 / zero }, "divide by zero"},
		"deep":         {func() { deep(10_000) }, "panic: deep"},
		"goexit":       {func() { runtime.Goexit() }, "runtime.Goexit"},
		"error panics": {func() { panic(angry{}) }, "panic: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine.InMemoryWith()
			r := pair(func(context.Context, int) (int, error) { c.body(); return 0, nil }, nil)
			_, err := r.Run(t.Context(), e, 1)
			failure, ok := errors.AsType[*engine.RunError](err)
			if !ok || failure.Node != "b" || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v", err)
			}
			if len(failure.Stack) > 101 || (name != "goexit") != (len(failure.Stack) > 0) {
				t.Errorf("%d frames", len(failure.Stack))
			}
			if name == "deep" && !strings.Contains(failure.Stack[100], "more") {
				t.Errorf("the last line of a cut stack is %q", failure.Stack[100])
			}
			view, err := e.Get(t.Context(), failure.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"run a", "run b", "compensate b", "undo a"}, view.Trace); diff != "" {
				t.Error(diff)
			}
			healthy := pair(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
			if res, err := healthy.Run(t.Context(), engine.InMemoryWith(), 1); err != nil || res.Value != 2 {
				t.Errorf("the next run: %+v, %v", res, err)
			}
		})
	}
}

func deep(n int) {
	if n == 0 {
		panic("deep")
	}
	deep(n - 1)
}

// angry is an error whose text panics.
type angry struct{}

func (angry) Error() string { panic("no text") }

// spec: C-863, K-381
func TestBodyThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	returned := make(chan struct{})
	compensated := false
	r := engine.MustDefine("slow", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(d, "a", in, func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			timer := time.NewTimer(50 * time.Millisecond)
			<-timer.C
			close(returned)
			return 0, errors.New("late")
		}).Timeout(time.Millisecond).Compensate(func(context.Context, int, error) error {
			select {
			case <-returned:
				compensated = true
			default:
				t.Error("compensated beside the running body")
			}
			return nil
		})
	})
	if _, err := r.Run(t.Context(), engine.InMemoryWith(), 1); err == nil || !compensated {
		t.Errorf("%v, compensated %t", err, compensated)
	}
}

// spec: C-890, C-891, C-301
func TestHooksHaveALiveContextOfTheirOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	type key struct{}
	ctx = context.WithValue(ctx, key{}, "kept")
	var seen []string
	r := engine.MustDefine("hooks", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(d, "a", in, func(context.Context, int) (int, error) { return 1, nil }).
			Timeout(20 * time.Millisecond).Undo(func(ctx context.Context, _, _ int) error { <-ctx.Done(); return ctx.Err() })
		b := engine.Step(d, "b", a, func(context.Context, int) (int, error) { return 1, nil }).
			Undo(func(ctx context.Context, _, _ int) error {
				cancel()
				seen = append(seen, fmt.Sprintf("%v %v", ctx.Err(), ctx.Value(key{})))
				return nil
			})
		return engine.Step(d, "c", b, func(context.Context, int) (int, error) { return 0, errors.New("no") }).
			Compensate(func(ctx context.Context, _ int, cause error) error {
				_, bounded := ctx.Deadline()
				seen = append(seen, fmt.Sprintf("%v %t %v", ctx.Err(), bounded, cause))
				return nil
			})
	})
	_, err := r.Run(ctx, engine.InMemoryWith(), 1)
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || len(failure.Rollback) != 1 || failure.Rollback[0].Reason != "timed_out" || failure.Rollback[0].Node != "a" {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff([]string{"<nil> true no", "<nil> kept"}, seen); diff != "" {
		t.Error(diff)
	}
}

// spec: K-905, C-993, K-703, C-82
func TestCloseHandsRunsBack(t *testing.T) {
	t.Parallel()
	e := engine.InMemoryConfig(engine.Config{Logger: slog.New(slog.DiscardHandler)})
	at, goOn := make(chan struct{}), make(chan struct{})
	r := pair(func(ctx context.Context, _ int) (int, error) { close(at); <-goOn; return 3, nil },
		func(d *engine.Builder, n *engine.StepNode[int, int]) {
			engine.Step(d, "c", n, func(context.Context, int) (int, error) { t.Error("c ran"); return 0, nil })
		})
	type back struct {
		res engine.Result[int]
		err error
	}
	came := make(chan back, 1)
	go func() {
		res, err := r.Run(t.Context(), e, 1)
		came <- back{res, err}
	}()
	<-at
	closed := make(chan error, 1)
	go func() { closed <- e.Close(t.Context()) }()
	other := engine.MustDefine("other", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(d, "a", in, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if _, err := other.Run(t.Context(), e, 1); errors.Is(err, engine.ErrShutdown) {
			break
		} else if err != nil || time.Now().After(deadline) {
			t.Fatalf("a run of a closing engine: %v", err)
		}
	}
	close(goOn)
	if got := <-came; got.err != nil || got.res.Status != engine.Running {
		t.Errorf("the caller got %+v, %v", got.res, got.err)
	} else if view, err := e.Get(t.Context(), got.res.RunID); err != nil || view.Owner != "" || view.Waiting != "a worker" || !slices.Equal(view.Trace, []string{"run a", "run b"}) {
		t.Errorf("handed back: %+v, %v", view, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// tale is a, b and c in a row, with d beside them; all have hooks. What b gives
// is the test's, c fails if it is told to.
func tale(bo *booth, attempts int, b func(context.Context, int) (int, error), cFails bool) *engine.Reactor[int, int] {
	return engine.MustDefine("tale", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		step := func(name string, in engine.Ref[int], body func(context.Context, int) (int, error)) *engine.StepNode[int, int] {
			return engine.Step(d, name, in, func(ctx context.Context, n int) (int, error) {
				bo.note(fmt.Sprintf("run %s %d", name, n))
				return body(ctx, n)
			}).
				Undo(func(_ context.Context, _, out int) error { bo.note(fmt.Sprintf("undo %s %d", name, out)); return nil }).
				Compensate(func(context.Context, int, error) error { bo.note("compensate " + name); return nil })
		}
		a := step("a", in, func(_ context.Context, n int) (int, error) { return n + 1, nil })
		told := step("b", a, b).Retry(attempts, engine.Fixed(time.Millisecond))
		c := step("c", told, func(_ context.Context, n int) (int, error) {
			if cFails {
				return 0, errors.New("c fails")
			}
			return n + 1, nil
		})
		step("d", in, func(_ context.Context, n int) (int, error) { return n, nil })
		return c
	})
}

// An outcome is how a run of tale came out.
type outcome struct {
	Status               engine.Status
	Value                int
	Reason, Node, Failed string
	Calls                string
	States               string // of a, b, c and d
	B                    string // value, reason and failure of b
	Trace                []string
	ToUndo               []string
}

func outcomeOf(h *host, t *testing.T, bo *booth, res engine.Result[int], err error) outcome {
	t.Helper()
	o := outcome{Status: res.Status, Value: res.Value, Reason: res.Reason, Node: res.Node, Calls: bo.noted()}
	if err != nil {
		o.Failed = failureIn(t, err).Node
	}
	v := h.view(t, res.RunID)
	for _, n := range v.Nodes {
		o.States += n.Path + " " + n.State + " "
	}
	b := nodeAt(v, "b")
	o.B = fmt.Sprintf("%s %s %s", b.Output, b.Reason, b.Failure)
	o.Trace, o.ToUndo = v.Trace, v.ToUndo
	return o
}

// spec: C-128..C-132, C-134..C-136
// spec: C-137, C-143, C-144, C-146..C-149
// spec: C-155..C-158, C-850
func TestEndsOfAnAttempt(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return fmt.Errorf("outer: %w", errors.Join(errors.New("beside"), fmt.Errorf("inner: %w", err)))
	}
	halted := outcome{
		Status: engine.Halted, Reason: "stop", Node: "b", Calls: "run a 1, run b 2", States: "a done b halted c pending d pending ",
		B: " stop ", Trace: []string{"run a", "run b", "halt b"}, ToUndo: []string{"a"},
	}
	skipped := outcome{
		Status: engine.Completed, Value: 8, Calls: "run a 1, run b 2, run c 7, run d 1", States: "a done b skipped c done d done ",
		B: "7 nothing to do ", Trace: []string{"run a", "run b", "skipped b", "run c", "run d"}, ToUndo: []string{"d", "c", "a"},
	}
	for name, c := range map[string]struct {
		gives  func() (int, error)
		cFails bool
		want   outcome
	}{
		"a value": {func() (int, error) { return 7, nil }, false, outcome{
			Status: engine.Completed, Value: 8, Calls: "run a 1, run b 2, run c 7, run d 1", States: "a done b done c done d done ",
			B: "7  ", Trace: []string{"run a", "run b", "run c", "run d"}, ToUndo: []string{"d", "c", "b", "a"},
		}},
		"a value, and c fails": {func() (int, error) { return 7, nil }, true, outcome{
			Status: engine.Failed, Failed: "c", Calls: "run a 1, run b 2, run c 7, compensate c, undo b 7, undo a 2", States: "a done b done c failed d pending ",
			B: "7  ", Trace: []string{"run a", "run b", "run c", "compensate c", "undo b", "undo a"},
		}},
		"a zero value": {func() (int, error) { return 0, nil }, true, outcome{
			Status: engine.Failed, Failed: "c", Calls: "run a 1, run b 2, run c 0, compensate c, undo b 0, undo a 2", States: "a done b done c failed d pending ",
			B: "0  ", Trace: []string{"run a", "run b", "run c", "compensate c", "undo b", "undo a"},
		}},
		"a skip":         {func() (int, error) { return 7, engine.Skip("nothing to do") }, false, skipped},
		"a wrapped skip": {func() (int, error) { return 7, wrap(wrap(engine.Skip("nothing to do"))) }, false, skipped},
		"a skip, and c fails": {func() (int, error) { return 7, engine.Skip("nothing to do") }, true, outcome{
			Status: engine.Failed, Failed: "c", Calls: "run a 1, run b 2, run c 7, compensate c, undo a 2", States: "a done b skipped c failed d pending ",
			B: "7 nothing to do ", Trace: []string{"run a", "run b", "skipped b", "run c", "compensate c", "undo a"},
		}},
		"a halt":         {func() (int, error) { return 7, engine.Halt("stop") }, false, halted},
		"a wrapped halt": {func() (int, error) { return 7, wrap(wrap(engine.Halt("stop"))) }, false, halted},
		"an error": {func() (int, error) { return 7, errors.New("no") }, false, outcome{
			Status: engine.Failed, Failed: "b", Calls: "run a 1, run b 2, compensate b, undo a 2", States: "a done b failed c pending d pending ",
			B: "  no", Trace: []string{"run a", "run b", "compensate b", "undo a"},
		}},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				bo := &booth{}
				r := tale(bo, 1, func(context.Context, int) (int, error) { return c.gives() }, c.cFails)
				h, res, err := runAt(t, place, r, engine.Config{}, 1)
				if diff := cmp.Diff(c.want, outcomeOf(h, t, bo, res, err)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				other := h.beside(t, engine.Config{}, r)
				found, err := r.Find(t.Context(), other.Engine, res.RunID)
				if err != nil {
					t.Fatal(err)
				}
				again, err := found.Wait(t.Context())
				if diff := cmp.Diff(c.want, outcomeOf(other, t, bo, again, err)); diff != "" {
					t.Errorf("after a reload (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// spec: C-851, C-852
func TestSeveralSignalsInOneError(t *testing.T) {
	t.Parallel()
	halt, skip, cause := engine.Halt("stop"), engine.Skip("nothing to do"), errors.New("no")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"halt and skip":             {errors.Join(skip, halt), "halted 0 stop, 1 attempt(s)"},
		"skip in a permanent":       {engine.Permanent(skip), "completed 8 , 1 attempt(s)"},
		"halt in a permanent":       {engine.Permanent(fmt.Errorf("x: %w", halt)), "halted 0 stop, 1 attempt(s)"},
		"all three":                 {errors.Join(engine.Permanent(cause), skip, halt), "halted 0 stop, 1 attempt(s)"},
		"permanent and skip":        {errors.Join(engine.Permanent(cause), skip), "completed 8 , 1 attempt(s)"},
		"permanent":                 {fmt.Errorf("x: %w", engine.Permanent(cause)), "failed 0 , 1 attempt(s)"},
		"permanent beside an error": {errors.Join(cause, engine.Permanent(cause)), "failed 0 , 1 attempt(s)"},
		"none of them":              {cause, "failed 0 , 2 attempt(s)"},
		"a permanent nil":           {engine.Permanent(nil), "completed 8 , 1 attempt(s)"},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				bo := &booth{}
				r := tale(bo, 2, func(context.Context, int) (int, error) { return 7, c.err }, false)
				h, res, err := runInTurns(t, place, r, 1)
				if err != nil && failureIn(t, err).Permanent != (name != "none of them") {
					t.Errorf("permanent is %t", failureIn(t, err).Permanent)
				}
				b := nodeAt(h.view(t, res.RunID), "b")
				if got := fmt.Sprintf("%s %d %s, %d attempt(s)", res.Status, res.Value, res.Reason, b.Attempts); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if dropped := res.Status != engine.Completed; dropped != (b.Output == nil) {
					t.Errorf("stored result %s", b.Output)
				}
			})
		}
	}
	if err := engine.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) is %v", err)
	}
}

// runInTurns is runAt for runs with pauses between attempts.
func runInTurns[In, Out any](t *testing.T, place string, r *engine.Reactor[In, Out], in In) (*host, engine.Result[Out], error) {
	t.Helper()
	h := newHost(t, engine.Config{}, r)
	if place == "here" {
		res, err := r.Run(t.Context(), h.Engine, in)
		return h, res, err
	}
	res, err := inProcesses(t, h, r, in, engine.Config{})
	return h, res, err
}

// spec: C-150, C-158
func TestSignalAfterFailedAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal error
		want   outcome
	}{
		"halt": {engine.Halt("stop"), outcome{
			Status: engine.Halted, Reason: "stop", Node: "b", Calls: "run a 1, run b 2, run b 2", States: "a done b halted c pending d pending ",
			B: " stop ", Trace: []string{"run a", "run b", "run b", "halt b"}, ToUndo: []string{"a"},
		}},
		"skip": {engine.Skip("nothing to do"), outcome{
			Status: engine.Completed, Value: 8, Calls: "run a 1, run b 2, run b 2, run c 7, run d 1", States: "a done b skipped c done d done ",
			B: "7 nothing to do ", Trace: []string{"run a", "run b", "run b", "skipped b", "run c", "run d"}, ToUndo: []string{"d", "c", "a"},
		}},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				bo := &booth{}
				r := tale(bo, 5, func(ctx context.Context, _ int) (int, error) {
					if engine.RunFrom(ctx).Attempt == 1 {
						return 0, errors.New("trouble")
					}
					return 7, c.signal
				}, false)
				h, res, err := runInTurns(t, place, r, 1)
				if diff := cmp.Diff(c.want, outcomeOf(h, t, bo, res, err)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if rec := h.record(t, res.RunID); rec.Failure != nil {
					t.Errorf("the run keeps a failure: %s", rec.Failure)
				}
			})
		}
	}
}

// An eager error asks to be tried again, in all ways that are usual.
type eager struct{}

func (eager) Error() string             { return "try again" }
func (eager) Temporary() bool           { return true }
func (eager) Timeout() bool             { return true }
func (eager) Retry() bool               { return true }
func (eager) Retryable() bool           { return true }
func (eager) RetryAfter() time.Duration { return time.Millisecond }

// spec: C-142, C-138
func TestErrorsCreateNoRetries(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]string{1: "run a 1, run b 2, compensate b, undo a 2", 2: "run a 1, run b 2, run b 2, compensate b, undo a 2"} {
		for _, place := range places {
			bo := &booth{}
			_, _, err := runInTurns(t, place, tale(bo, attempts, func(context.Context, int) (int, error) { return 0, eager{} }, false), 1)
			if failure := failureIn(t, err); failure.Attempt != attempts || bo.noted() != want {
				t.Errorf("%d attempt(s), %s: %v, %s", attempts, place, err, bo.noted())
			}
		}
	}
}

// A panic in a hook is a panic, whatever its value.
//
// spec: C-853
func TestHookThatPanicsWithASignal(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("loud", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(d, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
			Undo(func(context.Context, int, int) error { panic(engine.Skip("nothing to undo")) })
		return engine.Step(d, "b", a, func(context.Context, int) (int, error) { panic(engine.Halt("stop")) }).
			Compensate(func(context.Context, int, error) error { panic(engine.Halt("stop")) })
	})
	for _, place := range places {
		_, res, err := runAt(t, place, r, engine.Config{}, 1)
		failure := failureIn(t, err)
		if res.Status != engine.Failed || failure.Node != "b" || failure.Code != "panic" || len(failure.Rollback) != 2 {
			t.Fatalf("%s: %v", place, err)
		}
		for _, f := range failure.Rollback {
			if f.Reason != "panicked" {
				t.Errorf("%s of %s: %s", f.Kind, f.Node, f.Reason)
			}
		}
	}
}

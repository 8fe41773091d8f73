package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// A stay is valid as a whole: it ends after it begins.
type stay struct{ From, To int }

// Validate compares two fields.
func (s stay) Validate() error {
	wrong := engine.FieldErrors{}
	if s.To <= s.From {
		wrong["To"] = fmt.Sprintf("must be after %d", s.From)
	}
	return wrong.Err()
}

// spec: C-18, C-19, C-20, C-87, C-104
func TestInvalidInputOfARun(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("hotel", func(b *engine.Builder, in engine.Ref[stay]) engine.Ref[int] {
		return engine.Step(b, "book", in, func(context.Context, stay) (int, error) { t.Error("book ran"); return 0, nil })
	})
	h := newHost(t, engine.Config{}, r)
	res, run := r.Run(t.Context(), h.Engine, stay{3, 3})
	_, start := r.Start(t.Context(), h.Engine, stay{3, 3})
	if res.Status != engine.Failed || res.RunID != failureIn(t, run).RunID {
		t.Errorf("%+v", res)
	}
	check := func(what string, failure *engine.RunError) {
		cause, ok := errors.AsType[*engine.ValidationError](failure.Err)
		if !ok && what != "stored" || ok && (cause.What != "input" || !cmp.Equal(cause.Fields, failure.Fields)) {
			t.Errorf("%s: cause %#v", what, failure.Err)
		}
		if diff := cmp.Diff(engine.FieldErrors{"To": "must be after 3"}, failure.Fields); diff != "" || !failure.Permanent || failure.Code != "contract" || failure.Node != "" {
			t.Errorf("%s: %s %#v", what, diff, failure)
		}
		if !strings.HasSuffix(failure.Error(), ": input is invalid: To: must be after 3") {
			t.Errorf("%s: %v", what, failure)
		}
	}
	for what, err := range map[string]error{"Run": run, "Start": start} {
		failure := failureIn(t, err)
		check(what, failure)
		v := h.view(t, failure.RunID)
		if v.Status != engine.Failed || v.Ended.IsZero() || len(v.Trace) != 0 || string(v.Input) != `{"From":3,"To":3}` {
			t.Errorf("%s stored %+v", what, v)
		}
		check("stored", v.Failure)
	}
	_, inTx := r.StartTx(t.Context(), h.Engine, noTx{}, stay{3, 3})
	check("StartTx", failureIn(t, inTx))
	if runOf(inTx) != "" || h.runs(t) != 2 || len(h.jobs.take()) != 0 {
		t.Errorf("StartTx names run %q; %d runs are stored", runOf(inTx), h.runs(t))
	}
}

// A booth is a -> b -> c; b's hooks and bodies are noted.
type booth struct {
	mu    sync.Mutex
	calls []string
}

func (bo *booth) note(call string) {
	bo.mu.Lock()
	defer bo.mu.Unlock()
	bo.calls = append(bo.calls, call)
}

func (bo *booth) noted() string {
	bo.mu.Lock()
	defer bo.mu.Unlock()
	return strings.Join(bo.calls, ", ")
}

// hall is a, then b on what a gave, shaped by in; body is b's.
func hall[In, Out any](bo *booth, in func(int) In, body func(context.Context, In) (Out, error)) *engine.Reactor[int, Out] {
	return engine.MustDefine("hall", func(d *engine.Builder, n engine.Ref[int]) engine.Ref[Out] {
		a := engine.Step(d, "a", n, func(_ context.Context, n int) (int, error) { bo.note("run a"); return n, nil }).
			Undo(func(context.Context, int, int) error { bo.note("undo a"); return nil })
		return engine.Step(d, "b", engine.Pick(a, in), func(ctx context.Context, v In) (Out, error) {
			bo.note("run b")
			return body(ctx, v)
		}).Retry(3, engine.Fixed(0)).
			Compensate(func(context.Context, In, error) error { bo.note("compensate b"); return nil })
	})
}

// spec: C-20, C-103, C-104, C-117..C-119, C-832
func TestBrokenContractsOfSteps(t *testing.T) {
	t.Parallel()
	good := func(int) stay { return stay{1, 2} }
	bad := func(int) stay { return stay{2, 1} }
	echo := func(_ context.Context, s stay) (stay, error) { return s, nil }
	broken := engine.FieldErrors{"To": "must be after 2"}
	for name, c := range map[string]struct {
		in     func(int) stay
		body   func(context.Context, stay) (stay, error)
		what   string
		calls  string
		fields engine.FieldErrors
	}{
		"input":           {bad, echo, "input", "run a, undo a", broken},
		"result":          {good, func(context.Context, stay) (stay, error) { return bad(0), nil }, "result", "run a, run b, compensate b, undo a", broken},
		"value of a skip": {good, func(context.Context, stay) (stay, error) { return bad(0), engine.Skip("no room") }, "result", "run a, run b, compensate b, undo a", broken},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				bo := &booth{}
				h, res, err := runAt(t, place, hall(bo, c.in, c.body), engine.Config{}, 1)
				if got := bo.noted(); got != c.calls {
					t.Errorf("got  %s\nwant %s", got, c.calls)
				}
				text := fmt.Sprintf("reactor hall, run %s: step b failed (attempt 1 of 3): %s is invalid: To: must be after 2", res.RunID, c.what)
				failure := failureIn(t, err)
				for where, f := range map[string]*engine.RunError{"live": failure, "stored": h.view(t, res.RunID).Failure} {
					if f.Error() != text || !f.Permanent || f.Code != "contract" || f.Node != "b" || !cmp.Equal(f.Fields, c.fields) {
						t.Errorf("%s: %#v", where, f)
					}
				}
				if cause, ok := errors.AsType[*engine.ValidationError](err); place == "here" && (!ok || cause.What != c.what || !cmp.Equal(cause.Fields, c.fields)) {
					t.Errorf("cause %#v", cause)
				}
			})
		}
	}
}

type (
	gaps  []int
	sizes map[string]int
	word  string
	level int
)

var errNever = errors.New("never right")

func (gaps) Validate() error   { return errNever }
func (sizes) Validate() error  { return errNever }
func (word) Validate() error   { return errNever }
func (*level) Validate() error { return errNever }

// spec: C-116, C-118
func TestResultsOfAnyTypeAreValidated(t *testing.T) {
	t.Parallel()
	refuses(t, "list", gaps{})
	refuses(t, "map", sizes(nil))
	refuses(t, "text", word("x"))
	refuses(t, "number by its pointer", level(1))
	refuses(t, "pointer", &stay{})
}

// refuses wants v to break its contract as the result of a step.
func refuses[T any](t *testing.T, name string, v T) {
	t.Helper()
	bo := &booth{}
	_, _, err := runAt(t, "here", hall(bo, func(n int) int { return n }, func(context.Context, int) (T, error) { return v, nil }), engine.Config{}, 1)
	if failure := failureIn(t, err); failure.Code != "contract" || failure.Node != "b" || bo.noted() != "run a, run b, compensate b, undo a" {
		t.Errorf("%s: %v, %s", name, err, bo.noted())
	}
}

// A result that can't be stored is one of a body that ran, an input one of a
// body that did not.
//
// spec: C-832, C-835
func TestValuesThatCanNotBeStored(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		in, out float64
		text    string
		result  string
		calls   string
	}{
		"result":         {1, math.NaN(), "result field V is NaN, which can't be stored", "", "run a, run b, compensate b, undo a"},
		"input":          {math.NaN(), 1, "its input could not be made: input field V is NaN, which can't be stored", "", "run a, undo a"},
		"result too big": {1, 1, "result is 117 bytes, the limit is 60 bytes: store it elsewhere and return its id, or raise Config.Limits.Value", long, "run a, run b, compensate b, undo a"},
	} {
		for _, place := range places {
			type sized struct {
				V    float64
				Text string
			}
			bo := &booth{}
			r := hall(bo, func(int) sized { return sized{V: c.in} }, func(context.Context, sized) (sized, error) { return sized{c.out, c.result}, nil })
			_, _, err := runAt(t, place, r, engine.Config{Limits: engine.Limits{Value: 60}}, 1)
			failure := failureIn(t, err)
			if failure.Code != "value" || !failure.Permanent || failure.Node != "b" || !strings.HasSuffix(err.Error(), "step b failed (attempt 1 of 3): "+c.text) {
				t.Errorf("%s, %s: %v", name, place, err)
			}
			if refused, ok := errors.AsType[*engine.EncodingError](err); place == "here" && (!ok || refused.Node != "b") {
				t.Errorf("%s: %#v", name, refused)
			}
			if bo.noted() != c.calls {
				t.Errorf("%s, %s: %s", name, place, bo.noted())
			}
		}
	}
}

// spec: C-13, C-99, C-100, C-1013
func TestInputIsValidatedBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			bo := &booth{}
			validator := func(v any) error {
				if s, ok := v.(stay); ok {
					bo.note(fmt.Sprintf("validate %d-%d", s.From, s.To))
				}
				return nil
			}
			var tries atomic.Int32
			r := engine.MustDefine("twice", func(d *engine.Builder, in engine.Ref[stay]) engine.Ref[int] {
				return engine.Step(d, "b", engine.Pick(in, func(s stay) stay { return stay{s.From, s.To + 1} }), func(context.Context, stay) (int, error) {
					bo.note("run b")
					if tries.Add(1) < 3 {
						return 0, errors.New("again")
					}
					return 1, nil
				}).Retry(3, engine.Fixed(time.Millisecond))
			})
			h := newHost(t, engine.Config{Validator: validator}, r)
			run := func() (engine.Result[int], error) { return r.Run(t.Context(), h.Engine, stay{1, 2}) }
			if place == "by workers" {
				run = func() (engine.Result[int], error) {
					return inProcesses(t, h, r, stay{1, 2}, engine.Config{Validator: validator})
				}
			}
			if _, err := run(); err != nil {
				t.Fatal(err)
			}
			want := "validate 1-2" + strings.Repeat(", validate 1-3, run b", 3)
			if got := bo.noted(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// inProcesses has each turn of a run driven by a process of its own.
func inProcesses[In, Out any](t *testing.T, h *host, r *engine.Reactor[In, Out], in In, config engine.Config) (engine.Result[Out], error) {
	t.Helper()
	started, err := r.Start(t.Context(), h.Engine, in)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the run has ended", func() bool {
		if err := h.store.Wake(t.Context(), []string{started.ID}); err != nil {
			t.Fatal(err)
		}
		for _, w := range h.jobs.take() {
			if err := h.beside(t, config, r).Drive(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		return h.view(t, started.ID).Status.Final()
	})
	return started.Wait(t.Context())
}

// A contract that is kept at the first attempt and broken at the second fails a
// step whose body has begun.
//
// spec: C-100, C-103
func TestInputThatTurnsInvalid(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	bo := &booth{}
	r := hall(bo, func(int) stay { return stay{1, 2} }, func(context.Context, stay) (int, error) { return 0, errors.New("again") })
	_, _, err := runAt(t, "here", r, engine.Config{Validator: func(v any) error {
		if _, ok := v.(stay); ok && seen.Add(1) == 2 {
			return engine.FieldErrors{"From": "is in the past by now"}
		}
		return nil
	}}, 1)
	if failure := failureIn(t, err); failure.Attempt != 2 || failure.Fields["From"] != "is in the past by now" {
		t.Errorf("%v", err)
	}
	if got, want := bo.noted(), "run a, run b, compensate b, undo a"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// spec: C-101, C-102
func TestHooksGetTheInputUnchecked(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			bo := &booth{}
			var strict atomic.Bool
			body := func(name string, fail bool) func(context.Context, []int) ([]int, error) {
				return func(_ context.Context, in []int) ([]int, error) {
					bo.note(fmt.Sprintf("run %s %v", name, in))
					in[0] = 99 // what the body does to its copy is its own business
					if fail {
						strict.Store(true)
						return nil, errors.New("no")
					}
					return []int{1, 2}, nil
				}
			}
			r := engine.MustDefine("hooked", func(d *engine.Builder, in engine.Ref[[]int]) engine.Ref[[]int] {
				a := engine.Step(d, "a", in, body("a", false)).
					Undo(func(_ context.Context, in, out []int) error {
						bo.note(fmt.Sprintf("undo a %v %v", in, out))
						return nil
					})
				return engine.Step(d, "b", a, body("b", true)).
					Compensate(func(_ context.Context, in []int, _ error) error {
						bo.note(fmt.Sprintf("compensate b %v", in))
						return nil
					})
			})
			_, _, err := runAt(t, place, r, engine.Config{Validator: func(any) error {
				if strict.Load() {
					return errors.New("nothing is right any more")
				}
				return nil
			}}, []int{7, 8})
			if failure := failureIn(t, err); len(failure.Rollback) != 0 {
				t.Errorf("%v", err)
			}
			if got, want := bo.noted(), "run a [7 8], run b [1 2], compensate b [1 2], undo a [7 8] [1 2]"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// spec: C-825
func TestValuesAreEncodedBetweenNodes(t *testing.T) {
	t.Parallel()
	type box struct {
		Shown  map[string]int
		At     time.Time
		hidden int
	}
	now := time.Now()
	made := box{Shown: map[string]int{"a": 1}, At: now, hidden: 3}
	r := engine.MustDefine("borders", func(b *engine.Builder, in engine.Ref[*box]) engine.Ref[*box] {
		step := func(name string, in engine.Ref[*box]) *engine.StepNode[*box, *box] {
			return engine.Step(b, name, in, func(_ context.Context, got *box) (*box, error) {
				if got.hidden != 0 || got.Shown["a"] != 1 || len(got.Shown) != 1 || !got.At.Equal(now) || strings.Contains(got.At.String(), "m=") {
					t.Errorf("%s got %+v", name, got)
				}
				got.Shown["a"], got.hidden = 2, 4 // nobody else's
				return &box{Shown: map[string]int{"a": 1}, At: now, hidden: 5}, nil
			})
		}
		return step("c", engine.Join2(step("a", in), step("b", in), func(a, _ *box) *box { return a }))
	})
	_, res, err := runAt(t, "here", r, engine.Config{}, &made)
	if err != nil || res.Value.hidden != 0 || made.Shown["a"] != 1 || made.hidden != 3 {
		t.Errorf("%+v, %v; the caller's is %+v", res.Value, err, made)
	}
}

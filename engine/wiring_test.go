package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// told is a step that notes its input and gives its name and input.
func told(b *engine.Builder, name string, in engine.Ref[string]) *engine.StepNode[string, string] {
	return engine.Step(b, name, in, func(_ context.Context, s string) (string, error) { return name + "(" + s + ")", nil })
}

// spec: C-31..C-33, C-35, C-45
func TestWiringGivesValues(t *testing.T) {
	t.Parallel()
	type parcel struct{ To, From string }
	r := engine.MustDefine("wired", func(b *engine.Builder, in engine.Ref[parcel]) engine.Ref[[]string] {
		to := func(p parcel) string { return p.To }
		a := told(b, "a", engine.Pick(in, to))
		whole := engine.Step(b, "whole", in, func(_ context.Context, p parcel) (parcel, error) { return parcel{p.From, p.To}, nil })
		part := told(b, "part", engine.Pick(whole, to))
		key := told(b, "key", engine.Key(whole, func(p parcel) string { return p.From }))
		constant := told(b, "constant", engine.Const("seven"))
		none := engine.Step(b, "none", engine.Nothing, func(context.Context, struct{}) (string, error) { return "none()", nil })
		two := told(b, "two", engine.Join2(a, key, func(a, k string) string { return a + k }))
		three := told(b, "three", engine.Join3(a, in, none, func(a string, p parcel, n string) string { return a + p.From + n }))
		four := told(b, "four", engine.Join4(a, key, none, engine.Pick(in, to), func(a, k, n, to string) string { return a + k + n + to }))
		five := engine.Join5(part, two, three, four, constant, func(p, t, th, f, c string) []string { return []string{p, t, th, f, c} })
		return engine.Pick(five, func(all []string) []string { return all[:5] })
	})
	for _, place := range places {
		_, res, err := runAt(t, place, r, engine.Config{}, parcel{To: "x", From: "y"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"part(y)", "two(a(x)key(x))", "three(a(x)ynone())", "four(a(x)key(x)none()x)", "constant(seven)"}
		if diff := cmp.Diff(want, res.Value); diff != "" {
			t.Errorf("%s (-want +got):\n%s", place, diff)
		}
	}
}

// spec: C-45, C-49
func TestResultHandles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result func(in engine.Ref[string], a, skipped engine.Ref[string]) engine.Ref[string]
		want   string
	}{
		"a node that is not the last": {func(_, a, _ engine.Ref[string]) engine.Ref[string] { return a }, "a(x)"},
		"a part of it": {func(_, a, _ engine.Ref[string]) engine.Ref[string] {
			return engine.Pick(a, func(s string) string { return s[:1] })
		}, "a"},
		"two joined": {func(in, a, _ engine.Ref[string]) engine.Ref[string] {
			return engine.Join2(in, a, func(i, a string) string { return i + a })
		}, "xa(x)"},
		"the input":      {func(in, _, _ engine.Ref[string]) engine.Ref[string] { return in }, "x"},
		"a constant":     {func(_, _, _ engine.Ref[string]) engine.Ref[string] { return engine.Const("c") }, "c"},
		"a skipped node": {func(_, _, skipped engine.Ref[string]) engine.Ref[string] { return skipped }, "nothing to do"},
	} {
		for _, place := range places {
			r := engine.MustDefine("results", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
				a := told(b, "a", in)
				skipped := engine.Step(b, "skipped", in, func(context.Context, string) (string, error) {
					return "nothing to do", engine.Skip("done before")
				})
				told(b, "last", a)
				return c.result(in, a, skipped)
			})
			h, res, err := runAt(t, place, r, engine.Config{}, "x")
			if err != nil || res.Status != engine.Completed || res.Value != c.want {
				t.Errorf("%s, %s: %+v, %v", name, place, res, err)
			}
			if v := h.view(t, res.RunID); string(v.Output) != `"`+c.want+`"` || state(v, "last") != "done" {
				t.Errorf("%s, %s: stored %s", name, place, v.Output)
			}
		}
	}
}

// spec: C-47, C-52
func TestForeignResult(t *testing.T) {
	t.Parallel()
	var leaked engine.Ref[string]
	engine.MustDefine("other", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		leaked = told(b, "leak", in)
		return leaked
	})
	_, err := engine.Define("thief", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		return engine.Join2(told(b, "a", in), leaked, func(a, l string) string { return a + l })
	})
	if err == nil || !strings.Contains(err.Error(), `its result is "leak" of reactor "other", defined at wiring_test.go:`) {
		t.Errorf("%v", err)
	}
}

// unreadable is a type whose values can be stored and not be read back.
type unreadable struct{ N int }

// UnmarshalJSON refuses all.
func (u *unreadable) UnmarshalJSON([]byte) error { return errors.New("out of date") }

// spec: C-43, C-313, C-314
func TestInputThatCanNotBeMade(t *testing.T) {
	t.Parallel()
	type makes = func(b *engine.Builder, a engine.Ref[string]) engine.Ref[float64]
	for name, c := range map[string]struct {
		make makes
		text string
		code string
	}{
		"a Pick panics": {func(_ *engine.Builder, a engine.Ref[string]) engine.Ref[float64] {
			return engine.Pick(a, func(string) float64 { panic("no number") })
		}, "panic: no number", "panic"},
		"a Join panics": {func(_ *engine.Builder, a engine.Ref[string]) engine.Ref[float64] {
			return engine.Join2(a, a, func(string, string) float64 { panic(errors.New("no pair")) })
		}, "panic: no pair", "panic"},
		"a Key panics": {func(_ *engine.Builder, a engine.Ref[string]) engine.Ref[float64] {
			return engine.Pick(engine.Key(a, func(string) string { panic("no key") }), func(string) float64 { return 1 })
		}, "panic: no key", "panic"},
		"it can't be encoded": {func(_ *engine.Builder, a engine.Ref[string]) engine.Ref[float64] {
			return engine.Pick(a, func(string) float64 { return math.NaN() })
		}, "input is NaN, which can't be stored", "value"},
		"a result can't be read": {func(b *engine.Builder, a engine.Ref[string]) engine.Ref[float64] {
			bad := engine.Step(b, "bad", a, func(context.Context, string) (unreadable, error) { return unreadable{1}, nil })
			return engine.Pick(bad, func(u unreadable) float64 { return float64(u.N) })
		}, "the result of bad: ", "value"},
	} {
		for _, place := range places {
			t.Run(name+"/"+place, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var calls []string
				call := func(name string) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, name)
				}
				r := engine.MustDefine("unmade", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[float64] {
					a := told(b, "a", in).Undo(func(context.Context, string, string) error { call("undo a"); return nil })
					return engine.Step(b, "b", c.make(b, a), func(context.Context, float64) (float64, error) { call("run b"); return 0, nil }).
						Retry(3, engine.Fixed(0)).
						Guard(func(context.Context, float64) error { call("guard b"); return nil }).
						Compensate(func(context.Context, float64, error) error { call("compensate b"); return nil })
				})
				h, res, err := runAt(t, place, r, engine.Config{}, "x")
				failure := failureIn(t, err)
				if failure.Node != "b" || failure.NodeKind != "step" || failure.Attempt != 1 || !failure.Permanent || failure.Code != c.code || failure.Input != nil {
					t.Errorf("%#v", failure)
				}
				if text := "step b failed (attempt 1 of 3): its input could not be made: "; !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v", err)
				}
				if diff := cmp.Diff([]string{"undo a"}, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if v := h.view(t, res.RunID); state(v, "b") != "failed" || v.Failure.Error() != err.Error() {
					t.Errorf("stored: b is %s, %v", state(v, "b"), v.Failure)
				}
			})
		}
	}
}

// What a Pick gives is only there as part of a node's input.
//
// spec: C-802
func TestPickedValuesAreNotStored(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("picked", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		between := engine.Pick(in, func(s string) []string { return []string{"between", s} })
		a := told(b, "a", engine.Pick(between, func(l []string) string { return "made of " + l[1] }))
		return engine.Pick(engine.Pick(a, func(s string) []string { return []string{"behind", s} }), func(l []string) string { return l[1] })
	})
	h, res, err := runAt(t, "by workers", r, engine.Config{}, "x")
	if err != nil {
		t.Fatal(err)
	}
	rec := h.record(t, res.RunID)
	if len(rec.Nodes) != 1 || string(rec.Nodes[0].Input) != `"made of x"` {
		t.Errorf("%+v", rec.Nodes)
	}
	if all := fmt.Sprintf("%s %s %s %s", rec.Input, rec.Output, rec.Nodes[0].Input, rec.Nodes[0].Output); strings.Contains(all, "between") || strings.Contains(all, "behind") {
		t.Errorf("stored: %s", all)
	}
}

// spec: C-23, C-24
func TestNodesAndKinds(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("kinds", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		a := told(b, "a", in)
		done := engine.Do(b, "do", a, func(context.Context, string) error { return nil })
		return told(b, "late", engine.Const("x")).After(done, a).After(in)
	})
	want := "reactor kinds v1: string -> string\n" +
		"  step a(input): string -> string\n" +
		"  step do(a): string -> struct {}\n" +
		"  step late(do, a, input): string -> string\n" +
		"fingerprint " + r.Fingerprint() + "\n"
	if diff := cmp.Diff(want, r.Graph()); diff != "" {
		t.Error(diff)
	}
	h, res, err := runAt(t, "here", r, engine.Config{}, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range h.view(t, res.RunID).Nodes {
		if n.Kind != "step" {
			t.Errorf("%s is a %s", n.Path, n.Kind)
		}
	}
}

// add is a step that several reactors use: only its parameters differ.
func (s *shelf) add(b *engine.Builder, name string, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
	return engine.Step(b, name, in, func(_ context.Context, n positive2) (positive2, error) {
		s.note("run " + name)
		if s.fail[name] {
			return n, errors.New("as told")
		}
		return n, nil
	}).Retry(2, engine.Fixed(0)).
		Undo(func(context.Context, positive2, positive2) error { s.note("undo " + name); return nil }).
		Compensate(func(context.Context, positive2, error) error { s.note("compensate " + name); return nil })
}

type shelf struct {
	fail  map[string]bool
	mu    sync.Mutex
	calls []string
}

func (s *shelf) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

type positive2 struct{ N int }

// Validate wants a number above 0.
func (p positive2) Validate() error {
	if p.N > 0 {
		return nil
	}
	return engine.FieldErrors{"N": "must be above 0"}
}

// spec: C-28
func TestSharedSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail string
		in   int
		want []string
	}{
		"the second fails": {fail: "b", in: 1, want: []string{"run a", "run b", "run b", "compensate b", "undo a"}},
		"the first fails":  {fail: "a", in: 1, want: []string{"run a", "run a", "compensate a"}},
		"its contract":     {in: -1, want: []string{"run a", "undo a"}},
	} {
		for _, reactor := range []string{"one", "two"} {
			s := &shelf{fail: map[string]bool{c.fail: true}}
			r := engine.MustDefine(reactor, func(b *engine.Builder, in engine.Ref[int]) engine.Ref[positive2] {
				a := s.add(b, "a", engine.Const(positive2{1}))
				return s.add(b, "b", engine.Join2(a, in, func(_ positive2, n int) positive2 { return positive2{n} }))
			})
			if _, _, err := runAt(t, "here", r, engine.Config{}, c.in); err == nil {
				t.Errorf("%s in %s: no failure", name, reactor)
			}
			if diff := cmp.Diff(c.want, s.calls); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", name, reactor, diff)
			}
		}
	}
}

// spec: C-26
func TestHooksAreOptional(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("bare", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		done := engine.Do(b, "do", told(b, "a", in), func(context.Context, string) error { return nil })
		return engine.Step(b, "b", in, func(context.Context, string) (string, error) { return "", errors.New("no") }).After(done)
	})
	for _, place := range places {
		h, res, err := runAt(t, place, r, engine.Config{}, "x")
		if failure := failureIn(t, err); failure.Node != "b" || len(failure.Rollback) != 0 {
			t.Errorf("%s: %v", place, err)
		}
		for _, path := range []string{"a", "do", "b"} {
			if n := nodeAt(h.view(t, res.RunID), path); n.HookState != "skipped" {
				t.Errorf("%s: the hook of %s is %q", place, path, n.HookState)
			}
		}
	}
	_, err := engine.Define("empty", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		engine.Do[string](b, "do", in, nil)
		return engine.Step[string, string](b, "a", in, nil)
	})
	if err == nil || strings.Count(err.Error(), ": run is nil") != 2 {
		t.Errorf("%v", err)
	}
	_, err = engine.Define("late", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		return told(b, "a", in).After(nil)
	})
	if err == nil || !strings.HasSuffix(err.Error(), ": step a: after is nil") {
		t.Errorf("%v", err)
	}
}

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// odd is a value whose parts are easily taken for absent.
type odd struct {
	No    bool
	Zero  int
	Empty string
	List  []int
	None  *int
	Raw   json.RawMessage
	Nul   string
}

// Undo and Compensate get what the body had, decoded anew.
// spec: C-102, C-122, C-276, C-277, C-21, C-825
// spec: C-123, C-828
func TestHooksGetWhatTheBodyHad(t *testing.T) {
	t.Parallel()
	want := odd{List: []int{}, Raw: json.RawMessage(`{"b":1.10,"a":[]}`), Nul: "a\x00b"}
	var got []odd
	r := engine.MustDefine("odd", func(b *engine.Builder, in engine.Ref[odd]) engine.Ref[odd] {
		a := engine.Step(b, "a", in, func(_ context.Context, o odd) (odd, error) {
			got = append(got, o)
			out := want
			o.List = append(o.List, 1) // must not reach the undo
			return out, nil
		}).Undo(func(_ context.Context, in, out odd) error { got = append(got, in, out); return nil })
		none := engine.Step(b, "none", a, func(context.Context, odd) (*odd, error) { return nil, nil }).
			Undo(func(_ context.Context, in odd, out *odd) error {
				if out != nil {
					t.Errorf("undo of none got %v", out)
				}
				return nil
			})
		no := engine.Step(b, "no", none, func(_ context.Context, o *odd) (bool, error) { return o != nil, nil }).
			Undo(func(_ context.Context, in *odd, out bool) error {
				if in != nil || out {
					t.Errorf("undo of no got %v, %t", in, out)
				}
				return nil
			})
		return engine.Step(b, "z", engine.Join2(a, no, func(o odd, _ bool) odd { return o }), func(_ context.Context, o odd) (odd, error) {
			got = append(got, o)
			return o, errDeclined
		}).Compensate(func(_ context.Context, o odd, cause error) error {
			if !errors.Is(cause, errDeclined) {
				t.Errorf("the cause is %v", cause)
			}
			got = append(got, o)
			return nil
		})
	})
	if _, err := r.Run(t.Context(), engine.InMemoryWith(), want); !errors.Is(err, errDeclined) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]odd{want, want, want, want, want}, got); diff != "" {
		t.Errorf("body of a, body and compensate of z, undo of a (-want +got):\n%s", diff)
	}
}

// spec: C-298..C-302, C-305, C-308, C-309
// spec: C-606, C-614, C-266, C-608, C-617
func TestRollbackFailures(t *testing.T) {
	t.Parallel()
	e := engine.InMemoryWith()
	r := engine.MustDefine("rollback", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		ok := func(_ context.Context, n int) (int, error) { return n, nil }
		a := engine.Step(b, "a", in, ok).Undo(func(context.Context, int, int) error { return errors.New("bank is down") })
		p := engine.Step(b, "p", a, ok).Undo(func(context.Context, int, int) error { panic("no paper") })
		plain := engine.Step(b, "plain", p, ok)
		return engine.Step(b, "z", plain, func(context.Context, int) (int, error) { return 0, &coded{"empty"} }).
			Compensate(func(context.Context, int, error) error { return fmt.Errorf("nothing: %w", errDeclined) })
	})
	_, err := r.Run(t.Context(), e, 7)
	live, ok := errors.AsType[*engine.RunError](err)
	if !ok {
		t.Fatal(err)
	}
	wantText := "reactor rollback, run " + live.RunID + ": step z failed (attempt 1 of 1): refused with empty; 3 rollback failure(s): " +
		"compensate z: nothing: card declined; undo p: panic: no paper; undo a: bank is down"
	if err.Error() != wantText {
		t.Errorf("text\n%s\nwant\n%s", err, wantText)
	}
	if live.Node != "z" || live.NodeKind != "step" || live.Code != "empty" || live.Type != "*engine_test.coded" || string(live.Input) != "7" || live.Reactor != "rollback" {
		t.Errorf("%+v", live)
	}
	var reasons []string
	for _, f := range live.Rollback {
		if f.At.IsZero() || f.Key != "" || f.Resolved != "" {
			t.Errorf("%+v", f)
		}
		reasons = append(reasons, f.Node+" "+f.Kind+" "+f.Reason)
	}
	if diff := cmp.Diff([]string{"z compensate returned_error", "p undo panicked", "a undo returned_error"}, reasons); diff != "" {
		t.Error(diff)
	}
	view, err := e.Get(t.Context(), live.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if view.Failure.Error() != wantText || len(view.ToUndo) != 0 {
		t.Errorf("stored %s, left to undo %v", view.Failure, view.ToUndo)
	}
	hooks := map[string]string{}
	for _, n := range view.Nodes {
		hooks[n.Path] = n.Hook + " " + n.HookState
	}
	if diff := cmp.Diff(map[string]string{"a": "undo failed", "p": "undo failed", "plain": "undo skipped", "z": "compensate failed"}, hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// A failure with nothing to roll back, and one that only has hooks that nobody
// wrote, end the run at once.
// spec: C-196, C-281, C-289, C-878
func TestNothingToRollBack(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	e := engine.InMemoryWith(rec.middleware)
	r := engine.MustDefine("bare", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil })
		return engine.Step(b, "b", a, func(context.Context, int) (int, error) { return 0, errDeclined })
	})
	res, err := r.Run(t.Context(), e, 1)
	if !errors.Is(err, errDeclined) || res.Status != engine.Failed {
		t.Fatal(res, err)
	}
	view, err := e.Get(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range view.Nodes {
		if n.HookState != "skipped" {
			t.Errorf("%s: hook %q", n.Path, n.HookState)
		}
	}
	for _, kind := range rec.kinds() {
		if strings.Contains(kind, "compensate.started") || strings.Contains(kind, "undo.started") {
			t.Errorf("event %s", kind)
		}
	}
}

// The function that makes the run's value fails after all nodes are done.
// spec: C-269, C-316, C-43
func TestResultThatCannotBeMade(t *testing.T) {
	t.Parallel()
	e := engine.InMemoryWith()
	undone := false
	r := engine.MustDefine("result", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
			Undo(func(context.Context, int, int) error { undone = true; return nil })
		return engine.Pick(a, func(int) int { panic("no result") })
	})
	res, err := r.Run(t.Context(), e, 1)
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "" || failure.Code != "panic" || !undone || res.Status != engine.Failed {
		t.Fatalf("%v, undone %t", err, undone)
	}
	if want := "reactor result, run " + res.RunID + ": its result could not be made: panic: no result"; err.Error() != want {
		t.Errorf("text\n%s\nwant\n%s", err, want)
	}
}

// spec: C-313, C-314, C-609, C-611, C-263
func TestInputThatCannotBeMade(t *testing.T) {
	t.Parallel()
	e := engine.InMemoryWith()
	r := engine.MustDefine("input", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", engine.Pick(in, func(int) int { panic(errDeclined) }), func(context.Context, int) (int, error) { return 0, nil }).
			Compensate(func(context.Context, int, error) error { t.Error("compensated"); return nil }).Retry(3, nil)
	})
	res, err := r.Run(t.Context(), e, 1)
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "a" || failure.Input != nil || !failure.Permanent || failure.Type != "*errors.errorString" || !errors.Is(err, errDeclined) {
		t.Fatalf("%+v", failure)
	}
	if want := "reactor input, run " + res.RunID + ": step a failed (attempt 1 of 3): its input could not be made: panic: card declined"; err.Error() != want {
		t.Errorf("text\n%s\nwant\n%s", err, want)
	}
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// spec: C-819
func TestInfo(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			bo := &booth{}
			note := func(ctx context.Context) {
				i := engine.RunFrom(ctx)
				if parent, err := i.Parent(ctx); err != nil || parent != "" || i.RunID == "" || i.RootID != i.RunID || i.Reactor != "informed" || i.Recovery != 0 {
					t.Errorf("%+v, parent %q, %v", i, parent, err)
				}
				bo.note(fmt.Sprintf("%s of %s, attempt %d", i.Phase, i.Path, i.Attempt))
			}
			r := engine.MustDefine("informed", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				a := engine.Step(d, "a", in, func(ctx context.Context, n int) (int, error) { note(ctx); return n, nil }).
					Undo(func(ctx context.Context, _, _ int) error { note(ctx); return nil })
				return engine.Step(d, "b", a, func(ctx context.Context, _ int) (int, error) { note(ctx); return 0, errors.New("no") }).
					Retry(2, engine.Fixed(time.Millisecond)).
					Guard(func(ctx context.Context, _ int) error { note(ctx); return nil }).
					Compensate(func(ctx context.Context, _ int, _ error) error { note(ctx); return nil })
			})
			_, res, err := runInTurns(t, place, r, 1)
			if err == nil || res.RunID == "" {
				t.Fatal("no failure")
			}
			want := "body of a, attempt 1, guard of b, attempt 1, body of b, attempt 1, guard of b, attempt 2, body of b, attempt 2, " +
				"compensate of b, attempt 2, undo of a, attempt 1"
			if diff := cmp.Diff(want, bo.noted()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if i := engine.RunFrom(t.Context()); i.RunID != "" || i.Phase != "" {
		t.Errorf("outside of a run: %+v", i)
	}
}

// spec: C-820
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]map[string]bool{} // by run, path and direction
	note := func(ctx context.Context) {
		mu.Lock()
		defer mu.Unlock()
		i := engine.RunFrom(ctx)
		direction := i.Phase
		if direction == "guard" {
			direction = "body"
		}
		at := i.RunID + " " + i.Path + " " + direction
		if keys[at] == nil {
			keys[at] = map[string]bool{}
		}
		keys[at][i.IdempotencyKey()] = true
	}
	step := func(d *engine.Builder, name string, in engine.Ref[int], fails bool) *engine.StepNode[int, int] {
		return engine.Step(d, name, in, func(ctx context.Context, n int) (int, error) {
			note(ctx)
			if fails {
				return 0, errors.New("no")
			}
			return n, nil
		}).Retry(3, engine.Fixed(time.Millisecond)).
			Guard(func(ctx context.Context, _ int) error { note(ctx); return nil }).
			Undo(func(ctx context.Context, _, _ int) error { note(ctx); return nil }).
			Compensate(func(ctx context.Context, _ int, _ error) error { note(ctx); return nil })
	}
	r := engine.MustDefine("unique", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return step(d, "b", step(d, "a", in, false), true)
	})
	for _, place := range append(places, places...) {
		if _, _, err := runInTurns(t, place, r, 1); err == nil {
			t.Fatal("no failure")
		}
	}
	all := map[string]string{}
	for at, these := range keys {
		if len(these) != 1 {
			t.Errorf("%s has %d keys", at, len(these))
		}
		for key := range these {
			if other, taken := all[key]; taken || key == "" {
				t.Errorf("%s and %s share the key %q", at, other, key)
			}
			all[key] = at
		}
	}
	if want := 4 * 4; len(keys) != want { // in each run: two bodies, one undo, one compensate
		t.Errorf("%d directions, want %d", len(keys), want)
	}
}

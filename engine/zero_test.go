package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

type (
	// five is 5 where it is missing or null.
	five struct{ N int }
	// wrapped has a value as one part among others.
	wrapped[T any] struct {
		Before int
		V      T
		List   []T
	}
)

// UnmarshalJSON gives the type's own default.
func (f *five) UnmarshalJSON(raw []byte) error {
	f.N = 5
	if string(raw) == "null" {
		return nil
	}
	var given struct{ N *int }
	if err := json.Unmarshal(raw, &given); err != nil || given.N == nil {
		return err
	}
	f.N = *given.N
	return nil
}

// keeps runs a value through a run as its input, as results, as part of an
// input, of a result and of the run's own: here, and by workers with another
// process after the first step. It must come out as it went in.
func keeps[T any](t *testing.T, name string, v T) {
	t.Helper()
	same := func(t *testing.T, where string, got T) {
		t.Helper()
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
	}
	for _, place := range places {
		t.Run(name+"/"+place, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			r := engine.MustDefine("keeps", func(b *engine.Builder, in engine.Ref[T]) engine.Ref[T] {
				a := engine.Step(b, "a", in, func(_ context.Context, got T) (T, error) { same(t, "input of the run", got); return v, nil })
				again := engine.Step(b, "again", a, func(_ context.Context, got T) (wrapped[T], error) {
					same(t, "input", got)
					if tries.Add(1) == 1 {
						return wrapped[T]{}, errors.New("in another process")
					}
					return wrapped[T]{V: got, List: []T{got, got}}, nil
				}).Retry(2, engine.Fixed(time.Millisecond))
				both := engine.Join2(a, again, func(a T, w wrapped[T]) wrapped[T] { w.List = append(w.List, a); return w })
				end := engine.Step(b, "end", both, func(_ context.Context, got wrapped[T]) (wrapped[T], error) {
					same(t, "part", got.V)
					for i := range 3 {
						same(t, fmt.Sprintf("element %d", i), got.List[i])
					}
					return got, nil
				})
				return engine.Pick(end, func(w wrapped[T]) T { return w.V })
			})
			h := newHost(t, engine.Config{}, r)
			res := runTwice(t, place, h, r, v)
			same(t, "result of the run", res.Value)
			found, err := r.Find(t.Context(), h.Engine, res.RunID)
			if err != nil {
				t.Fatal(err)
			}
			reloaded, err := found.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			same(t, "result after a reload", reloaded.Value)
		})
	}
}

// runTwice runs r to its end: by workers in two processes, the second of which
// goes on after a pause of the first.
func runTwice[In, Out any](t *testing.T, place string, h *host, r *engine.Reactor[In, Out], in In) engine.Result[Out] {
	t.Helper()
	if place == "here" {
		res, err := r.Run(t.Context(), h.Engine, in)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	started, err := r.Start(t.Context(), h.Engine, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.beside(t, engine.Config{}, r).Drive(t.Context(), h.jobs.take()[0]); err != nil {
		t.Fatal(err)
	}
	second := h.beside(t, engine.Config{}, r)
	until(t, "the run has ended", func() bool {
		if err := h.store.Wake(t.Context(), []string{started.ID}); err != nil {
			t.Fatal(err)
		}
		second.drive(t)
		return h.view(t, started.ID).Status.Final()
	})
	res, err := started.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// spec: C-21, C-42, C-50, C-98
func TestZeroValuesAreValues(t *testing.T) {
	t.Parallel()
	zero := 0
	keeps(t, "false", false)
	keeps(t, "0", 0)
	keeps(t, "empty string", "")
	keeps(t, "empty list", []string{})
	keeps(t, "nil list", []string(nil))
	keeps(t, "list of zeros", []*int{nil, &zero})
	keeps(t, "empty map", map[string]int{})
	keeps(t, "nil map", map[string]int(nil))
	keeps(t, "nil pointer", (*int)(nil))
	keeps(t, "pointer to 0", &zero)
	keeps[any](t, "nil", nil)
	keeps[any](t, "false in an any", false)
	keeps(t, "null", json.RawMessage("null"))
	keeps(t, "nothing", struct{}{})
	keeps(t, "0 of a type with a default", five{0})
	keeps(t, "a default", five{5})
}

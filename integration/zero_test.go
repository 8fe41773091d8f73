package integration

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// empties is a value all of whose parts are easily taken for absent.
type empties struct {
	No      bool           `json:"no"`
	Zero    int            `json:"zero"`
	Text    string         `json:"text"`
	List    []int          `json:"list"`
	Map     map[string]int `json:"map"`
	None    *int           `json:"none"`
	ToZero  *int           `json:"to_zero"`
	Omitted *int           `json:"omitted,omitempty"`
}

// five turns an omitted or null field into 5, and nothing else.
type five struct{ N int }

// UnmarshalJSON fills in what is not there.
func (f *five) UnmarshalJSON(raw []byte) error {
	var given struct{ N *int }
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	f.N = 5
	if given.N != nil {
		f.N = *given.N
	}
	return nil
}

// relay hands a value through three steps, each of which must get just that.
type relay[T any] struct {
	r   *engine.Reactor[T, T]
	mu  sync.Mutex
	got []T
}

func newRelay[T any]() *relay[T] {
	y := &relay[T]{}
	y.r = engine.MustDefine("relay", func(b *engine.Builder, in engine.Ref[T]) engine.Ref[T] {
		last := in
		for _, name := range []string{"a", "b", "c"} {
			last = engine.Step(b, name, last, func(_ context.Context, v T) (T, error) {
				y.mu.Lock()
				defer y.mu.Unlock()
				y.got = append(y.got, v)
				return v, nil
			})
		}
		return last
	})
	return y
}

// driveStepByStep has a run driven by one process for each step: the process is
// stopped while the step is at work.
func driveStepByStep(t *testing.T, pool *pgxpool.Pool, run string, r engine.Definition) {
	t.Helper()
	for processes := 1; processes <= 10; processes++ {
		ctx, stop := context.WithCancel(t.Context())
		soft := func(next engine.Next) engine.Next {
			return func(ctx context.Context, ev engine.Event) error {
				if ev.Kind == "reactor.step.completed" {
					stop()
				}
				return next(ctx, ev)
			}
		}
		eng, err := engine.New(short(engine.Config{
			Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: true, Middleware: []func(engine.Next) engine.Next{soft},
		}), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Drive(ctx, engine.Wake{Runs: []string{run}, Queue: "reactor", Priority: 1}); err != nil {
			t.Fatal(err)
		}
		v, err := eng.Get(t.Context(), run)
		stop()
		if closing := eng.Close(t.Context()); err != nil || closing != nil {
			t.Fatal(err, closing)
		}
		if v.Status.Final() {
			if processes != 3 {
				t.Errorf("%d processes for three steps", processes)
			}
			return
		}
	}
	t.Fatal("the run does not end")
}

// checkZero runs a value through a relay in three ways.
func checkZero[T any](t *testing.T, name string, v, want T) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		pool := pgtest.Pool(t)
		y := newRelay[T]()
		eng := starter(t, pool, y.r)
		here, err := y.r.Run(t.Context(), eng, v)
		if err != nil {
			t.Fatal(err)
		}
		h, err := y.r.Start(t.Context(), eng, v)
		if err != nil {
			t.Fatal(err)
		}
		driveStepByStep(t, pool, h.ID, y.r)
		there, err := h.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reread, err := y.r.Find(t.Context(), eng, here.RunID)
		if err != nil {
			t.Fatal(err)
		}
		again, err := reread.Wait(t.Context())
		if err != nil || again.Status != engine.Completed {
			t.Fatal(again, err)
		}
		if len(y.got) != 6 {
			t.Errorf("%d calls", len(y.got))
		}
		for i, got := range append(y.got, here.Value, there.Value, again.Value) {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("value %d is %#v, want %#v", i, got, want)
			}
		}
	})
}

// Values that are easily taken for absent go from step to step as they are, here
// and by workers with a restart after each step.
// spec: C-21, C-42, C-50, C-174, C-825
// spec: C-681
func TestZeroValuesAreValues(t *testing.T) {
	t.Parallel()
	zero := 0
	all := empties{List: []int{}, Map: map[string]int{}, ToZero: &zero}
	checkZero(t, "all in one", all, all)
	checkZero(t, "nothing in it", empties{}, empties{})
	checkZero(t, "false", false, false)
	checkZero(t, "zero", 0, 0)
	checkZero(t, "empty text", "", "")
	checkZero(t, "empty list", []int{}, []int{})
	checkZero(t, "nil list", []int(nil), []int(nil))
	checkZero(t, "a bare list", []any{nil, false, json.Number("0"), "", []any{}, map[string]any{}}, []any{nil, false, json.Number("0"), "", []any{}, map[string]any{}})
	checkZero(t, "empty map", map[string]int{}, map[string]int{})
	checkZero(t, "nil pointer", (*int)(nil), (*int)(nil))
	checkZero(t, "pointer to zero", &zero, &zero)
	checkZero(t, "a null inside", map[string]*int{"x": nil}, map[string]*int{"x": nil})
}

// What a type itself replaces is replaced, by the type and only there.
// spec: C-21
func TestWhatTheTypeReplaces(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{`{}`: 5, `{"N": null}`: 5, `{"N": 0}`: 0, `{"N": 7}`: 7} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			y := newRelay[five]()
			eng := starter(t, pool, y.r)
			run, err := eng.StartJSON(t.Context(), "relay", json.RawMessage(given), engine.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			driveStepByStep(t, pool, run, y.r)
			h, err := y.r.Find(t.Context(), eng, run)
			if err != nil {
				t.Fatal(err)
			}
			res, err := h.Wait(t.Context())
			if err != nil || res.Value.N != want {
				t.Errorf("%+v, %v", res, err)
			}
			for _, got := range y.got {
				if got.N != want {
					t.Errorf("a step got %d, want %d", got.N, want)
				}
			}
		})
	}
}

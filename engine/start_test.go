package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// noTx is a transaction that no store understands.
type noTx struct{}

func (noTx) EngineTx() {}

// spec: C-1142, C-1143
func TestOptionsOfAStart(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	type options = []engine.StartOptions
	calls := map[string]func(o options) error{
		"Start":     func(o options) error { _, err := r.Start(t.Context(), h.Engine, 1, o...); return err },
		"StartTx":   func(o options) error { _, err := r.StartTx(t.Context(), h.Engine, noTx{}, 1, o...); return err },
		"StartMany": func(o options) error { _, err := r.StartMany(t.Context(), h.Engine, []int{1}, o...); return err },
		"StartManyTx": func(o options) error {
			_, err := r.StartManyTx(t.Context(), h.Engine, noTx{}, []int{1}, o...)
			return err
		},
	}
	for name, call := range calls {
		if err := call(options{{Queue: "a"}, {Queue: "b"}}); err == nil || err.Error() != "reactor counter: "+name+" was given 2 StartOptions; it takes one" {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(options{{Priority: 5}}); err == nil || err.Error() != "reactor counter: priority 5; it goes from 1 (first) to 4" {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(options{{Queue: "To Do"}}); err == nil || !strings.HasPrefix(err.Error(), `reactor counter: queue "To Do" must match ^[a-z0-9]`) {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(options{{Tags: []string{"web", ""}}}); err == nil || err.Error() != "reactor counter: tag 2 must be text of 1 to 512 bytes" {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(name, "StartMany") {
			continue
		}
		if err := call(options{{Key: "k"}}); err == nil || err.Error() != "reactor counter: "+name+" can't have a Key, because it starts many runs" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.runs(t); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// spec: C-644, C-812, C-816
func TestOptionsAreKept(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{Queue: "orders"}, r)
	plain, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	given, err := r.Start(t.Context(), h.Engine, 1, engine.StartOptions{Queue: "parcels", Priority: 3, Tags: []string{"web"}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour)
	later, err := r.Start(t.Context(), h.Engine, 1, engine.StartOptions{At: at})
	if err != nil {
		t.Fatal(err)
	}
	want := []engine.Wake{{Runs: []string{plain.ID}, Queue: "orders", Priority: 1}, {Runs: []string{given.ID}, Queue: "parcels", Priority: 3}}
	if diff := cmp.Diff(want, h.jobs.take()); diff != "" {
		t.Errorf("wake-ups (-want +got):\n%s", diff)
	}
	if v := h.view(t, given.ID); v.Status != engine.Pending || v.Queue != "parcels" || v.Priority != 3 || !slices.Equal(v.Tags, []string{"web"}) {
		t.Errorf("%+v", v)
	}
	if rec := h.record(t, later.ID); rec.Status != engine.Pending || !rec.Due.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("status %s, due %s", rec.Status, rec.Due)
	}
	if v := h.view(t, later.ID); !strings.HasPrefix(v.Waiting, "start at ") {
		t.Errorf("waits for %q", v.Waiting)
	}
}

// spec: C-1143
func TestStartMany(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("many", func(b *engine.Builder, in engine.Ref[positive2]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, p positive2) (int, error) { return p.N, nil })
	})
	h := newHost(t, engine.Config{}, r)
	var ins []positive2
	for i := range 40 {
		ins = append(ins, positive2{i + 1})
	}
	handles, err := r.StartMany(t.Context(), h.Engine, ins, engine.StartOptions{Tags: []string{"batch"}})
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	for i, handle := range handles {
		if res, err := handle.Wait(t.Context()); err != nil || res.Value != ins[i].N {
			t.Errorf("handle %d: %+v, %v", i, res, err)
		}
	}
	if none, err := r.StartMany(t.Context(), h.Engine, nil); err != nil || len(none) != 0 {
		t.Errorf("no inputs: %v, %v", none, err)
	}
	_, err = r.StartMany(t.Context(), h.Engine, []positive2{{1}, {2}, {-3}, {4}})
	failure := failureIn(t, err)
	if failure.RunID != "" || failure.Fields["N"] != "must be above 0" || err.Error() != "input 2: reactor many: input is invalid: N: must be above 0" {
		t.Errorf("%v", err)
	}
	if n := h.runs(t); n != len(ins) {
		t.Errorf("%d runs, want %d", n, len(ins))
	}
}

// spec: C-814, C-815, K-427
func TestStartKey(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("keyed", func(b *engine.Builder, in engine.Ref[map[string]int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, m map[string]int) (int, error) { return m["a"], nil })
	})
	other := engine.MustDefine("other", func(b *engine.Builder, in engine.Ref[map[string]int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(context.Context, map[string]int) (int, error) { return 0, nil })
	})
	h := newHost(t, engine.Config{}, r, other)
	key := engine.StartOptions{Key: "order:7"}
	in := map[string]int{"a": 1, "b": 2}
	first, err := r.Start(t.Context(), h.Engine, in, key)
	if err != nil || first.Existing {
		t.Fatal(first, err)
	}
	for range 2 { // before and after its end
		again, err := r.Start(t.Context(), h.Engine, map[string]int{"b": 2, "a": 1}, key)
		if err != nil || again.ID != first.ID || !again.Existing {
			t.Errorf("%+v, %v", again, err)
		}
		h.drive(t)
		if res, err := again.Wait(t.Context()); err != nil || res.Value != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		_, err = r.Start(t.Context(), h.Engine, map[string]int{"a": 1}, key)
		want := `reactor keyed: key "order:7" has started run ` + first.ID + ` on another input: use another key, or the same input`
		if !errors.Is(err, engine.ErrKeyConflict) || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	if n := h.runs(t); n != 1 {
		t.Errorf("%d runs", n)
	}
	if apart, err := other.Start(t.Context(), h.Engine, in, key); err != nil || apart.Existing || apart.ID == first.ID {
		t.Errorf("on another reactor: %+v, %v", apart, err)
	}
}

// An invalid input under a known key is another input, or the very one whose
// refusal is stored.
//
// spec: C-815, C-19
func TestStartKeyOfARefusedInput(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("refused", func(b *engine.Builder, in engine.Ref[positive2]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, p positive2) (int, error) { return p.N, nil })
	})
	h := newHost(t, engine.Config{}, r)
	start := func(n int, key string) (*engine.Handle[int], error) {
		return r.Start(t.Context(), h.Engine, positive2{n}, engine.StartOptions{Key: key})
	}
	if _, err := start(1, "good"); err != nil {
		t.Fatal(err)
	}
	if _, err := start(-1, "good"); !errors.Is(err, engine.ErrKeyConflict) {
		t.Errorf("an invalid input under the key of a valid one: %v", err)
	}
	_, err := start(-1, "bad")
	refused := failureIn(t, err)
	_, err = start(-1, "bad")
	if again := failureIn(t, err); again.RunID != refused.RunID || refused.RunID == "" {
		t.Errorf("refused as run %s, then as %s", refused.RunID, again.RunID)
	}
	if _, err := start(1, "bad"); !errors.Is(err, engine.ErrKeyConflict) || !strings.Contains(err.Error(), refused.RunID) {
		t.Errorf("a valid input under the key of an invalid one: %v", err)
	}
	if n := h.runs(t); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// spec: C-1141
func TestOnlyTheRegisteredValueIsKnown(t *testing.T) {
	t.Parallel()
	known, same, unknown := counter(1), counter(1), stranger()
	h := newHost(t, engine.Config{}, known)
	for name, c := range map[string]struct {
		r    *engine.Reactor[int, int]
		text string
	}{
		"another value": {same, "reactor counter v1: another definition of it is registered (find_test.go:"},
		"unregistered":  {unknown, "reactor stranger v1 is not registered: give it to engine.New"},
	} {
		_, run := c.r.Run(t.Context(), h.Engine, 1)
		_, start := c.r.Start(t.Context(), h.Engine, 1)
		_, startTx := c.r.StartTx(t.Context(), h.Engine, noTx{}, 1)
		_, many := c.r.StartMany(t.Context(), h.Engine, []int{1})
		_, manyTx := c.r.StartManyTx(t.Context(), h.Engine, noTx{}, []int{1})
		for call, err := range map[string]error{"Run": run, "Start": start, "StartTx": startTx, "StartMany": many, "StartManyTx": manyTx} {
			if !errors.Is(err, engine.ErrNotRegistered) || !strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("%s of %s: %v", call, name, err)
			}
		}
	}
	if n := h.runs(t); n != 0 {
		t.Errorf("%d runs", n)
	}
	e := engine.InMemory()
	if _, err := known.Run(t.Context(), e, 1); err != nil {
		t.Errorf("in memory: %v", err)
	}
	if _, err := same.Run(t.Context(), e, 1); !errors.Is(err, engine.ErrNotRegistered) {
		t.Errorf("another value of what is known in memory: %v", err)
	}
}

// spec: C-821
func TestNewestVersion(t *testing.T) {
	t.Parallel()
	first, second, third := counter(1), counter(2), counter(3)
	h := newHost(t, engine.Config{}, second, third, first)
	old, err := first.Start(t.Context(), h.Engine, 10)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := h.StartJSON(t.Context(), "counter", json.RawMessage("10"), engine.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	without := h.beside(t, engine.Config{}, second, third)
	without.drive(t)
	if v := h.view(t, old.ID); v.Status != engine.Pending || v.Version != 1 {
		t.Errorf("a process without version 1 drove it: %s of version %d", v.Status, v.Version)
	}
	if err := h.store.Wake(t.Context(), []string{old.ID}); err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	for run, want := range map[string]string{old.ID: "v1 11", newest: "v3 13"} {
		if v := h.view(t, run); fmt.Sprintf("v%d %s", v.Version, v.Output) != want {
			t.Errorf("v%d %s, want %s", v.Version, v.Output, want)
		}
	}
}

// spec: C-85
func TestInMemoryDrivesBeforeItReturns(t *testing.T) {
	t.Parallel()
	e := engine.InMemory()
	var tries atomic.Int32
	r := engine.MustDefine("at_once", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) {
			if tries.Add(1) == 1 {
				return 0, errors.New("again")
			}
			return n, nil
		}).Retry(2, engine.Fixed(time.Millisecond))
		return engine.Step(b, "b", a, func(_ context.Context, n int) (int, error) {
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n + 1, nil
		})
	})
	for _, in := range []int{1, -1} {
		handle, err := r.Start(t.Context(), e, in)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := e.Get(t.Context(), handle.ID); err != nil || !v.Status.Final() {
			t.Errorf("after Start: %s, %v", v.Status, err)
		}
		res, err := handle.Wait(t.Context())
		if in > 0 && (err != nil || res.Value != 2) || in < 0 && failureIn(t, err).Node != "b" {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// spec: C-81, C-138
func TestErrorsOfReactorCodeAreRunErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, settle := range map[string]func(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2]{
		"body": func(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
			return engine.Step(b, "a", in, func(context.Context, positive2) (positive2, error) {
				return positive2{1}, fmt.Errorf("body: %w", cause)
			})
		},
		"body panics": func(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
			return engine.Step(b, "a", in, func(context.Context, positive2) (positive2, error) { panic(cause) })
		},
		"guard hook": func(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
			return positives(b, in).Guard(func(context.Context, positive2) error { return cause })
		},
		"Pick": func(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
			return positives(b, engine.Pick(in, func(positive2) positive2 { panic(cause) }))
		},
	} {
		for _, place := range places {
			r := engine.MustDefine("errors", func(b *engine.Builder, in engine.Ref[positive2]) engine.Ref[positive2] { return settle(b, in) })
			_, res, err := runAt(t, place, r, engine.Config{}, positive2{1})
			failure, ok := err.(*engine.RunError)
			if !ok || res.Status != engine.Failed || failure.Node != "a" || failure.RunID != res.RunID {
				t.Errorf("%s, %s: %+v, %v", name, place, res, err)
			}
			if place == "here" && !errors.Is(err, cause) {
				t.Errorf("%s: %v does not match its cause", name, err)
			}
		}
	}
}

func positives(b *engine.Builder, in engine.Ref[positive2]) *engine.StepNode[positive2, positive2] {
	return engine.Step(b, "a", in, func(_ context.Context, p positive2) (positive2, error) { return p, nil })
}

// An input that can't be stored is refused before anything is.
//
// spec: C-832
func TestInputOfARunThatCanNotBeStored(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("numbers", func(b *engine.Builder, in engine.Ref[float64]) engine.Ref[float64] {
		return engine.Step(b, "a", in, func(_ context.Context, f float64) (float64, error) { return f, nil })
	})
	h := newHost(t, engine.Config{}, r)
	_, run := r.Run(t.Context(), h.Engine, math.Inf(1))
	_, start := r.Start(t.Context(), h.Engine, math.Inf(1))
	for call, err := range map[string]error{"Run": run, "Start": start} {
		if _, ok := errors.AsType[*engine.EncodingError](err); !ok || err.Error() != "reactor numbers: input is infinite, which can't be stored" {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := h.runs(t); n != 0 {
		t.Errorf("%d runs", n)
	}
}

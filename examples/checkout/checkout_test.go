package checkout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// book is an order that nothing is wrong with.
var book = Order{ID: "o-1", SKU: "book", Cents: 1990, Address: "1 Sea Road", Card: "4000-1234"}

// A step is a function: its test calls it.
func TestCharge(t *testing.T) {
	t.Parallel()
	services := &fake{}
	shop := services.shop()
	payment, err := shop.charge(t.Context(), newCharge(book))
	if want := (Payment{ID: "p-1990", Cents: 1990}); payment != want || err != nil {
		t.Errorf("charge: got %v, %v, want %v", payment, err, want)
	}
}

func TestParcelNamesWhatItIsFor(t *testing.T) {
	t.Parallel()
	got := newParcel(book, Hold{ID: "h-book"}, Payment{ID: "p-1990"})
	want := Parcel{OrderID: "o-1", HoldID: "h-book", PaymentID: "p-1990", Address: "1 Sea Road"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parcel: -want +got\n%s", diff)
	}
}

// A reactor is run in memory.
func TestOrderIsShipped(t *testing.T) {
	t.Parallel()
	services := &fake{}
	res, err := services.shop().Reactor().Run(t.Context(), engine.InMemory(), book)
	if err != nil || res.Status != engine.Completed || res.Value.Tracking != "t-o-1" {
		t.Fatalf("got %+v, %v, want a completed run with tracking t-o-1", res, err)
	}
	services.want(t, "hold", "charge", "ship")
}

func TestOrderThatCanNotBeShippedIsUndone(t *testing.T) {
	t.Parallel()
	services := &fake{fail: map[string]int{"ship": 1}}
	_, err := services.shop().Reactor().Run(t.Context(), engine.InMemory(), book)
	run, ok := errors.AsType[*engine.RunError](err)
	if !ok || run.Node != "ship" || !errors.Is(err, errFake) || len(run.Rollback) > 0 {
		t.Fatalf("got %v, want ship to fail and all to be undone", err)
	}
	services.want(t, "hold", "charge", "ship", "refund", "release")
}

func TestChargeIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	services := &fake{fail: map[string]int{"charge": 2}}
	if _, err := services.shop().Reactor().Run(t.Context(), engine.InMemory(), book); err != nil {
		t.Fatal(err)
	}
	services.want(t, "hold", "charge", "charge", "charge", "ship")
	if keys := services.keysOf("charge"); keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] {
		t.Errorf("keys of the three tries: %q, want one key", keys)
	}
}

func TestChargeThatFailsForGoodIsVoided(t *testing.T) {
	t.Parallel()
	services := &fake{fail: map[string]int{"charge": 3}}
	_, err := services.shop().Reactor().Run(t.Context(), engine.InMemory(), book)
	if run, ok := errors.AsType[*engine.RunError](err); !ok || run.Node != "charge" || run.Attempt != 3 {
		t.Fatalf("got %v, want the third attempt of charge to fail", err)
	}
	services.want(t, "hold", "charge", "charge", "charge", "void", "release")
}

func TestBadOrderStartsNothing(t *testing.T) {
	t.Parallel()
	services := &fake{}
	_, err := services.shop().Reactor().Run(t.Context(), engine.InMemory(), Order{ID: "o-2", Card: "4000-1234"})
	run, ok := errors.AsType[*engine.RunError](err)
	if !ok {
		t.Fatalf("got %v, want a run that failed", err)
	}
	want := engine.FieldErrors{"sku": "must not be empty", "cents": "must be above 0"}
	if diff := cmp.Diff(want, run.Fields); diff != "" {
		t.Errorf("fields: -want +got\n%s", diff)
	}
	services.want(t)
}

func TestCardIsNotShown(t *testing.T) {
	t.Parallel()
	eng := engine.InMemory()
	res, err := (&fake{}).shop().Reactor().Run(t.Context(), eng, book)
	if err != nil {
		t.Fatal(err)
	}
	view, err := eng.Get(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{string(view.Input), string(view.Output)}
	for _, n := range view.Nodes {
		values = append(values, string(n.Input), string(n.Output))
	}
	all := strings.Join(values, "\n")
	if strings.Contains(all, book.Card) || strings.Count(all, `"card":"[REDACTED]"`) != 3 {
		t.Errorf("the card is to be redacted in the run's input and in those of hold and charge:\n%s", all)
	}
}

var errFake = errors.New("the service is down")

// A fake is all three services, and remembers how they were called.
type fake struct {
	fail  map[string]int // how often a call fails before it works
	calls []string
	keys  []string
}

func (f *fake) shop() *Shop {
	return &Shop{Stock: f, Bank: f, Post: f, Backoff: engine.Fixed(time.Millisecond)}
}

func (f *fake) call(what, key string) error {
	f.calls, f.keys = append(f.calls, what), append(f.keys, key)
	if f.fail[what] > 0 {
		f.fail[what]--
		return errFake
	}
	return nil
}

func (f *fake) Hold(_ context.Context, key, sku string) (Hold, error) {
	return Hold{ID: "h-" + sku}, f.call("hold", key)
}

func (f *fake) Charge(_ context.Context, key, _ string, cents int) (Payment, error) {
	return Payment{ID: "p-1990", Cents: cents}, f.call("charge", key)
}

func (f *fake) Ship(_ context.Context, key string, p Parcel) (Label, error) {
	return Label{Tracking: "t-" + p.OrderID}, f.call("ship", key)
}

func (f *fake) Release(_ context.Context, key string, _ Hold) error   { return f.call("release", key) }
func (f *fake) Refund(_ context.Context, key string, _ Payment) error { return f.call("refund", key) }
func (f *fake) Void(_ context.Context, key, _ string) error           { return f.call("void", key) }
func (f *fake) Recall(_ context.Context, key string, _ Label) error   { return f.call("recall", key) }

func (f *fake) want(t *testing.T, calls ...string) {
	t.Helper()
	if diff := cmp.Diff(calls, f.calls); diff != "" {
		t.Errorf("calls: -want +got\n%s", diff)
	}
}

func (f *fake) keysOf(what string) (keys []string) {
	for i, call := range f.calls {
		if call == what {
			keys = append(keys, f.keys[i])
		}
	}
	return keys
}

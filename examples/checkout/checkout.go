// Package checkout is a realistic reactor: it holds stock for an order, charges
// the customer's card and sends the parcel. Each step can be undone, so an order
// ends with all of it or with nothing.
//
// Imports: engine; must not know: where a shop keeps its stock and its money.
package checkout

import (
	"context"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// An Order is what a customer asks for.
type Order struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Cents   int    `json:"cents"`
	Address string `json:"address"`
	Card    string `json:"card" reactor:"redact"` // stored, never shown
}

// Validate makes Order a contract: the engine calls it before anything runs.
func (o Order) Validate() error {
	wrong := engine.FieldErrors{}
	if o.SKU == "" {
		wrong["sku"] = "must not be empty"
	}
	if o.Cents <= 0 {
		wrong["cents"] = "must be above 0"
	}
	if o.Card == "" {
		wrong["card"] = "must not be empty"
	}
	return wrong.Err()
}

// A Hold is stock that is kept for one order.
type Hold struct {
	ID string `json:"id"`
}

// A Charge is what the bank is asked for.
type Charge struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
	Card    string `json:"card" reactor:"redact"`
}

// A Payment is money that was taken.
type Payment struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// A Parcel is what the post is asked to bring.
type Parcel struct {
	OrderID   string `json:"order_id"`
	HoldID    string `json:"hold_id"`
	PaymentID string `json:"payment_id"`
	Address   string `json:"address"`
}

// A Label is a parcel that the post has taken.
type Label struct {
	Tracking string `json:"tracking"`
}

// A Shop has what the steps need.
type Shop struct {
	Stock   Stock
	Bank    Bank
	Post    Post
	Backoff engine.Backoff // between two tries to charge; nil is exponential from a second on
}

// Reactor defines the checkout of an order. Call it once, when the program
// starts, and keep what it returns.
func (s *Shop) Reactor() *engine.Reactor[Order, Label] {
	return engine.MustDefine("checkout", func(b *engine.Builder, order engine.Ref[Order]) engine.Ref[Label] {
		hold := engine.Step(b, "hold", order, s.hold).Undo(s.release)

		payment := engine.Step(b, "charge", engine.Pick(order, newCharge), s.charge).
			After(hold).
			Retry(3, s.Backoff). // attempts in all
			Timeout(time.Minute).
			Compensate(s.void).
			Undo(s.refund)

		return engine.Step(b, "ship", engine.Join3(order, hold, payment, newParcel), s.ship).Undo(s.recall)
	})
}

func newCharge(o Order) Charge { return Charge{OrderID: o.ID, Cents: o.Cents, Card: o.Card} }

func newParcel(o Order, h Hold, p Payment) Parcel {
	return Parcel{OrderID: o.ID, HoldID: h.ID, PaymentID: p.ID, Address: o.Address}
}

// key is the same for a step of a run in all attempts and after every crash.
func key(ctx context.Context) string { return engine.RunFrom(ctx).IdempotencyKey() }

func (s *Shop) hold(ctx context.Context, o Order) (Hold, error) {
	return s.Stock.Hold(ctx, key(ctx), o.SKU)
}

func (s *Shop) release(ctx context.Context, _ Order, h Hold) error {
	return s.Stock.Release(ctx, key(ctx), h)
}

func (s *Shop) charge(ctx context.Context, c Charge) (Payment, error) {
	return s.Bank.Charge(ctx, key(ctx), c.Card, c.Cents)
}

func (s *Shop) refund(ctx context.Context, _ Charge, p Payment) error {
	return s.Bank.Refund(ctx, key(ctx), p)
}

// void runs when the last try to charge has failed: perhaps the bank took the
// money and only its answer was lost.
func (s *Shop) void(ctx context.Context, c Charge, _ error) error {
	return s.Bank.Void(ctx, key(ctx), c.OrderID)
}

func (s *Shop) ship(ctx context.Context, p Parcel) (Label, error) {
	return s.Post.Ship(ctx, key(ctx), p)
}

func (s *Shop) recall(ctx context.Context, _ Parcel, l Label) error {
	return s.Post.Recall(ctx, key(ctx), l)
}

package ctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

// An order says itself how it ends.
type order struct {
	SKU  string `json:"sku"`
	Ends string `json:"ends"`
	Card string `json:"card" reactor:"redact"`
}

// Validate is the contract.
func (o order) Validate() error {
	wrong := engine.FieldErrors{}
	if o.SKU == "" {
		wrong["sku"] = "must not be empty"
	}
	return wrong.Err()
}

const card = "4000-s3cr3t"

// A lab is a database with runs that an engine made, under ids that count up.
type lab struct {
	t       *testing.T
	url     string
	eng     *engine.Engine
	shop    *engine.Reactor[order, string]
	changed *engine.Reactor[order, string] // the shop under another graph
}

// silent queues nothing: the lab drives its runs itself.
type silent struct{}

func (silent) Wake(context.Context, engine.Tx, []engine.Wake, bool) error { return nil }
func (silent) Ring(...string)                                             {}
func (silent) Validate() error                                            { return nil }

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, url: pgtest.URL(t), shop: shop("charge"), changed: shop("pay")}
	l.eng = l.engine(l.shop, &atomic.Int64{})
	return l
}

func (l *lab) engine(shop engine.Definition, made *atomic.Int64) *engine.Engine {
	l.t.Helper()
	pool, err := pgxpool.New(l.t.Context(), l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(pool.Close)
	eng, err := engine.New(engine.Config{
		Store: pgstore.New(pool), Dispatcher: silent{}, Logger: slog.New(slog.DiscardHandler), NoSweep: true,
		NewID: func() string { return fmt.Sprintf("0199b6f0-7a41-7000-8000-%012d", made.Add(1)) },
	}, shop)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := eng.Close(context.WithoutCancel(l.t.Context())); err != nil {
			l.t.Error(err)
		}
	})
	return eng
}

// shop is reserve, then the step called pay, then ship.
func shop(pay string) *engine.Reactor[order, string] {
	return engine.MustDefine("shop", func(b *engine.Builder, o engine.Ref[order]) engine.Ref[string] {
		reserve := engine.Step(b, "reserve", o, func(_ context.Context, o order) (string, error) { return "hold " + o.SKU, nil }).
			Undo(func(context.Context, order, string) error { return nil })
		charge := engine.Step(b, pay, o, charge).After(reserve).
			Retry(2, engine.Fixed(time.Hour)).
			Undo(unCharge)
		return engine.Step(b, "ship", o, ship).After(charge)
	})
}

// leaveKey is where a body finds how its caller goes away.
type leaveKey struct{}

func charge(ctx context.Context, o order) (string, error) {
	switch o.Ends {
	case "halted":
		return "", engine.Halt("the customer has gone")
	case "skipped":
		return "free", engine.Skip("nothing to pay")
	case "retried":
		return "", errors.New("the bank is closed")
	case "aborted":
		ctx.Value(leaveKey{}).(context.CancelFunc)()
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "paid by " + o.Ends, nil
}

func unCharge(_ context.Context, o order, _ string) error {
	if o.Ends == "stuck" {
		return errors.New("the bank refuses\x1b[31m to give it back")
	}
	return nil
}

func ship(_ context.Context, o order) (string, error) {
	if o.Ends == "failed" || o.Ends == "stuck" {
		return "", engine.Permanent(fmt.Errorf("no carrier takes a %s of %s", o.SKU, o.Card))
	}
	return "on its way", nil
}

// run makes a run here that ends as said and returns its id.
func (l *lab) run(sku, ends string) string {
	l.t.Helper()
	ctx, leave := context.WithCancel(l.t.Context())
	defer leave()
	res, err := l.shop.Run(context.WithValue(ctx, leaveKey{}, leave), l.eng, order{SKU: sku, Ends: ends, Card: card})
	if res.RunID == "" {
		l.t.Fatalf("the run was not made: %v", err)
	}
	return res.RunID
}

// start makes a run for workers.
func (l *lab) start(sku, ends string, o engine.StartOptions) string {
	l.t.Helper()
	h, err := l.shop.Start(l.t.Context(), l.eng, order{SKU: sku, Ends: ends, Card: card}, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return h.ID
}

// drive drives a run as a worker does.
func (l *lab) drive(eng *engine.Engine, run string) {
	l.t.Helper()
	if err := eng.Drive(l.t.Context(), engine.Wake{Runs: []string{run}, Queue: "reactor", Priority: 1}); err != nil {
		l.t.Fatal(err)
	}
}

// sql changes the database behind the engine's back, to let time pass.
func (l *lab) sql(statement string) {
	l.t.Helper()
	ctx := context.WithoutCancel(l.t.Context()) // also for what is cleaned up
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		l.t.Fatal(err)
	}
}

// call calls reactorctl on the database of the lab.
func (l *lab) call(args ...string) said {
	l.t.Helper()
	return call(l.t, append(args, "--database", l.url)...)
}

// filled is a lab with a run of each kind, and their ids by how they end.
func filled(t *testing.T) (*lab, map[string]string) {
	t.Helper()
	l := newLab(t)
	ids := map[string]string{}
	for _, ends := range []string{"completed", "skipped", "halted", "failed", "stuck", "aborted"} {
		ids[ends] = l.run("book", ends)
	}
	if _, err := l.shop.Run(t.Context(), l.eng, order{Card: card}); err == nil {
		t.Fatal("an order without a SKU was taken")
	}
	ids["retried"] = l.start("lamp", "retried", engine.StartOptions{Tags: []string{"web", "vip"}})
	l.drive(l.eng, ids["retried"])
	ids["pending"] = l.start("lamp", "completed", engine.StartOptions{At: time.Now().Add(3 * time.Hour), Priority: 2})
	return l, ids
}

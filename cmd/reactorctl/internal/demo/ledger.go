package demo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/examples/checkout"
)

// A ledger is the services of the shop, as far as they matter: a table of the
// calls they got. Under a key that a service has seen it changes nothing and
// answers as before.
type ledger struct {
	pool  *pgxpool.Pool
	table string // quoted, with its schema
}

func newLedger(pool *pgxpool.Pool, schema string) *ledger {
	return &ledger{pool, pgx.Identifier{schema, "demo_calls"}.Sanitize()}
}

// create makes the table. Two demos may do so at the same time.
func (l *ledger) create(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `create table if not exists `+l.table+` (
		id     bigint generated always as identity primary key,
		at     timestamptz not null default clock_timestamp(),
		run_id uuid not null,
		step   text not null,
		what   text not null,
		key    text not null,
		first  boolean not null, -- of its key; the others changed nothing
		worker integer not null  -- process id
	)`)
	if err != nil {
		return fmt.Errorf("create the table of the demo's calls: %w", err)
	}
	return nil
}

// call notes a call of the step at work; first is false if its key was seen.
func (l *ledger) call(ctx context.Context, what, key string) (first bool, err error) {
	info := engine.RunFrom(ctx)
	err = l.pool.QueryRow(ctx, `insert into `+l.table+` (run_id, step, what, key, first, worker)
		select $1, $2, $3, $4, not exists (select from `+l.table+` where key = $4), $5 returning first`,
		info.RunID, info.Path, what, key, os.Getpid()).Scan(&first)
	return first, err
}

// A callRow is one call.
type callRow struct {
	What   string
	Key    string
	First  bool
	Worker int
}

// calls are those of a run, in their order.
func (l *ledger) calls(ctx context.Context, run string) ([]callRow, error) {
	rows, err := l.pool.Query(ctx, `select what, key, first, worker from `+l.table+` where run_id = $1 order by id`, run)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[callRow])
}

// services are stock, bank and post on a ledger.
type services struct{ *ledger }

func (s services) shop() *checkout.Shop { return &checkout.Shop{Stock: s, Bank: s, Post: s} }

// slowCard is a card whose bank takes the money at once and does not answer: the
// worker that asked is to be killed meanwhile. Asked again, it answers.
const slowCard = "4000-0000-0000-0341"

// nowhere is where the post does not deliver.
const nowhere = "Atlantis"

// Hold is of checkout.Stock.
func (s services) Hold(ctx context.Context, key, _ string) (checkout.Hold, error) {
	_, err := s.call(ctx, "hold", key)
	return checkout.Hold{ID: "hold-" + short(key)}, err
}

// Release is of checkout.Stock.
func (s services) Release(ctx context.Context, key string, _ checkout.Hold) error {
	_, err := s.call(ctx, "release", key)
	return err
}

// Charge is of checkout.Bank.
func (s services) Charge(ctx context.Context, key, card string, cents int) (checkout.Payment, error) {
	first, err := s.call(ctx, "charge", key)
	if err == nil && first && card == slowCard {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	return checkout.Payment{ID: "payment-" + short(key), Cents: cents}, err
}

// Refund is of checkout.Bank.
func (s services) Refund(ctx context.Context, key string, _ checkout.Payment) error {
	_, err := s.call(ctx, "refund", key)
	return err
}

// Void is of checkout.Bank.
func (s services) Void(ctx context.Context, key, _ string) error {
	_, err := s.call(ctx, "void", key)
	return err
}

// Ship is of checkout.Post.
func (s services) Ship(ctx context.Context, key string, p checkout.Parcel) (checkout.Label, error) {
	if p.Address == nowhere {
		return checkout.Label{}, errors.New("the post does not deliver to " + nowhere)
	}
	_, err := s.call(ctx, "ship", key)
	return checkout.Label{Tracking: "parcel-" + short(key)}, err
}

// Recall is of checkout.Post.
func (s services) Recall(ctx context.Context, key string, _ checkout.Label) error {
	_, err := s.call(ctx, "recall", key)
	return err
}

// short is the beginning of a key, enough to tell those of one demo apart.
func short(key string) string { return key[:min(8, len(key))] }

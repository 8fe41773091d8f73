package river

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
)

// Queue is the queue of the wake-ups unless engine.Config.Queue says otherwise.
const Queue = "reactor"

// seldom is a cooldown that lets River send its own notice for a queue once in
// the life of a process.
const seldom = time.Duration(math.MaxInt64)

// A Dispatcher queues wake-ups as River jobs. Its methods may be called from
// any goroutine.
type Dispatcher struct {
	quiet  *river.Client[pgx.Tx] // for transactions of ours, whose commit is followed by the bell
	loud   *river.Client[pgx.Tx] // for transactions of callers, who ring no bell
	bell   *bell
	pool   *pgxpool.Pool
	schema string
	err    error // what Validate says
}

var _ engine.Dispatcher = (*Dispatcher)(nil)

// Options are what a dispatcher may ask for; give at most one value, a second
// one is an error of engine.New.
type Options struct {
	Schema string // of River's tables. Default that of River: the search path's
}

// NewDispatcher returns a dispatcher with insert-only River clients of its own.
// It does no I/O and needs no Close. The pool must outlive it. A bad schema and
// a nil pool are errors of engine.New.
func NewDispatcher(pool *pgxpool.Pool, opts ...Options) *Dispatcher {
	var o Options
	switch {
	case pool == nil:
		return &Dispatcher{err: errors.New("river: NewDispatcher was given a nil pool")}
	case len(opts) > 1:
		return &Dispatcher{err: fmt.Errorf("river: NewDispatcher was given %d Options; it takes one", len(opts))}
	case len(opts) == 1:
		o = opts[0]
	}
	d := &Dispatcher{bell: &bell{send: noticesOn(pool, o.Schema)}, pool: pool, schema: o.Schema}
	if d.quiet, d.err = inserter(pool, o.Schema, seldom); d.err == nil {
		d.loud, d.err = inserter(pool, o.Schema, river.FetchCooldownDefault)
	}
	return d
}

// inserter is a client that inserts jobs and works none.
func inserter(pool *pgxpool.Pool, schema string, cooldown time.Duration) (*river.Client[pgx.Tx], error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:            schema,
		Logger:            slog.Default(),
		FetchCooldown:     cooldown, // of an inserter: how long it sends no further notice
		FetchPollInterval: max(cooldown, river.FetchPollIntervalDefault),
	})
	if err != nil {
		return nil, fmt.Errorf("river: Options.Schema %q: %w", schema, err)
	}
	return client, nil
}

// Validate says what is wrong with what NewDispatcher was given.
func (d *Dispatcher) Validate() error { return d.err }

// Database is the name of the database of the pool and the host that it is
// reached at; both are "" without a pool.
func (d *Dispatcher) Database() (name, host string) {
	if d.pool == nil {
		return "", ""
	}
	c := d.pool.Config().ConnConfig
	return cmp.Or(c.Database, c.User), c.Host
}

// pgxTx is what package pgstore makes of a pgx transaction.
type pgxTx interface{ Pgx() pgx.Tx }

// Wake inserts a job for each of the wakes, in tx and in one call. With notify
// River's own notice is part of tx, at most once per queue and 100 ms; a job
// without one is found by polling. Without notify call Ring after the commit.
// After an error tx must be rolled back.
func (d *Dispatcher) Wake(ctx context.Context, tx engine.Tx, wakes []engine.Wake, notify bool) error {
	if d.err != nil || len(wakes) == 0 {
		return d.err
	}
	in, err := unwrap(tx)
	if err != nil {
		return err
	}
	client := d.quiet
	if notify {
		client = d.loud
	}
	if _, err := client.InsertManyTx(ctx, in, jobsOf(wakes)); err != nil {
		return d.explain(err)
	}
	return nil
}

// unwrap finds the pgx transaction in tx.
func unwrap(tx engine.Tx) (pgx.Tx, error) {
	t, ok := tx.(pgxTx)
	switch {
	case tx == nil:
		return nil, errors.New("river: wake-ups need a transaction, and it is nil")
	case !ok:
		return nil, fmt.Errorf("river: a %T is no transaction that River can insert in: make one with pgstore.Tx", tx)
	case t.Pgx() == nil:
		return nil, errors.New("river: the pgx transaction is nil")
	}
	return t.Pgx(), nil
}

func jobsOf(wakes []engine.Wake) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, len(wakes))
	for i, w := range wakes {
		jobs[i] = river.InsertManyParams{
			Args: driveArgs{Runs: w.Runs},
			InsertOpts: &river.InsertOpts{
				Queue: cmp.Or(w.Queue, Queue), Priority: w.Priority, MaxAttempts: driveAttempts,
			},
		}
	}
	return jobs
}

// explain says what to do about River tables that are not there, in place of
// what the database says.
func (d *Dispatcher) explain(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == pgerrcode.UndefinedTable {
		return fmt.Errorf("the tables of River are missing %s: run reactorctl migrate, or call migrations.Up", place(d.quiet.Schema()))
	}
	return fmt.Errorf("insert %s jobs: %w", driveArgs{}.Kind(), err)
}

func place(schema string) string {
	if schema == "" {
		return "in the search path"
	}
	return "in schema " + schema
}

// Ring tells the River clients that work the queues to fetch, now. It returns
// at once. One notice goes out per 10 ms, that is at most 100 a second from this
// dispatcher, and calls in between are answered after the pause, together. A notice that can't be sent is forgotten: polling finds the jobs.
func (d *Dispatcher) Ring(queues ...string) {
	if d.err == nil {
		d.bell.ring(queues)
	}
}

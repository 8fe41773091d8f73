package pgstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
)

// The limits of our own transactions. A header is locked by others for the
// length of a save, or by a transaction of the application.
const (
	lockTimeout      = "5s"
	statementTimeout = "30s"
	rollbackTimeout  = time.Second
)

// limitsSQL sets them for the transaction. Statements over arrays are planned
// each time, so that no plan of an empty table is kept; one that finds its rows
// by their keys keeps its plan. Neither looks through whole tables, so that a
// header is found by its id in a table of any size. The cost that this gives to small tables must not make the server
// compile them.
const limitsSQL = `
select set_config('lock_timeout', $1::text, true),
       set_config('statement_timeout', $2::text, true),
       set_config('plan_cache_mode', $3::text, true),
       set_config('enable_seqscan', 'off', true),
       set_config('jit', 'off', true)`

// A work is one transaction of ours. Its functions may be called several times.
type work struct {
	options pgx.TxOptions        // what is not set is READ COMMITTED, to write
	lone    bool                 // no statement over arrays of rows: their plans are kept
	queue   func(b *pgx.Batch)   // adds the statements, with what reads their answers
	verdict func() error         // what the answers mean; nil: nothing can be wrong
	wakes   func() []engine.Wake // that follow from them; nil: the commit travels with the statements
}

// plans says whether a plan is made for each execution.
func (w work) plans() string {
	if w.lone {
		return "force_generic_plan"
	}
	return "force_custom_plan"
}

// reading is the options of a transaction that reads with one statement.
var reading = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}

// snapshot is the options of a transaction that reads with several statements
// what must fit together.
var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// do runs w as a transaction of its own, again if it has to, and rings the bell
// after its commit.
func (s *Store) do(ctx context.Context, w work) error {
	if w.options.IsoLevel == "" {
		w.options.IsoLevel = pgx.ReadCommitted
	}
	if s.dispatcher == nil {
		w.wakes = nil
	}
	var wakes []engine.Wake // of the last try that queued some: its commit may have landed
	err := repeat(ctx, func() error {
		queued, err := s.transact(ctx, w)
		if len(queued) > 0 {
			wakes = queued
		}
		return err
	})
	if err == nil && len(wakes) > 0 {
		s.dispatcher.Ring(queuesOf(wakes)...)
	}
	return err
}

// transact runs w once and returns the wake-ups that were queued, also if the
// commit then failed.
func (s *Store) transact(ctx context.Context, w work) ([]engine.Wake, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	defer rollback(ctx, conn)
	var b pgx.Batch
	b.BeginTx(w.options)
	b.Queue(limitsSQL, lockTimeout, statementTimeout, w.plans())
	w.queue(&b)
	if w.wakes == nil {
		b.Queue("commit")
	}
	results := conn.Conn().SendBatch(ctx, &b)
	tx := results.Tx()
	if err := results.Close(); err != nil {
		return nil, err
	}
	if w.verdict != nil {
		if err := w.verdict(); err != nil {
			return nil, err
		}
	}
	if w.wakes == nil {
		return nil, nil
	}
	wakes := w.wakes()
	if err := s.enqueue(ctx, tx, wakes, false); err != nil {
		return nil, err
	}
	return wakes, tx.Commit(ctx)
}

// rollback ends a transaction that an error left open, so that the connection
// can go back to the pool; one that can't be saved is closed by Release.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}

// lone runs a statement that is a transaction by itself and hands its rows to
// scan.
func (s *Store) lone(ctx context.Context, text string, scan func(pgx.Rows) error, args ...any) error {
	return repeat(ctx, func() error {
		rows, err := s.pool.Query(ctx, s.sql(text), append([]any{s.mode}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if err := scan(rows); err != nil {
			return err
		}
		return rows.Err()
	})
}

// enqueue gives the wake-ups to the dispatcher, in tx.
func (s *Store) enqueue(ctx context.Context, tx pgx.Tx, wakes []engine.Wake, notify bool) error {
	if s.dispatcher == nil || len(wakes) == 0 {
		return nil
	}
	if err := s.dispatcher.Wake(ctx, transaction{tx}, wakes, notify); err != nil {
		return &enqueueError{err}
	}
	return nil
}

// enqueueError is an error of the dispatcher.
type enqueueError struct{ err error }

func (e *enqueueError) Error() string { return "queue wake-ups: " + plainText(e.err) }
func (e *enqueueError) Unwrap() error { return e.err }

// A dueRun is one that is to be woken.
type dueRun struct {
	id, queue string
	priority  int
	dead      bool // its owner died
}

// wakesOf groups runs into wake-ups of one queue and priority, in their order.
func wakesOf(runs []dueRun) []engine.Wake {
	type group struct {
		queue    string
		priority int
	}
	var wakes []engine.Wake
	last := map[group]int{} // the wake-up of the group that may have room
	for _, r := range runs {
		g := group{r.queue, r.priority}
		i, ok := last[g]
		if !ok || len(wakes[i].Runs) == engine.MaxWake {
			i = len(wakes)
			last[g] = i
			wakes = append(wakes, engine.Wake{Queue: r.queue, Priority: r.priority})
		}
		wakes[i].Runs = append(wakes[i].Runs, r.id)
	}
	return wakes
}

// queuesOf is the queues of wakes, each once.
func queuesOf(wakes []engine.Wake) []string {
	queues := make([]string, len(wakes))
	for i, w := range wakes {
		queues[i] = w.Queue
	}
	slices.SortFunc(queues, strings.Compare)
	return slices.Compact(queues)
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
)

// The effect ledger: what bodies did, each call a row, written over a
// connection of its own without any constraint, so that doubled effects show.
// Barriers hold a body until the test lets it go on.
const ledgerTables = `
create table qa_effect (id bigint generated always as identity, run uuid, step text, phase text, attempt int, recovery int, idem text,
                        worker text, cause text, at timestamptz default clock_timestamp());
create table qa_barrier (name text primary key, reached int not null default 0, open boolean not null default false);`

func makeLedger(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), ledgerTables); err != nil {
		t.Fatal(err)
	}
}

// ledger is the side of the bodies.
type ledger struct {
	pool   *pgxpool.Pool
	worker string
}

func (l *ledger) note(ctx context.Context, phase string) {
	i := engine.RunFrom(ctx)
	_, err := l.pool.Exec(context.WithoutCancel(ctx),
		`insert into qa_effect (run, step, phase, attempt, recovery, idem, worker) values ($1, $2, $3, $4, $5, $6, $7)`,
		i.RunID, i.Path, phase, i.Attempt, i.Recovery, i.IdempotencyKey(), l.worker)
	if err != nil {
		panic(fmt.Sprintf("ledger: %v", err))
	}
}

// noteCause adds what a compensate was given to its last row.
func (l *ledger) noteCause(ctx context.Context, cause error) {
	code := ""
	if c, ok := cause.(interface{ ErrorCode() string }); ok {
		code = c.ErrorCode()
	}
	_, err := l.pool.Exec(context.WithoutCancel(ctx), `update qa_effect set cause = $2 where id = (select max(id) from qa_effect where run = $1)`,
		engine.RunFrom(ctx).RunID, fmt.Sprintf("%s [%s] %t", cause, code, errors.Is(cause, errScripted)))
	if err != nil {
		panic(fmt.Sprintf("ledger: %v", err))
	}
}

// pass waits at a barrier until it is open or ctx ends.
func (l *ledger) pass(ctx context.Context, name string) error {
	_, err := l.pool.Exec(ctx, `insert into qa_barrier (name, reached) values ($1, 1) on conflict (name) do update set reached = qa_barrier.reached + 1`, name)
	if err != nil {
		return err
	}
	for {
		var open bool
		if err := l.pool.QueryRow(ctx, `select open from qa_barrier where name = $1`, name).Scan(&open); err != nil {
			return err
		}
		if open {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// awaitBarrier blocks until bodies have reached a barrier n times.
func awaitBarrier(t *testing.T, pool *pgxpool.Pool, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("barrier %s reached %d times", name, n), func() bool {
		var reached int
		_ = pool.QueryRow(t.Context(), `select reached from qa_barrier where name = $1`, name).Scan(&reached)
		return reached >= n
	})
}

func openBarrier(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `insert into qa_barrier (name, open) values ($1, true) on conflict (name) do update set open = true`, name); err != nil {
		t.Fatal(err)
	}
}

// effects is the ledger of a run, as phase and step with its attempt.
func effects(t *testing.T, pool *pgxpool.Pool, run string) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select phase || ' ' || step || '#' || attempt from qa_effect where run = $1 order by id`, run)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

// keysOf are the distinct idempotency keys of a step in a phase.
func keysOf(t *testing.T, pool *pgxpool.Pool, run, step, phase string) (keys int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select count(distinct idem) from qa_effect where run = $1 and step = $2 and phase = $3`, run, step, phase).Scan(&keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// eventually polls until what is true, or fails the test.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

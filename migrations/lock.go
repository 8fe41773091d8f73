package migrations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// lockKey is of the advisory lock that one migrator in a database holds.
	lockKey int64 = 0x72656163746f72 // "reactor"
	// patience is how long a migrator waits for another one.
	patience = 5 * time.Minute
	// pause is between two tries to become the only migrator.
	pause = 200 * time.Millisecond
	// sessionName is the application_name of sessions that change a schema.
	sessionName = "reactor migrate"
	// lockTimeout is how long a change waits for a lock on a table in use. Who
	// wants to read or write that table waits behind it.
	lockTimeout = 4 * time.Second
)

// searchPath keeps objects that were planted in the path out of our statements.
const searchPath = "set local search_path = pg_catalog, pg_temp;\n"

// limits hold for one transaction, in place of those of the role and database:
// a change may take long, but it must not keep others waiting.
var limits = fmt.Sprintf(`set local application_name = '%s';
set local lock_timeout = '%dms';
select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings where name operator(pg_catalog.=) any (array['statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout']);
`, sessionName, lockTimeout.Milliseconds())

// begin starts a transaction that depends on no setting of the role and the
// database but the search path.
func begin(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, limits); err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

// inTx runs fn in a transaction of begin and commits it.
func inTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := begin(ctx, pool)
	if err != nil {
		return err
	}
	defer rollback(ctx, tx)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// rollback ends tx, also after ctx; after a commit it does nothing.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // the connection is closed if this fails
}

// A session is what the only migrator of a database works with.
type session struct {
	pool *pgxpool.Pool

	mu       sync.Mutex
	blockers []string // who held the lock that this migrator last waited for
}

// alone runs change while no other migrator is at work in the database. What
// says so is a lock of an open transaction on a connection of its own: a pooler
// leaves those two together, and the lock ends with them. The transaction does
// nothing else: if it had a snapshot while an index is being built concurrently,
// the index would wait for its end, and it for the index.
func (m *Migrator) alone(ctx context.Context, change func(context.Context, *session) error) error {
	config := m.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = 3, 0, 0 // for the lock, the change and watch
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer pool.Close()

	guard, err := takeLock(ctx, pool)
	if err != nil {
		return err
	}
	defer rollback(ctx, guard)

	s := &session{pool: pool}
	stop := s.watch()
	defer stop()
	return change(ctx, s)
}

// takeLock waits until it is the only migrator and returns the transaction that
// makes it so.
func takeLock(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		tx, err := tryLock(ctx, pool)
		if tx != nil {
			return tx, nil
		}
		if err == nil {
			err = wait(ctx, pause)
		}
		if ctx.Err() != nil {
			return nil, otherMigrator(ctx, pool)
		}
		if err != nil {
			return nil, explain("take the migration lock", err, nil)
		}
	}
}

// leaveNothing is how the transaction of the lock asks: else the portal of its
// query stays open, and with it a snapshot.
const leaveNothing = pgx.QueryExecModeSimpleProtocol

// tryLock returns nil and no error if another migrator has the lock.
func tryLock(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	tx, err := begin(ctx, pool)
	if err != nil {
		return nil, err
	}
	var got bool
	err = tx.QueryRow(ctx, `select pg_catalog.pg_try_advisory_xact_lock($1)`, leaveNothing, lockKey).Scan(&got)
	if err != nil || !got {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// lockHolder finds the session that has the advisory lock of a 64-bit key.
const lockHolder = `
select l.pid, coalesce(a.application_name, '')
  from pg_catalog.pg_locks l
  left join pg_catalog.pg_stat_activity a on a.pid operator(pg_catalog.=) l.pid
 where l.locktype operator(pg_catalog.=) 'advisory' and l.granted and l.objsubid operator(pg_catalog.=) 1
   and l.classid operator(pg_catalog.=) $1::pg_catalog.oid and l.objid operator(pg_catalog.=) $2::pg_catalog.oid
   and l.database operator(pg_catalog.=) (select d.oid from pg_catalog.pg_database d
        where d.datname operator(pg_catalog.=) pg_catalog.current_database())`

// otherMigrator is the error of a migrator whose time to become the only one is
// over.
func otherMigrator(ctx context.Context, pool *pgxpool.Pool) error {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	holders, err := sessions(ctx, pool, lockHolder, uint32(lockKey>>32), uint32(lockKey&0xffffffff))
	if err != nil || len(holders) == 0 {
		return fmt.Errorf("migrate: %w", cause)
	}
	return fmt.Errorf("migrate: waited for another migration, of %s: try again when it has ended: %w",
		strings.Join(holders, ", "), cause)
}

// lockBlockers finds the sessions that a migrator's session waits for. There is
// one migrator in a database.
const lockBlockers = `
select b.pid, coalesce(a.application_name, '')
  from pg_catalog.pg_stat_activity w
 cross join lateral pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) b (pid)
  left join pg_catalog.pg_stat_activity a on a.pid operator(pg_catalog.=) b.pid
 where w.application_name operator(pg_catalog.=) $1 and w.wait_event_type operator(pg_catalog.=) 'Lock'
   and w.datname operator(pg_catalog.=) pg_catalog.current_database()
 order by b.pid`

// watch looks again and again whom the change waits for, since nobody can tell
// once the wait has timed out.
func (s *session) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait(ctx, pause) == nil {
			s.seeBlockers(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// seeBlockers remembers the sessions that block the change, if any do. An error
// costs no more than their names.
func (s *session) seeBlockers(ctx context.Context) {
	found, err := sessions(ctx, s.pool, lockBlockers, sessionName)
	if err != nil || len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blockers = found
}

// explain is the error of what the session was doing.
func (s *session) explain(doing string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return explain(doing, err, slices.Clone(s.blockers))
}

// sessions names the sessions that a query of pid and application name finds.
func sessions(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) ([]string, error) {
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var pid int32
		var application string
		err := row.Scan(&pid, &application)
		switch {
		case pid == 0:
			return "a prepared transaction", err
		case application == "":
			return fmt.Sprintf("pid %d", pid), err
		}
		return fmt.Sprintf("pid %d (%s)", pid, application), err
	})
}

package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/migrations"
)

// reader is an open transaction that has read a table, as pg_dump has.
func reader(t *testing.T, pool *pgxpool.Pool, table string) (tx pgx.Tx, pid uint32) {
	t.Helper()
	tx = begin(t, pool)
	run(t, tx, "set local application_name = 'pg_dump'")
	run(t, tx, "select * from "+table)
	return tx, tx.Conn().PgConn().PID()
}

func wantLockError(t *testing.T, err error, doing string, pid uint32) {
	t.Helper()
	want := fmt.Sprintf("%s: waited 4s for a lock that is held by pid %d (pg_dump): "+
		"wait for the end of its transaction, or end it, and try again", doing, pid)
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestUpNamesWhoBlocksIt(t *testing.T) {
	t.Parallel()
	if migrations.LockTimeout > 5*time.Second {
		t.Errorf("a change waits %v for a lock, want at most 5s", migrations.LockTimeout)
	}
	pool := emptyPool(t)
	upWith(t, pool, firstSteps(1))
	tx, pid := reader(t, pool, "reactor.things")
	r, err := migratorOf(t, pool, steps).Up(t.Context())
	wantLockError(t, err, `migrate schema "reactor" to version 2`, pid)
	if r.After.Version != 1 {
		t.Errorf("the report ends at version %d, want 1", r.After.Version)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	upWith(t, pool, steps)
}

// An index that is built concurrently waits for the end of every transaction with
// a snapshot, so that of the lock must never have one beside the change.
func TestTheLockOfMigrationsHasNoSnapshot(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	upWith(t, pool, firstSteps(1))
	tx, _ := reader(t, pool, "reactor.things")
	up := make(chan error, 1)
	go func() {
		_, err := migratorOf(t, pool, steps).Up(t.Context())
		up <- err
	}()
	until(t, "Up looks who blocks it", func() bool {
		return queryOne(t, pool, `select (count(*) > 0)::text from pg_stat_activity where datname = current_database()
			and query like '%pg_blocking' || '_pids%' and pid <> pg_backend_pid()`) == "true"
	})
	got := queryAll(t, pool, `select concat_ws(', ', a.state, substring(a.query from 'pg_try_advisory_xact_lock'), a.backend_xmin)
		from pg_locks l join pg_stat_activity a using (pid)
		where l.locktype = 'advisory' and l.granted and a.datname = current_database()`)
	if diff := cmp.Diff([]string{"idle in transaction, pg_try_advisory_xact_lock"}, got); diff != "" {
		t.Errorf("state, last query and snapshot of the session with the lock (-want +got):\n%s", diff)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

func TestDownNamesWhoBlocksIt(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	upWith(t, pool, steps)
	tx, pid := reader(t, pool, "reactor.things")
	m := migratorOf(t, pool, steps)
	_, err := m.Down(t.Context(), 1)
	wantLockError(t, err, `migrate schema "reactor" down from version 3`, pid)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Down(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

func TestUpRiverNamesWhoBlocksIt(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	riverUp(t, pool, "", 6)
	tx, pid := reader(t, pool, "river_job")
	m := newMigrator(t, pool, migrations.Options{})
	_, err := m.UpRiver(t.Context())
	wantLockError(t, err, "migrate River's tables to version 7", pid)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.UpRiver(t.Context()); err != nil {
		t.Error(err)
	}
}

// holdLock is another migrator that is at work.
func holdLock(t *testing.T, pool *pgxpool.Pool) (tx pgx.Tx, pid uint32) {
	t.Helper()
	tx = begin(t, pool)
	run(t, tx, "select pg_advisory_xact_lock($1)", migrations.LockKey)
	return tx, tx.Conn().PgConn().PID()
}

// untilLockIsTried returns when a migrator has found the lock taken.
func untilLockIsTried(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	until(t, "Up has tried to take the lock", func() bool {
		return queryOne(t, pool, `select (count(*) > 0)::text from pg_stat_activity
			where datname = current_database() and query ~ 'pg_try_advisory_xact_lock|^rollback$'
			  and pid <> pg_backend_pid()`) == "true"
	})
}

func TestUpNamesTheOtherMigration(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	tx, pid := holdLock(t, pool)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := make(chan error, 1)
	go func() { up <- migrations.Up(ctx, pool) }()
	untilLockIsTried(t, pool)
	cancel()
	err := <-up
	if want := fmt.Sprintf("another migration, of pid %d", pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one that names %s", err, want)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustUp(t, pool, migrations.Options{})
}

func TestUpWaitsForTheOtherMigration(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	tx, _ := holdLock(t, pool)
	up := make(chan error, 1)
	go func() { up <- migrations.Up(t.Context(), pool) }()
	untilLockIsTried(t, pool)
	select {
	case err := <-up:
		t.Fatalf("Up did not wait: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

// Processes that start on a database that is up to date don't queue, and need no
// right to change it.
func TestUpOnlyReadsWhenAllIsDone(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	mustUp(t, pool, migrations.Options{})
	holdLock(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := migrations.Up(ctx, pool); err != nil {
		t.Errorf("Up wanted the lock of migrations: %v", err)
	}
}

func TestUpWithAnEndedContext(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := migrations.Up(ctx, pool); err == nil || strings.Contains(err.Error(), "another migration") {
		t.Errorf("error is %v, want one of the context", err)
	}
}

package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/pgstore"
)

// begin begins a transaction of the application.
func (f *fixture) begin(opts pgx.TxOptions) pgx.Tx {
	f.Helper()
	tx, err := f.pool.BeginTx(f.Context(), opts)
	f.must(err)
	f.Cleanup(func() { tx.Rollback(context.WithoutCancel(f.Context())) })
	return tx
}

func (f *fixture) createIn(tx pgx.Tx, runs ...engine.NewRun) ([]engine.Created, error) {
	return f.store.Create(f.Context(), pgstore.Tx(tx), runs)
}

// settingsOf is what a transaction must find as it was.
func (f *fixture) settingsOf(tx pgx.Tx) (s string) {
	f.Helper()
	f.must(tx.QueryRow(f.Context(), `select string_agg(name || '=' || setting, ' ' order by name) from pg_settings
		where name in ('lock_timeout', 'statement_timeout', 'plan_cache_mode', 'enable_seqscan', 'jit', 'search_path', 'TimeZone')`).Scan(&s))
	return s
}

// spec: K-829, C-637
func TestCreateInside(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec(`create table orders (id int primary key, parent int references orders deferrable initially deferred)`)
	tx := f.begin(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), `set local lock_timeout = '77s'; set local plan_cache_mode = 'force_generic_plan'; insert into orders values (1)`)
	f.must(err)
	before := f.settingsOf(tx)
	run, later := newRun(), newRun()
	later.DueIn = hour
	created, err := f.createIn(tx, run, later)
	f.must(err)
	if created[0].ID != run.ID || created[0].Existing || created[0].Now.IsZero() {
		t.Errorf("answer %+v", created[0])
	}
	if after := f.settingsOf(tx); after != before {
		t.Errorf("settings before and after:\n%s\n%s", before, after)
	}
	if _, err := f.store.Get(t.Context(), run.ID); !errors.Is(err, engine.ErrRunNotFound) {
		t.Errorf("before the commit: %v", err)
	}
	f.must(tx.Commit(t.Context()))
	f.wokenOnce(run.ID)
	if len(f.queue.rings) > 0 {
		t.Error("the bell was rung: the transaction tells by itself")
	}
	if n := f.number(`select count(*) from orders`); n != 1 || f.get(run.ID).Status != engine.Pending || f.get(later.ID).Due.IsZero() {
		t.Errorf("%d orders, run %+v", n, f.get(run.ID))
	}
}

// Rolled back, also to a savepoint or by a deferred constraint, there is no run.
//
// spec: K-829
func TestCreateInsideRolledBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec(`create table orders (id int primary key, parent int references orders deferrable initially deferred)`)
	tx := f.begin(pgx.TxOptions{})
	_, err := f.createIn(tx, newRun())
	f.must(err)
	f.must(tx.Rollback(t.Context()))

	tx = f.begin(pgx.TxOptions{})
	_, err = tx.Exec(t.Context(), `insert into orders values (1, 2)`)
	f.must(err)
	_, err = f.createIn(tx, newRun())
	f.must(err)
	if err := tx.Commit(t.Context()); err == nil {
		t.Fatal("the deferred constraint held")
	}

	tx = f.begin(pgx.TxOptions{})
	kept := newRun()
	_, err = f.createIn(tx, kept)
	f.must(err)
	savepoint, err := tx.Begin(t.Context())
	f.must(err)
	_, err = f.createIn(savepoint, newRun())
	f.must(err)
	f.must(savepoint.Rollback(t.Context()))
	f.must(tx.Commit(t.Context()))
	page, _, err := f.store.List(t.Context(), engine.Query{})
	f.must(err)
	if len(page) != 1 || page[0].ID != kept.ID {
		t.Errorf("%d runs", len(page))
	}
}

// A creation that is refused leaves the transaction as it was.
//
// spec: K-829, K-356
func TestCreateInsideRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	there := newRun()
	f.create(there)
	f.queue.clear()
	f.exec(`create table orders (id int)`)
	tx := f.begin(pgx.TxOptions{})
	before := f.settingsOf(tx)
	clash, priority := there, newRun()
	clash.WriteID, priority.Priority = newID(), 9
	if _, err := f.createIn(tx, newRun(), clash); f.refusal(err).Run != there.ID {
		t.Errorf("error %v", err)
	}
	if _, err := f.createIn(tx, newRun(), priority); !errors.Is(err, engine.ErrUnstorable) {
		t.Errorf("error %v", err)
	}
	f.queue.standing(func(context.Context, engine.Tx) error { return errors.New("the queue is away") })
	_, err := f.createIn(tx, newRun())
	f.away(err)
	f.queue.standing(nil)
	f.queue.clear()
	if after := f.settingsOf(tx); after != before {
		t.Errorf("settings before and after:\n%s\n%s", before, after)
	}
	good := newRun()
	_, err = f.createIn(tx, good)
	f.must(err)
	_, err = tx.Exec(t.Context(), `insert into orders values (1)`)
	f.must(err)
	f.must(tx.Commit(t.Context()))
	f.wokenOnce(good.ID)
	if n := f.number(`select count(*) from reactor.runs`); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// The second of two open transactions with one start key waits for the first.
//
// spec: K-832
func TestCreateInsideWithOneKey(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		f := setup(t)
		first, second := newRun(), newRun()
		first.StartKey, second.StartKey = "k", "k"
		tx, other := f.begin(pgx.TxOptions{}), f.begin(pgx.TxOptions{})
		_, err := f.createIn(tx, first)
		f.must(err)
		answer := make(chan engine.Created, 1)
		go func() {
			created, err := f.createIn(other, second)
			if err != nil {
				t.Error(err)
				created = make([]engine.Created, 1)
			}
			answer <- created[0]
		}()
		f.waitsForLock()
		if commit {
			f.must(tx.Commit(t.Context()))
		} else {
			f.must(tx.Rollback(t.Context()))
		}
		c := <-answer
		if c.Existing != commit || c.ID == first.ID != commit {
			t.Errorf("the first committed: %t, the second got %+v", commit, c)
		}
		f.must(other.Commit(t.Context()))
		if n := f.number(`select count(*) from reactor.runs`); n != 1 {
			t.Errorf("%d runs", n)
		}
	}
}

// It does not wait for ever, and what it then says leaves its transaction
// usable.
//
// spec: K-832
func TestCreateInsideWaitsFiveSeconds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first, second := newRun(), newRun()
	first.StartKey, second.StartKey = "k", "k"
	tx, other := f.begin(pgx.TxOptions{}), f.begin(pgx.TxOptions{})
	_, err := f.createIn(tx, first)
	f.must(err)
	_, err = f.createIn(other, second)
	f.away(err)
	if !strings.Contains(err.Error(), "another open transaction") {
		t.Errorf("error %v", err)
	}
	f.must(tx.Rollback(t.Context()))
	_, err = f.createIn(other, second)
	f.must(err)
	f.must(other.Commit(t.Context()))
}

// In a stricter transaction it works or says that it can't be serialised.
//
// spec: K-945
func TestCreateInsideAStricterOne(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tx := f.begin(pgx.TxOptions{IsoLevel: pgx.Serializable})
	_, err := tx.Exec(t.Context(), `select 1`) // takes the snapshot
	f.must(err)
	there := newRun()
	there.StartKey = "k"
	f.create(there)
	second, free := newRun(), newRun()
	second.StartKey = "k"
	_, err = f.createIn(tx, second)
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "40001" {
		t.Fatalf("error %v", err)
	}
	f.readable(err)
	_, err = f.createIn(tx, free)
	f.must(err)
	f.must(tx.Commit(t.Context()))
}

func TestTransactionsOfOthers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, tx := range []engine.Tx{foreign{}, pgstore.Tx(nil)} {
		_, err := f.store.Create(t.Context(), tx, []engine.NewRun{newRun()})
		if err == nil || !strings.Contains(err.Error(), "pgstore.Tx") {
			t.Errorf("%T: error %v", tx, err)
		}
	}
	tx := f.begin(pgx.TxOptions{})
	if pgstore.FromTx(pgstore.Tx(tx)) != tx {
		t.Error("another transaction came back")
	}
	if _, ok := pgstore.Tx(tx).(interface{ Pgx() pgx.Tx }); !ok {
		t.Error("a transaction has no method Pgx")
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "foreign") {
			t.Errorf("panic %q", text)
		}
	}()
	pgstore.FromTx(foreign{})
}

type foreign struct{}

func (foreign) EngineTx() {}

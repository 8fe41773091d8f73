package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// stranded creates n runs that are due and that no wake-up is on its way for.
func (f *fixture) stranded(n int) (runs []string) {
	f.Helper()
	given := make([]engine.NewRun, n)
	for i := range given {
		given[i] = newRun()
		runs = append(runs, given[i].ID)
	}
	f.create(given...)
	f.exec(`update reactor.runs set wakes = 0, wake_at = due where id = any($1::text[]::uuid[])`, runs)
	f.queue.clear()
	return runs
}

func (f *fixture) sweep(limit int) (engine.SweepResult, error) {
	return f.store.Sweep(f.Context(), engine.SweepPass{Limit: limit})
}

// A row that a trigger refuses and one that somebody has locked do not stop the
// others; the first is reported and tried again later, the second is taken once
// it is free.
//
// spec: K-310, C-1001
func TestSweepWithABadAndALockedRow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	runs := f.stranded(200)
	bad, locked := runs[42], runs[142]
	f.exec(`create function refuse() returns trigger language plpgsql as
		$$ begin if new.id = '` + bad + `' then raise exception 'refused by the application'; end if; return new; end $$`)
	f.exec(`create trigger refuse before update on reactor.runs for each row execute function refuse()`)
	tx := f.begin(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), `select from reactor.runs where id = $1 for update`, locked)
	f.must(err)

	result, err := f.sweep(64)
	if err == nil || !strings.Contains(err.Error(), "run "+bad+" can't be woken: refused by the application") {
		t.Errorf("error %v", err)
	}
	f.readable(err)
	if !result.Ran || result.Found[engine.SweepDue] != 198 {
		t.Errorf("result %+v", result)
	}
	f.wokenOnce(slices.DeleteFunc(slices.Clone(runs), func(id string) bool { return id == bad || id == locked })...)

	f.queue.clear()
	if _, err := f.sweep(64); err != nil {
		t.Errorf("the bad row was tried again at once: %v", err)
	}
	f.wokenOnce()
	f.must(tx.Rollback(t.Context()))
	_, err = f.sweep(64)
	f.must(err)
	f.wokenOnce(locked)

	f.queue.clear()
	f.exec(`drop trigger refuse on reactor.runs`)
	f.eventually("the bad row, after a pause", func() bool {
		_, err := f.sweep(64)
		f.must(err)
		return slices.Contains(f.queue.woken(), bad)
	})
	f.exec(`delete from reactor.runs`)
}

// What the queue refuses is no row's fault.
func TestSweepWithoutAQueue(t *testing.T) {
	t.Parallel()
	f := setup(t)
	runs := f.stranded(3)
	calls := 0
	f.queue.standing(func(ctx context.Context, tx engine.Tx) error {
		calls++
		return errors.New("the queue is away")
	})
	_, err := f.sweep(10)
	f.away(err)
	if calls != 1 {
		t.Errorf("the queue was asked %d times", calls)
	}
	f.queue.standing(nil)
	f.queue.clear()
	_, err = f.sweep(10)
	f.must(err)
	f.wokenOnce(runs...)
	f.exec(`delete from reactor.runs`)
}

// Runs of a process that is long gone are found when its row is gone too, and
// whatever else it owns has been found before.
//
// spec: K-813, K-318
func TestSweepFindsTheDead(t *testing.T) {
	t.Parallel()
	f := setup(t)
	alive := f.owned()
	gone, lapsed := f.process(hour), f.process(hour)
	var dead []string
	for i := range 30 {
		r := ownedRun([]string{gone, lapsed}[i%2])
		f.create(r)
		dead = append(dead, r.ID)
	}
	f.must(f.store.Unregister(t.Context(), gone))
	f.lapse(lapsed)
	f.exec(`update reactor.processes set lease_until = now() - interval '14 days' where id = $1`, lapsed)
	f.queue.clear()
	result, err := f.sweep(4)
	f.must(err)
	if result.Found[engine.SweepDead] != 30 || result.Found[engine.SweepLeftovers] != 0 {
		t.Errorf("found %v", result.Found)
	}
	f.wokenOnce(dead...)
	if n := f.number(`select count(*) from reactor.runs where version <> 1 or owner is null`); n != 0 {
		t.Errorf("the sweep changed version or owner of %d runs", n)
	}
	f.exec(`delete from reactor.runs where id <> $1`, alive.Run)
	result, err = f.sweep(4)
	f.must(err)
	if result.Found[engine.SweepLeftovers] != 1 {
		t.Errorf("found %v", result.Found)
	}
	f.complete(alive)
}

// A killed sweeper leaves nothing: the pass is done by the next one.
//
// spec: K-910
func TestSweeperDies(t *testing.T) {
	t.Parallel()
	f := setup(t)
	runs := f.stranded(30)
	ctx, kill := context.WithCancel(t.Context())
	n := 0
	f.queue.standing(func(context.Context, engine.Tx) error {
		if n++; n == 2 {
			kill()
			return ctx.Err()
		}
		return nil
	})
	_, err := f.store.Sweep(ctx, engine.SweepPass{Limit: 10})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	f.queue.standing(nil)
	_, err = f.sweep(10)
	f.must(err)
	if woken := f.queue.woken(); len(woken) != 40 { // the ten of the broken transaction twice
		t.Errorf("%d wake-ups for %d runs", len(woken), len(runs))
	}
	if n := f.number(`select count(*) from reactor.runs where wakes = 1 and wake_at > now()`); n != 30 {
		t.Errorf("%d runs are noted as woken", n)
	}
	f.exec(`delete from reactor.runs`)
}

// spec: K-305
func TestSuspendedAndFinalRunsAreNotWoken(t *testing.T) {
	t.Parallel()
	f := setup(t)
	runs := f.stranded(2)
	f.exec(`update reactor.runs set suspended = 'by ada' where id = $1`, runs[0])
	result, err := f.sweep(10)
	f.must(err)
	if result.Found[engine.SweepDue] != 1 {
		t.Errorf("found %v", result.Found)
	}
	f.wokenOnce(runs[1])
	claims, err := f.store.Claim(t.Context(), claimOf(f.process(hour), runs[0]))
	f.must(err)
	if len(claims.Claimed) > 0 || claims.Refused[0].Why != engine.WhyStopped {
		t.Errorf("claim of a suspended run: %+v", claims)
	}
	page, _, err := f.store.List(t.Context(), engine.Query{Inbox: true})
	f.must(err)
	if len(page) != 1 || page[0].ID != runs[0] {
		t.Errorf("%d runs in the inbox", len(page))
	}
	f.exec(`delete from reactor.runs`)
}

package pgstore_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// header is the columns of a run as they are stored.
func (f *fixture) header(run string) (columns map[string]any) {
	f.Helper()
	var raw []byte
	f.must(f.pool.QueryRow(f.Context(), `select to_jsonb(r) from reactor.runs r where id = $1`, run).Scan(&raw))
	f.must(json.Unmarshal(raw, &columns))
	return columns
}

// rest is everything else that is stored of a run, with where it lies.
func (f *fixture) rest(run string) (text string) {
	f.Helper()
	f.must(f.pool.QueryRow(f.Context(), `
		select (select p.ctid::text || p::text from reactor.run_payloads p where run_id = $1)
		    || coalesce((select string_agg(n.ctid::text || n::text, ' ' order by path) from reactor.nodes n where run_id = $1), '')`, run).Scan(&text))
	return text
}

// changes wants do to change exactly these columns of a run's header, and
// nothing else of the run.
func (f *fixture) changes(what, run, columns string, do func()) {
	f.Helper()
	was, rest := f.header(run), f.rest(run)
	do()
	is := f.header(run)
	var changed []string
	for column := range is {
		if !cmp.Equal(was[column], is[column]) {
			changed = append(changed, column)
		}
	}
	slices.Sort(changed)
	if got := strings.Join(changed, " "); got != columns {
		f.Errorf("%s changed the columns %q, want %q", what, got, columns)
	}
	if now := f.rest(run); now != rest {
		f.Errorf("%s changed the values or nodes of the run:\n%s\n%s", what, rest, now)
	}
}

// What a claim, a take-over, a hand-back and a wake-up change: who owns the run
// and when it is due, and of its state only that it has begun. The times of its
// start and its end are set once, with the state that they are taken from.
//
// spec: K-815, K-816, K-819, K-414
func TestColumnsThatAreChanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	process, next, r := f.process(hour), f.process(hour), newRun()
	f.create(r)
	var fence engine.Fence
	f.changes("the first claim", r.ID, "due owner process started_at status version wake_at wakes write_id", func() {
		_, fence = f.own(process, r.ID)
	})
	f.save(&fence, step("a", 1))
	f.changes("a hand-back", r.ID, "due owner process version wake_at wake_reason wakes write_id", func() {
		f.save(&fence, engine.Changes{WriteID: newID(), Release: true, Due: true, WakeReason: "handed back"})
	})
	f.changes("a wake-up", r.ID, "wake_at wakes", func() { f.must(f.store.Wake(t.Context(), []string{r.ID})) })
	f.changes("a later claim", r.ID, "due owner process version wake_at wakes write_id", func() { _, fence = f.own(process, r.ID) })
	f.changes("a wake-up of an owned run", r.ID, "", func() { f.must(f.store.Wake(t.Context(), []string{r.ID})) })
	f.changes("a sweep over an owned run", r.ID, "", f.sweeps)
	f.lapse(process)
	f.changes("a sweep over a dead owner's run", r.ID, "due wake_at wakes", f.sweeps)
	f.changes("a take-over", r.ID, "dead_owner dead_process due owner process version wake_at wakes write_id", func() { _, fence = f.own(next, r.ID) })
	f.save(&fence, engine.Changes{WriteID: newID(), Status: engine.RollingBack, Rollback: engine.ByFailure})
	f.lapse(next)
	f.changes("a take-over of a rollback", r.ID, "dead_owner dead_process owner process version write_id", func() {
		_, fence = f.own(f.process(hour), r.ID)
	})
	f.changes("the end", r.ID, "ended_at owner process status version write_id", func() {
		f.save(&fence, engine.Changes{WriteID: newID(), Status: engine.Failed})
	})
	f.changes("whatever comes after the end", r.ID, "", func() {
		f.must(f.store.Wake(t.Context(), []string{r.ID}))
		f.sweeps()
		_, err := f.store.Claim(t.Context(), claimOf(f.process(hour), r.ID))
		f.must(err)
		_, err = f.store.Save(t.Context(), fence, engine.Changes{WriteID: newID(), Status: engine.Failed})
		f.refusal(err)
	})
}

// sweeps runs a pass.
func (f *fixture) sweeps() {
	f.Helper()
	_, err := f.sweep(10)
	f.must(err)
}

// The registration of a process that may have the fitting definition makes a
// blocked run due, and changes nothing else of it.
//
// spec: K-816
func TestColumnsOfARunThatIsUnblocked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence, why := f.owned(), "step b is gone"
	f.save(&fence, engine.Changes{WriteID: newID(), Release: true, Blocked: &why})
	f.changes("a registration", fence.Run, "due wake_at", func() { f.process(hour) })
}

// processAged is a process whose lease ended some time ago.
func (f *fixture) processAged(ago string) string {
	f.Helper()
	id := f.process(hour)
	f.exec(`update reactor.processes set lease_until = clock_timestamp() - $2::text::interval where id = $1`, id, ago)
	return id
}

// Rows of processes that are long gone are removed by the database's clock, in
// batches, without waiting for one that somebody has locked, and never one that
// a run names.
//
// spec: K-446, K-447
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	f, proxy, around := through(t)
	named := ownedRun(f.process(hour))
	f.create(named)
	f.exec(`update reactor.processes set lease_until = clock_timestamp() - interval '2 hours'`)
	var old []string
	for range 5 {
		old = append(old, f.processAged("61 minutes"))
	}
	kept := map[string]bool{named.Fence.Process: true, f.processAged("59 minutes"): true, f.process(hour): true}
	locked, err := around.Begin(t.Context())
	f.must(err)
	t.Cleanup(func() { _ = locked.Rollback(context.WithoutCancel(t.Context())) })
	_, err = locked.Exec(t.Context(), `select from reactor.processes where id = $1 for update`, old[2])
	f.must(err)
	kept[old[2]] = true
	result, err := f.sweep(2)
	f.must(err)
	if n := result.Found[engine.SweepLeftovers]; n != 4 {
		t.Errorf("%d leftovers were removed, want 4", n)
	}
	if n := proxy.Tagged("DELETE 2"); n != 2 {
		t.Errorf("%d batches of two", n)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kept)), f.processes()); diff != "" {
		t.Errorf("rows of processes (-want +got):\n%s", diff)
	}
	f.must(locked.Rollback(t.Context()))
	f.sweeps()
	delete(kept, old[2])
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kept)), f.processes()); diff != "" {
		t.Errorf("rows of processes once none is locked (-want +got):\n%s", diff)
	}
	f.exec(`delete from reactor.runs`)
}

// processes is the ids of the rows.
func (f *fixture) processes() (ids []string) {
	f.Helper()
	f.must(f.pool.QueryRow(f.Context(), `select array_agg(id::text order by id) from reactor.processes`).Scan(&ids))
	return ids
}

// A process that renews its lease after more than an hour keeps its row, or is
// told that it is gone: it never believes in a lease that was removed beside it.
//
// spec: K-446
func TestLeftoversAgainstAHeartbeat(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for range 50 {
		id, swept := f.processAged("2 hours"), make(chan error, 1)
		go func() {
			_, err := f.sweep(10)
			swept <- err
		}()
		known, err := f.store.Beat(t.Context(), id, hour)
		f.must(err)
		f.must(<-swept)
		if n := f.number(`select count(*) from reactor.processes where id = $1 and lease_until > clock_timestamp()`, id); known != (n == 1) {
			t.Fatalf("the heartbeat said known=%t, and there are %d rows", known, n)
		}
		if known {
			f.must(f.store.Unregister(t.Context(), id))
		}
	}
}

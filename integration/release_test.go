package integration

import (
	"context"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// late notes each value or node that is written of a run which nobody owns, in
// another transaction than the one that gave it up; and each run that is given
// up with nothing that would have it driven again or says why not.
const late = `
create table qa_late (what text);
create function qa_late() returns trigger language plpgsql as $$
begin
	insert into qa_late
	select tg_table_name || ' of a ' || r.status || ' run' from reactor.runs r
	 where r.id = new.run_id and r.owner is null and r.xmin::text::bigint <> txid_current() & 4294967295;
	return null;
end $$;
create trigger qa_late after insert or update on reactor.nodes for each row execute function qa_late();
create trigger qa_late after update on reactor.run_payloads for each row execute function qa_late();
create function qa_released() returns trigger language plpgsql as $$
begin
	insert into qa_late select 'a ' || new.status || ' run given up without a reason to go on'
	 where new.due is null and new.blocked is null and new.ended_at is null;
	return null;
end $$;
create trigger qa_released after update on reactor.runs for each row
	when (old.owner is not null and new.owner is null) execute function qa_released();`

// Whatever an owner stores of a run is stored before it gives the run up or with
// that: at the end, when it parks, and when it hands the run back, forward and
// in a rollback.
// spec: C-625, K-323
func TestNothingIsStoredAfterTheRelease(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	if _, err := pool.Exec(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	stops, goesOn := newJourney(true), newJourney(false)
	eng := starter(t, pool, stops.r)
	first := newPeer(t, url, engine.Config{}, stops.r)
	handles, err := stops.r.StartMany(t.Context(), eng, []string{"", "a", "b", "c", "undo b", "undo a", "fails in b"})
	if err != nil {
		t.Fatal(err)
	}
	for range handles[1:] {
		<-stops.at
	}
	first.stop()
	for i, want := range []string{ // of those that were cut off, what they had come to
		"a running", "a done, b running", "a done, b done, c running",
		"a done, b done, c failed", "a done, b done undo completed, c failed compensate skipped",
	} {
		got := one[string](t, pool, `select coalesce(string_agg(concat_ws(' ', path, state, hook, hook_state), ', ' order by path), '') from reactor.nodes where run_id = $1`, handles[i+1].ID)
		if got != want {
			t.Errorf("run %d was given up with %q stored, want %q", i+1, got, want)
		}
	}
	newPeer(t, url, engine.Config{}, goesOn.r)
	for _, h := range handles {
		final(t, eng, h.ID)
	}
	if n := one[int](t, pool, `select count(*) from qa_late`); n > 0 {
		t.Errorf("%d times: %s", n, one[string](t, pool, `select string_agg(distinct what, ', ') from qa_late`))
	}
}

// stubborn has bodies that come back long after their context has ended.
func stubborn(at chan context.Context, goOn chan struct{}) *engine.Reactor[int, int] {
	return engine.MustDefine("stubborn", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			at <- ctx
			<-goOn
			return n, ctx.Err()
		})
	})
}

// A pool that the application shares with the engine is not starved by bodies
// at work: none of them holds a connection.
// spec: K-425
func TestBodiesHoldNoConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t) // of ten connections
	at, goOn := make(chan context.Context, 100), make(chan struct{})
	r := stubborn(at, goOn)
	eng, _ := open(t, pool, engine.Config{}, r)
	handles, err := r.StartMany(t.Context(), eng, make([]int, 40))
	if err != nil {
		t.Fatal(err)
	}
	for range handles {
		<-at
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 6 { // the application takes most of them, while heartbeat and queue go on
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatalf("the application gets no connection: %v", err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	}
	close(goOn)
	for _, h := range handles {
		if res, err := h.Wait(ctx); err != nil || res.Status != engine.Completed {
			t.Errorf("%s, %v", res.Status, err)
		}
	}
}

// A run that is due at a time is driven then and not before, by the database's
// clock, whatever the clocks of the processes say.
// spec: K-814
func TestClocksOfProcessesDecideNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	wrong := func(by time.Duration) engine.Config { return engine.Config{Clock: shifted(by)} }
	o := newOutcomes(false)
	p := newPeer(t, url, wrong(10*24*time.Hour), o.r)
	newPeer(t, url, wrong(-10*24*time.Hour), o.r)
	due := one[time.Time](t, pool, `select clock_timestamp() + interval '700 milliseconds'`)
	for range 6 {
		if _, err := o.r.Start(t.Context(), p.Engine, "fails", engine.StartOptions{At: due}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are done", func() bool {
		return one[int](t, pool, `select count(*) from reactor.runs where status = 'completed'`) == 6
	})
	if n := one[int](t, pool, `select count(*) from reactor.runs where started_at < $1 or started_at > $1::timestamptz + interval '1 minute'
		or ended_at not between started_at and clock_timestamp()`, due); n != 0 {
		t.Errorf("%d runs have times that are not those of the database", n)
	}
	if n := one[int](t, pool, `select count(*) from reactor.processes where lease_until not between clock_timestamp() and clock_timestamp() + interval '2 seconds'`); n != 0 {
		t.Errorf("%d leases end at other times", n)
	}
}

// shifted is a clock that is wrong.
type shifted time.Duration

func (s shifted) Now() time.Time { return time.Now().Add(time.Duration(s)) }

package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// journey is a -> b -> c with undos. Its input says where its first process
// leaves it; in a process that is not to leave it every call works at once.
type journey struct {
	r      *engine.Reactor[string, string]
	leaves bool
	at     chan string
	mu     sync.Mutex
	calls  map[string]int // by run and call
}

func newJourney(leaves bool) *journey {
	j := &journey{leaves: leaves, at: make(chan string, 200), calls: map[string]int{}}
	j.r = engine.MustDefine("journey", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		last := in
		for _, name := range []string{"a", "b", "c"} {
			last = engine.Step(b, name, last, func(ctx context.Context, where string) (string, error) {
				if err := j.call(ctx, where, name); err != nil {
					return where, err
				}
				if name == "c" && strings.Contains(where, "undo") {
					return where, engine.Permanent(errors.New("c fails"))
				}
				return where, nil
			}).Retry(2, engine.Fixed(600*time.Millisecond)).
				Undo(func(ctx context.Context, where, _ string) error { return j.call(ctx, where, "undo "+name) })
		}
		return last
	})
	return j
}

func (j *journey) call(ctx context.Context, where, call string) error {
	run := engine.RunFrom(ctx).RunID
	j.mu.Lock()
	j.calls[run+" "+call]++
	first := j.calls[run+" "+call] == 1
	j.mu.Unlock()
	if !j.leaves || !first || where != call && where != "fails in "+call {
		return nil
	}
	j.at <- run
	if strings.HasPrefix(where, "fails") {
		return errors.New("not yet")
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// jobsOf is how many jobs that may still be worked name a run.
func jobsOf(t *testing.T, pool *pgxpool.Pool, run string) int {
	t.Helper()
	return one[int](t, pool, `select count(*) from river_job where state in ('available', 'running', 'retryable', 'scheduled') and args->'runs' ? $1`, run)
}

// All jobs are lost, of runs in every state that waits for one: two sweeps queue
// each of them once more, and nothing that waits for something else; then all
// of them end.
// spec: C-987, C-628, C-634, K-314, K-315
func TestAllJobsAreLost(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	left, goesOn := newJourney(true), newJourney(false)
	eng := starter(t, pool, left.r)
	start := func(where string, o engine.StartOptions) string {
		h, err := left.r.Start(t.Context(), eng, where, o)
		if err != nil {
			t.Fatal(err)
		}
		return h.ID
	}
	runs := map[string]string{}
	reach := func(p *peer, prefix string, wheres ...string) {
		for _, where := range wheres {
			runs[prefix+where] = start(where, engine.StartOptions{})
		}
		for range wheres {
			<-left.at
		}
	}
	dead := newPeer(t, url, engine.Config{NoSweep: true}, left.r)
	reach(dead, "its owner died in ", "b", "undo a")
	dead.cut()
	stopped := newPeer(t, url, engine.Config{NoSweep: true}, left.r)
	reach(stopped, "handed back in ", "b", "undo b", "fails in b")
	eventually(t, "the failed attempt is stored", func() bool {
		return one[int](t, pool, `select count(*) from reactor.nodes where state = 'waiting'`) == 1
	})
	stopped.stop()
	runs["pending"] = start("", engine.StartOptions{})
	later := start("", engine.StartOptions{At: time.Now().Add(time.Hour)})
	change(t, pool, `delete from river_job`)

	change(t, pool, `update reactor.runs set due = now() where due < now() + interval '1 minute'`) // the retry
	change(t, pool, `update reactor.runs set wake_at = now() where wake_at < now() + interval '1 minute'`)
	eventually(t, "the dead one's lease is over", func() bool {
		return one[int](t, pool, `select count(*) from reactor.runs r join reactor.processes p on p.id = r.process where p.lease_until > clock_timestamp()`) == 0
	})
	found := map[string]int{}
	for range 2 {
		counts, err := eng.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for step, n := range counts {
			found[step] += n
		}
	}
	if got, want := fmt.Sprint(found), fmt.Sprint(map[string]int{engine.SweepDead: 2, engine.SweepDue: 4, engine.SweepLeftovers: 0}); got != want {
		t.Errorf("two sweeps found %s, want %s", got, want)
	}
	for what, run := range runs {
		if n := jobsOf(t, pool, run); n != 1 {
			t.Errorf("%s: %d jobs after two sweeps, want 1", what, n)
		}
	}
	if n := jobsOf(t, pool, later); n != 0 {
		t.Errorf("%d jobs of a run that is due in an hour", n)
	}
	newPeer(t, url, engine.Config{}, goesOn.r)
	for what, run := range runs {
		want := engine.Completed
		if strings.Contains(what, "undo") {
			want = engine.Failed
		}
		if v := final(t, eng, run); v.Status != want {
			t.Errorf("%s: %s, want %s", what, v.Status, want)
		}
	}
	dead.mend()
}

// Each process that works sweeps: one pass when it starts, and then about one
// an interval by all of them together; NoSweep keeps this process out, and a
// process without a dispatcher does not sweep.
// spec: C-633, K-315, K-910, K-911
func TestProcessesShareTheSweep(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	for _, sql := range []string{
		`create table qa_pass (at timestamptz default clock_timestamp())`,
		`create function qa_pass() returns trigger language plpgsql as $$ begin insert into qa_pass default values; return null; end $$`,
		`create trigger qa_pass after update on reactor.sweeps for each row execute function qa_pass()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	passes := func() int { return one[int](t, pool, `select count(*) from qa_pass`) }
	j := newJourney(false)
	newPeer(t, url, engine.Config{NoSweep: true}, j.r)
	lonely, err := engine.New(short(engine.Config{Store: pgstore.New(pool)}), j.r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lonely.Close(context.Background()) })
	if _, err := j.r.Run(t.Context(), lonely, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both have begun", func() bool { return one[int](t, pool, `select count(*) from reactor.processes`) == 2 })
	began := time.Now()
	for range 5 {
		newPeer(t, url, engine.Config{}, j.r)
	}
	eventually(t, "20 passes", func() bool { return passes() >= 20 })
	if most := int(time.Since(began)/(200*time.Millisecond)) + 1; passes() > most+1 {
		t.Errorf("%d passes within %s", passes(), time.Since(began))
	}
	if n := one[int](t, pool, `select count(*) from qa_pass where at < $1`, began); n != 0 {
		t.Errorf("%d passes before there was a process that sweeps", n)
	}
}

// A process that starts sweeps at once, whatever its interval is.
// spec: C-633, K-911
func TestStartingProcessSweeps(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	j := newJourney(false)
	h, err := j.r.Start(t.Context(), starter(t, pool, j.r), "")
	if err != nil {
		t.Fatal(err)
	}
	change(t, pool, `delete from river_job`)
	change(t, pool, `update reactor.runs set wake_at = now()`)
	c := short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool)})
	c.Sweep = time.Hour
	eng, err := engine.New(c, j.r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	eng.Works("reactor", 1)
	eventually(t, "the lost job is queued again", func() bool { return jobsOf(t, pool, h.ID) == 1 })
	if err := eng.Drive(t.Context(), engine.Wake{Runs: []string{h.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Error(err)
	}
}

// A hundred runs of a dead process, and six processes that sweep at the same
// moment, one of which does not know the reactor: each run is woken once and
// taken over once, and its steps are called once.
// spec: C-1000, K-910, K-912, C-629
func TestSixSweepersAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	left, goesOn := newJourney(true), newJourney(false)
	dead := newPeer(t, url, engine.Config{NoSweep: true}, left.r)
	wheres := make([]string, 100)
	for i := range wheres {
		wheres[i] = "a"
	}
	starts := starter(t, pool, left.r)
	handles, err := left.r.StartMany(t.Context(), starts, wheres)
	if err != nil {
		t.Fatal(err)
	}
	for range 64 { // as many seats as there are
		<-left.at
	}
	dead.cut()
	change(t, pool, `delete from river_job`)
	change(t, pool, `update reactor.runs set wake_at = now() where owner is null`)
	eventually(t, "its lease is over", func() bool {
		return one[int](t, pool, `select count(*) from reactor.processes where lease_until > clock_timestamp() and queues <> '{}'`) == 0
	})
	stranger := engine.MustDefine("stranger", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "only", in, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	var sweepers sync.WaitGroup
	for i := range 6 {
		r := engine.Definition(goesOn.r)
		if i == 0 {
			r = stranger
		}
		eng := starter(t, pool, r)
		sweepers.Go(func() {
			for range 3 {
				if _, err := eng.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sweepers.Wait()
	for i, h := range handles {
		if n := jobsOf(t, pool, h.ID); n != 1 {
			t.Errorf("run %d has %d jobs, want 1", i, n)
		}
	}
	var log logs
	newPeer(t, url, engine.Config{Logger: log.logger(slog.LevelInfo)}, goesOn.r)
	for _, h := range handles {
		if v := final(t, starts, h.ID); v.Status != engine.Completed {
			t.Errorf("%s", v.Status)
		}
	}
	if n := strings.Count(log.String(), "taken over from a dead owner"); n != 64 {
		t.Errorf("%d runs were taken over, want 64", n)
	}
	goesOn.mu.Lock()
	defer goesOn.mu.Unlock()
	for call, n := range goesOn.calls {
		if n != 1 {
			t.Errorf("%s was called %d times", call, n)
		}
	}
	dead.mend()
}

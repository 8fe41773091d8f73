package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// A process that is cut off from the database ends the contexts of its bodies
// before another process calls them again, and begins nothing more.
// spec: K-802, C-977, C-978
func TestLapseComesBeforeTheTakeover(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	first, second := newHeld(), newHeld()
	p := newPeer(t, url, engine.Config{}, first.r)
	h, err := first.r.Start(t.Context(), starter(t, pool, first.r), 1)
	if err != nil {
		t.Fatal(err)
	}
	body := <-first.in
	p.cut()
	newPeer(t, url, engine.Config{}, second.r)
	again := <-second.in
	if cause := context.Cause(body); !errors.Is(cause, engine.ErrLeaseLost) {
		t.Errorf("when the body was called again its first context was ended by %v", cause)
	}
	if was, is := engine.RunFrom(body), engine.RunFrom(again); is.Attempt != 1 || is.Recovery != 1 || was.IdempotencyKey() != is.IdempotencyKey() {
		t.Errorf("first %+v, then %+v", was, is)
	}
	close(second.goOn)
	if v := final(t, starter(t, pool, second.r), h.ID); v.Status != engine.Completed {
		t.Errorf("%s", v.Status)
	}
	p.mend()
	first.want(t, "a b")
	second.want(t, "b c")
}

// marathon has a step and an undo that take their time; the last step fails
// where the input says so.
type marathon struct {
	r     *engine.Reactor[bool, bool]
	mu    sync.Mutex
	calls map[string]int // by run and call
	in    chan string    // one for each call
	goOn  chan struct{}
}

func newMarathon() *marathon {
	m := &marathon{calls: map[string]int{}, in: make(chan string, 100), goOn: make(chan struct{})}
	m.r = engine.MustDefine("marathon", func(b *engine.Builder, in engine.Ref[bool]) engine.Ref[bool] {
		long := engine.Step(b, "long", in, func(ctx context.Context, fails bool) (bool, error) {
			if fails {
				return fails, nil
			}
			return fails, m.wait(ctx, "body")
		}).Undo(func(ctx context.Context, _, _ bool) error { return m.wait(ctx, "undo") })
		return engine.Step(b, "last", long, func(_ context.Context, fails bool) (bool, error) {
			if fails {
				return false, errors.New("last fails")
			}
			return true, nil
		})
	})
	return m
}

func (m *marathon) wait(ctx context.Context, call string) error {
	run := engine.RunFrom(ctx).RunID
	m.mu.Lock()
	m.calls[run+" "+call]++
	m.mu.Unlock()
	m.in <- run
	select {
	case <-m.goOn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Bodies and undos that take more than two leases, with all processors busy for
// half of one, are called once: one heartbeat keeps all runs of a process, for
// as long as the settings say, and touches none of them.
// spec: C-622, C-630, C-980, K-800, K-913
func TestLongCallsKeepTheirRuns(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	m, other := newMarathon(), newMarathon()
	p := newPeer(t, url, engine.Config{}, m.r)
	runs, err := m.r.StartMany(t.Context(), p.Engine, []bool{false, true, false, true, false, true, false, true, false, true})
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		<-m.in
	}
	newPeer(t, url, engine.Config{}, other.r) // would take them over
	const owned = `select string_agg(r::text || r.xmin::text, ' ' order by id) from reactor.runs r where owner is not null`
	before := one[string](t, pool, owned)
	beat := one[time.Time](t, pool, `select max(beat_at) from reactor.processes where pid > 0`)
	hog(500 * time.Millisecond)
	eventually(t, "more than two leases have passed", func() bool {
		return one[bool](t, pool, `select bool_and(beat_at > $1::timestamptz + interval '2300 milliseconds') from reactor.processes`, beat)
	})
	if n := one[int](t, pool, `select count(distinct process) from reactor.runs where owner is not null`); n != 1 {
		t.Errorf("the runs belong to %d processes", n)
	}
	if off := one[int](t, pool, `select count(*) from reactor.processes where lease_until - beat_at not between interval '999 ms' and interval '1001 ms'`); off != 0 {
		t.Errorf("%d processes have a lease of another length than that of the settings", off)
	}
	if after := one[string](t, pool, owned); after != before {
		t.Errorf("headers of owned runs were written:\n%s\n%s", before, after)
	}
	close(m.goOn)
	for i, h := range runs {
		if v := final(t, p.Engine, h.ID); i%2 == 0 && v.Status != engine.Completed || i%2 == 1 && (v.Status != engine.Failed || len(v.Failure.Rollback) > 0) {
			t.Errorf("run %d: %s, %v", i, v.Status, v.Failure)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for call, n := range m.calls {
		if n != 1 {
			t.Errorf("%s was called %d times", call, n)
		}
	}
	if len(m.calls) != len(runs) || len(other.calls) != 0 {
		t.Errorf("%d calls here and %d elsewhere, want %d and none", len(m.calls), len(other.calls), len(runs))
	}
}

// hog keeps all processors busy.
func hog(d time.Duration) {
	end := time.Now().Add(d)
	var busy sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for time.Now().Before(end) {
			}
		})
	}
	busy.Wait()
}

// errand says where the first owner is held up, and how its call then ends.
type errand struct {
	At  string // body a, body b, undo a, compensate b
	How string
}

// stalls is a -> b. In the process that is to stall a call waits where the
// errand says and comes back when the other process has done everything; in the
// other process the same call works at once.
type stalls struct {
	r       *engine.Reactor[errand, string]
	stalled bool
	at      chan string // runs that have arrived
	goOn    chan struct{}
	mu      sync.Mutex
	calls   map[string]string // by run
}

func newStalls(stalled bool) *stalls {
	s := &stalls{stalled: stalled, at: make(chan string, 100), goOn: make(chan struct{}), calls: map[string]string{}}
	s.r = engine.MustDefine("stalls", func(b *engine.Builder, in engine.Ref[errand]) engine.Ref[string] {
		a := s.step(b, "a", in)
		last := s.step(b, "b", a)
		return engine.Pick(last, func(errand) string { return "done" })
	})
	return s
}

func (s *stalls) step(b *engine.Builder, name string, in engine.Ref[errand]) *engine.StepNode[errand, errand] {
	return engine.Step(b, name, in, func(ctx context.Context, e errand) (errand, error) {
		err := s.call(ctx, e, "body "+name)
		if rollsBack := strings.HasPrefix(e.At, "undo") || strings.HasPrefix(e.At, "compensate"); err == nil && rollsBack && name == "b" {
			err = engine.Permanent(errors.New("b fails everywhere"))
		}
		return e, err
	}).Retry(2, engine.Fixed(10*time.Millisecond)).
		Undo(func(ctx context.Context, e, _ errand) error { return s.call(ctx, e, "undo "+name) }).
		Compensate(func(ctx context.Context, e errand, _ error) error { return s.call(ctx, e, "compensate "+name) })
}

func (s *stalls) call(ctx context.Context, e errand, call string) error {
	run := engine.RunFrom(ctx).RunID
	s.mu.Lock()
	s.calls[run] += call + ", "
	s.mu.Unlock()
	if !s.stalled || e.At != call {
		return nil
	}
	s.at <- run
	<-s.goOn // whatever becomes of ctx
	switch e.How {
	case "fails":
		return errors.New("late failure")
	case "fails for good":
		return engine.Permanent(errors.New("late failure"))
	case "halts":
		return engine.Halt("late halt")
	case "skips":
		return engine.Skip("late skip")
	case "panics":
		panic("late panic")
	}
	return nil
}

// A stalled owner that comes back, in whatever call and with whatever outcome,
// changes nothing of what its successor did: nothing of its own is stored, it
// calls nothing more, it says once that it lost the run, and its job is done
// without an error.
// spec: K-352, K-333, K-375, K-377, K-378
// spec: K-379, C-981, C-975, K-405
func TestStalledOwnersChangeNothing(t *testing.T) {
	t.Parallel()
	var errands []errand
	for _, how := range []string{"works", "fails", "fails for good", "halts", "skips", "panics"} {
		errands = append(errands, errand{"body a", how}, errand{"body b", how})
	}
	for _, how := range []string{"works", "fails"} {
		errands = append(errands, errand{"undo a", how}, errand{"compensate b", how})
	}
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	stalled, next := newStalls(true), newStalls(false)
	log := &logs{}
	p := newPeer(t, url, engine.Config{Logger: log.logger(slog.LevelWarn)}, stalled.r)
	handles, err := stalled.r.StartMany(t.Context(), starter(t, pool, stalled.r), errands)
	if err != nil {
		t.Fatal(err)
	}
	for range handles {
		<-stalled.at
	}
	p.cut()
	successor := newPeer(t, url, engine.Config{}, next.r)
	was := map[string]string{}
	for i, h := range handles {
		v := final(t, successor.Engine, h.ID)
		if want := map[bool]engine.Status{true: engine.Completed, false: engine.Failed}[strings.HasPrefix(errands[i].At, "body")]; v.Status != want {
			t.Errorf("%v: the successor ended it %s, want %s", errands[i], v.Status, want)
		}
		was[h.ID] = stored(t, pool, h.ID)
	}
	p.mend()
	stalled.mu.Lock()
	before := fmt.Sprint(stalled.calls)
	stalled.mu.Unlock()
	close(stalled.goOn)
	eventually(t, "all jobs are done", func() bool {
		return one[int](t, pool, `select count(*) from river_job where state <> 'completed'`) == 0
	})
	p.stop()
	for i, h := range handles {
		if is := stored(t, pool, h.ID); is != was[h.ID] {
			t.Errorf("%v: the run was changed:\n%s\n%s", errands[i], was[h.ID], is)
		}
		if n := strings.Count(log.String(), "reactor.run.ownership_lost run="+h.ID); n != 1 {
			t.Errorf("%v: %d lines say that the run was lost, want 1", errands[i], n)
		}
	}
	if after := fmt.Sprint(stalled.calls); after != before {
		t.Errorf("the stalled owner went on:\n%s\n%s", before, after)
	}
	if n := one[int](t, pool, `select count(*) from river_job where errors is not null`); n != 0 {
		t.Errorf("%d jobs have errors", n)
	}
}

// Somebody changes the header under the owner, three times in a row: the save
// is repeated once on what is there, and the other changes stay. If it is the
// status that was changed, the owner stops.
// spec: K-810, C-982, K-407
func TestVersionConflicts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	pgtest.Allow(t, "G2", "the test ends a run that has an owner")
	h := newHeld()
	eng, _ := open(t, pool, engine.Config{}, h.r)
	run, done := h.runHere(t, eng)
	for range 3 {
		change(t, pool, `update reactor.runs set version = version + 1, wake_reason = coalesce(wake_reason, '') || 'x' where id = $1`, run)
	}
	h.goOn <- struct{}{}
	if got := <-done; got.err != nil || got.res.Value != 4 {
		t.Errorf("%+v, %v", got.res, got.err)
	}
	if got := one[string](t, pool, `select wake_reason || version from reactor.runs where id = $1`, run); got != "xxx7" {
		t.Errorf("the other changes and the version are %s, want xxx7", got)
	}
	run, done = h.runHere(t, eng)
	change(t, pool, `update reactor.runs set version = version + 1, status = 'cancelled', ended_at = now() where id = $1`, run)
	h.goOn <- struct{}{}
	if got := <-done; !errors.Is(got.err, engine.ErrLeaseLost) {
		t.Errorf("%+v, %v", got.res, got.err)
	}
	if got := one[string](t, pool, `select status || version from reactor.runs where id = $1`, run); got != "cancelled3" {
		t.Errorf("the run is %s, want cancelled3", got)
	}
	h.want(t, "a b c a b")
}

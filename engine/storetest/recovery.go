package storetest

import (
	"fmt"

	"github.com/pgreactor/reactor/engine"
)

var recoveryPromises = []promise{
	{"recovery_wakes_runs_of_a_lapsed_process", recoveryLapsed},
	{"recovery_wakes_runs_of_a_process_without_a_row", recoveryGone},
	{"recovery_writes_no_state", recoveryWritesNoState},
	{"recovery_of_a_process_that_comes_back", recoveryComesBack},
	{"recovery_of_many_runs", recoveryMany},
	{"wake_up_too_many_is_harmless", recoveryHarmless},
}

// died is a run whose owner died.
func (f *fixture) died() (engine.Fence, *engine.Record) {
	f.Helper()
	fence := f.owned()
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{done("a", 1)}})
	f.lapse(fence.Process)
	return fence, f.get(fence.Run)
}

func recoveryLapsed(f *fixture) {
	f.withinPause(func() string {
		fence, _ := f.died()
		alive := f.owned()
		mark := f.bell.mark()
		first, second := f.sweep(), f.sweep()
		if first.Found[engine.SweepDead] != 1 || second.Found[engine.SweepDead] != 0 {
			return fmt.Sprintf("found %v, then %v", first.Found, second.Found)
		}
		f.unnoticed(mark)
		f.eventually("the bell", func() bool { return f.bell.rungAfterWake(mark, "reactor") })
		if f.bell.counts(mark)[alive.Run] > 0 {
			f.Fatal("a run with a live owner was woken")
		}
		problem := f.notOnce(mark, fence.Run)
		f.own(f.process(), fence.Run) // so that the next try finds its own run alone
		return problem
	})
}

func recoveryGone(f *fixture) {
	f.withinPause(func() string {
		fence := f.owned()
		f.must(f.store.Unregister(f.Context(), fence.Process))
		mark := f.bell.mark()
		f.sweep()
		f.sweep()
		problem := f.notOnce(mark, fence.Run)
		if got, _ := f.own(f.process(), fence.Run); got.TakenFrom != fence.Token {
			f.Errorf("taken from %q", got.TakenFrom)
		}
		return problem
	})
}

// The sweep makes a dead process's run due and leaves all else to who claims it.
func recoveryWritesNoState(f *fixture) {
	fence, was := f.died()
	f.sweep()
	got := f.get(fence.Run)
	if got.Due.IsZero() || got.Due.After(got.Now) {
		f.Errorf("due %s", got.Due)
	}
	was.Due = got.Due
	f.sameRun(was)
	next, taken := f.own(f.process(), fence.Run)
	if next.TakenFrom != fence.Token || next.TakenFromProcess != fence.Process || !next.Due.IsZero() {
		f.Errorf("taken from %q of %q, due %s", next.TakenFrom, next.TakenFromProcess, next.Due)
	}
	f.save(&taken, engine.Changes{Status: engine.Completed})
}

// A process that renews its lapsed lease goes on with the runs that nobody took.
func recoveryComesBack(f *fixture) {
	fence, _ := f.died()
	f.sweep()
	f.beat(fence.Process, long)
	if why := f.refusal(f.process(), fence.Run).Why; why != engine.WhyOwned {
		f.Errorf("refused because %q", why)
	}
	mark := f.bell.mark()
	f.must(f.store.Wake(f.Context(), []string{fence.Run}))
	f.sweep()
	f.quiet(mark)
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

func recoveryMany(f *fixture) {
	const n = 25
	f.withinPause(func() string {
		process := f.process()
		runs := newRuns(n, func(r *engine.NewRun) {
			r.Status, r.Fence = engine.Running, engine.Fence{Run: r.ID, Token: newID(), Process: process}
		})
		f.create(runs...)
		f.lapse(process)
		mark := f.bell.mark()
		f.sweep() // in batches of ten
		return f.notOnce(mark, idsOf(runs)...)
	})
}

// A wake-up too many finds a live owner or nothing to do.
func recoveryHarmless(f *fixture) {
	fence := f.owned()
	final := f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	was := []*engine.Record{f.get(fence.Run), f.get(final)}
	for range 3 {
		if n := len(f.claim(claimOf(f.process(), fence.Run, final, newID())).Claimed); n > 0 {
			f.Errorf("%d runs claimed", n)
		}
	}
	for _, r := range was {
		f.sameRun(r)
	}
}

package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pgreactor/reactor/engine"
)

var sweepPromises = []promise{
	{"sweep_wakes_due_runs_once", sweepOnce},
	{"sweep_pauses_grow", sweepPausesGrow},
	{"sweep_leaves_alone", sweepLeavesAlone},
	{"sweep_in_batches", sweepBatches},
	{"sweep_oldest_due_first", sweepOldestFirst},
	{"sweep_once_per_interval", sweepInterval},
	{"sweep_by_six_at_once", sweepConcurrently},
	{"sweep_repeated_changes_nothing", sweepIdempotent},
	{"sweep_finds_unworked_queues", sweepUnworked},
	{"sweep_removes_leftovers", sweepLeftovers},
}

// A run that is due and that no wake-up is on its way for gets one, and no
// other within the pause.
func sweepOnce(f *fixture) {
	f.withinPause(func() string {
		run := f.createLater()
		was, mark := f.get(run), f.bell.mark()
		first, second := f.sweep(), f.sweep()
		f.unnoticed(mark)
		if first.Found[engine.SweepDue] < 1 || second.Found[engine.SweepDue] != 0 {
			return fmt.Sprintf("found %v, then %v", first.Found, second.Found)
		}
		f.eventually("the bell", func() bool { return f.bell.rungAfterWake(mark, "reactor") })
		f.sameRun(was)
		problem := f.notOnce(mark, run)
		f.own(f.process(), run) // so that the next try finds its own run alone
		return problem
	})
	// Creation, hand-back and Wake have just queued one.
	f.withinPause(func() string {
		fence := f.owned()
		created := f.createOne(nil)
		mark := f.bell.mark()
		f.save(&fence, engine.Changes{Release: true, Due: true})
		f.sweep()
		if n := f.bell.counts(mark); n[fence.Run] != 1 || n[created] != 0 {
			return fmt.Sprintf("the run handed back was woken %d times, want once; the one just created %d times", n[fence.Run], n[created])
		}
		return ""
	})
}

// While nobody claims a run its wake-ups are repeated after growing pauses.
func sweepPausesGrow(f *fixture) {
	run := f.createLater()
	var at []time.Time
	mark := f.bell.mark()
	f.eventually("three wake-ups", func() bool {
		before := f.health().Clock
		f.sweep()
		if f.bell.counts(mark)[run] > len(at) {
			at = append(at, before)
		}
		return len(at) == 3
	})
	first, second := at[1].Sub(at[0]), at[2].Sub(at[1])
	if first < brief*9/10 || second < brief*12/10 {
		f.Errorf("woken again after %s, then after %s", first, second)
	}
}

// Final, blocked, paused and waiting runs, runs that are not due, and runs of
// live processes are never touched.
func sweepLeavesAlone(f *fixture) {
	process := f.process()
	final := f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	fence := f.owned()
	f.save(&fence, engine.Changes{Status: engine.Completed})
	aborted := f.owned()
	f.save(&aborted, engine.Changes{Status: engine.Aborted, Nodes: []engine.NodeChange{done("a", 1)}})
	retry := f.owned()
	f.save(&retry, engine.Changes{Release: true, Due: true, DueIn: long})
	alone := []string{
		final, fence.Run, aborted.Run, retry.Run, f.owned().Run, f.createOne(dueIn(long)),
		f.blocked(process), f.waiting(process), f.paused(process),
	}
	var was []*engine.Record
	for _, id := range alone {
		was = append(was, f.get(id))
	}
	mark := f.bell.mark()
	for range 20 {
		if found := f.sweep().Found; found[engine.SweepDue]+found[engine.SweepDead] != 0 {
			f.Fatalf("found %v", found)
		}
	}
	f.quiet(mark)
	for _, r := range was {
		f.sameRun(r)
	}
}

// A full batch is followed by the next at once.
func sweepBatches(f *fixture) {
	f.withinPause(func() string {
		want := map[string]engine.NewRun{}
		runs := f.createDue(35)
		for _, id := range runs {
			want[id] = newRun()
		}
		mark := f.bell.mark()
		found := f.sweep().Found
		f.wellFormed(mark, want)
		f.claim(claimOf(f.process(), runs...)) // so that the next try finds its own runs alone
		if found[engine.SweepDue] != len(runs) {
			return fmt.Sprintf("found %v, want %d due runs", found, len(runs))
		}
		return f.notOnce(mark, runs...)
	})
}

func sweepOldestFirst(f *fixture) {
	runs := newRuns(9, func(*engine.NewRun) {})
	for i := range runs { // not in the order of the call
		runs[i].DueIn = soon - time.Duration(i*7%9)*time.Millisecond
	}
	created := f.create(runs...)
	f.after(created[0].Now.Add(soon))
	slices.SortFunc(runs, func(a, b engine.NewRun) int { return int(a.DueIn - b.DueIn) })
	mark := f.bell.mark()
	_, err := f.store.Sweep(f.Context(), engine.SweepPass{Limit: 1})
	f.must(err)
	f.same("order", slices.Concat(runsOf(f.bell.wakes(mark))...)[:len(runs)], idsOf(runs))
}

// Of the passes of one interval one does the work; without an interval each does.
func sweepInterval(f *fixture) {
	pass := engine.SweepPass{Interval: long, Limit: 10}
	first, err := f.store.Sweep(f.Context(), pass)
	f.must(err)
	run := f.createLater()
	mark := f.bell.mark()
	second, err := f.store.Sweep(f.Context(), pass)
	f.must(err)
	if !first.Ran || second.Ran {
		f.Errorf("the first pass ran: %t, the second: %t", first.Ran, second.Ran)
	}
	f.quiet(mark)
	f.sweep()
	if f.bell.counts(mark)[run] == 0 {
		f.Error("a pass without an interval did not wake a due run")
	}
}

// Six sweepers at once wake each of 100 runs once.
func sweepConcurrently(f *fixture) {
	f.withinPause(func() string {
		runs := f.createDue(100)
		mark := f.bell.mark()
		errs := make([]error, 6)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = f.store.Sweep(f.Context(), engine.SweepPass{Limit: 20}) })
		}
		all.Wait()
		for _, err := range errs {
			f.must(err)
		}
		return f.notOnce(mark, runs...)
	})
}

func sweepIdempotent(f *fixture) {
	fence := f.owned()
	created := f.createOne(nil)
	f.sweep()
	was := []*engine.Record{f.get(fence.Run), f.get(created)}
	for range 100 {
		f.sweep()
	}
	for _, r := range was {
		f.sameRun(r)
	}
}

// A queue whose runs have been due for long is named, unless a live process
// works it.
func sweepUnworked(f *fixture) {
	for range 2 {
		f.createOne(func(r *engine.NewRun) { r.Queue, r.DueAt = "parcels", f.health().Clock.Add(-long) })
	}
	f.createOne(func(r *engine.NewRun) { r.Queue = "fresh" })
	f.createOne(func(r *engine.NewRun) { r.Queue, r.DueIn = "later", long })
	f.process() // works another queue
	want := []engine.Unworked{{Queue: "parcels", Runs: 2}}
	f.same("unworked", f.sweep().Unworked, want)
	f.same("unworked", f.health().Unworked, want)

	worker := newProcess()
	worker.Queues = []string{"reactor", "parcels"}
	f.must(f.store.Register(f.Context(), worker, long))
	f.same("unworked", f.sweep().Unworked, []engine.Unworked{})
	f.lapse(worker.ID)
	f.same("unworked", f.health().Unworked, want)
}

// The row of a process that is long gone goes when no run names it.
func sweepLeftovers(f *fixture) {
	idle, named := f.process(), f.process()
	_, fence := f.own(named, f.createOne(nil))
	fresh := f.process()
	f.beat(idle, -30*24*time.Hour)
	f.beat(named, -30*24*time.Hour)
	f.sweep()
	if f.row(idle) != nil {
		f.Error("the row of a process that is long gone is still there")
	}
	if f.row(named) == nil || f.row(fresh) == nil {
		f.Errorf("processes %+v, want %s and %s", f.health().Processes, named, fresh)
	}
	f.beat(named, long)
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

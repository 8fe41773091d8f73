package storetest

import (
	"fmt"

	"github.com/pgreactor/reactor/engine"
)

var wakePromises = []promise{
	{"wake_due_runs", wakeDue},
	{"wake_leaves_alone", wakeLeavesAlone},
	{"wake_then_sweep", wakeThenSweep},
}

func wakeDue(f *fixture) {
	pending := f.createOne(func(r *engine.NewRun) { r.Queue, r.Priority = "parcels", 1 })
	later := f.createLater()
	was, mark := []*engine.Record{f.get(pending), f.get(later)}, f.bell.mark()
	f.must(f.store.Wake(f.Context(), []string{pending, later, newID()}))
	f.same("woken", f.bell.counts(mark), map[string]int{pending: 1, later: 1})
	parcels := newRun()
	parcels.Queue, parcels.Priority = "parcels", 1
	f.wellFormed(mark, map[string]engine.NewRun{pending: parcels, later: newRun()})
	f.unnoticed(mark)
	f.eventually("the bell", func() bool { return f.bell.rungAfterWake(mark, "parcels") })
	for _, r := range was {
		f.sameRun(r)
	}
}

func wakeLeavesAlone(f *fixture) {
	process := f.process()
	alone := []string{
		f.createOne(dueIn(long)), f.owned().Run, f.waiting(process), f.blocked(process), f.paused(process),
		f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed }), newID(),
	}
	mark := f.bell.mark()
	f.must(f.store.Wake(f.Context(), alone))
	f.must(f.store.Wake(f.Context(), nil))
	f.quiet(mark)
}

func wakeThenSweep(f *fixture) {
	f.withinPause(func() string {
		run := f.createLater()
		mark := f.bell.mark()
		f.must(f.store.Wake(f.Context(), []string{run}))
		f.sweep()
		if n := f.bell.counts(mark)[run]; n != 1 {
			return fmt.Sprintf("woken %d times", n)
		}
		return ""
	})
}

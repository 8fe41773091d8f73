package storetest

import (
	"time"

	"github.com/pgreactor/reactor/engine"
)

var releasePromises = []promise{
	{"release_due_now_wakes", releaseNow},
	{"release_due_later", releaseLater},
	{"release_without_due", releaseWithout},
	{"release_blocked", releaseBlocked},
	{"due_without_release_changes_nothing", dueWithoutRelease},
}

// A hand-back is one save: nobody owns the run, it is due, and its wake-up is
// queued; the bell follows.
func releaseNow(f *fixture) {
	process := f.process()
	for _, in := range []time.Duration{0, -time.Minute} {
		run := f.createOne(func(r *engine.NewRun) { r.Queue, r.Priority = "parcels", 4 })
		_, fence := f.own(process, run)
		mark := f.bell.mark()
		f.save(&fence, engine.Changes{
			Nodes:   []engine.NodeChange{done("a", 1)},
			Release: true, Due: true, DueIn: in, WakeReason: "hand-back",
		})
		f.same("wake-ups", f.bell.wakes(mark), []engine.Wake{{Runs: []string{run}, Queue: "parcels", Priority: 4}})
		f.unnoticed(mark)
		f.eventually("the bell", func() bool { return f.bell.rungAfterWake(mark, "parcels") })
		got := f.get(run)
		if got.Owner != "" || got.Process != "" || got.Due.IsZero() || got.Due.After(got.Now) {
			f.Errorf("header %+v", got.Header)
		}
		if got.Status != engine.Running || got.WakeReason != "hand-back" || len(got.Nodes) != 1 {
			f.Errorf("status %s, wake reason %q, %d nodes", got.Status, got.WakeReason, len(got.Nodes))
		}
		if next, _ := f.own(f.process(), run); next.TakenFrom != "" {
			f.Errorf("taken from %q, but it was handed back", next.TakenFrom)
		}
	}
}

func releaseLater(f *fixture) {
	fence := f.owned()
	mark := f.bell.mark()
	f.save(&fence, engine.Changes{Release: true, Due: true, DueIn: long, WakeReason: "retry"})
	f.quiet(mark)
	got := f.get(fence.Run)
	f.near("due", got.Due, got.Now.Add(long))
	if got.Owner != "" || got.WakeReason != "retry" {
		f.Errorf("header %+v", got.Header)
	}
	if why := f.refusal(f.process(), fence.Run).Why; why != engine.WhyNotDue {
		f.Errorf("refused because %q", why)
	}
}

func releaseWithout(f *fixture) {
	fence := f.owned()
	mark := f.bell.mark()
	f.save(&fence, engine.Changes{Release: true, DueIn: -time.Minute})
	f.quiet(mark)
	if got := f.get(fence.Run); got.Owner != "" || !got.Due.IsZero() {
		f.Errorf("header %+v", got.Header)
	}
}

// A run whose definition does not fit is given up without a due time.
func releaseBlocked(f *fixture) {
	mark := f.bell.mark()
	process := f.process()
	run := f.blocked(process)
	if n := f.bell.counts(mark)[run]; n != 1 { // by its creation
		f.Errorf("woken %d times", n)
	}
	got := f.get(run)
	if got.Blocked == "" || got.Status != engine.Running || got.Owner != "" || !got.Due.IsZero() {
		f.Errorf("header %+v", got.Header)
	}
	if why := f.refusal(process, run).Why; why != engine.WhyStopped {
		f.Errorf("refused because %q", why)
	}
}

func dueWithoutRelease(f *fixture) {
	fence := f.owned()
	mark := f.bell.mark()
	f.save(&fence, engine.Changes{Due: true})
	f.quiet(mark)
	if got := f.get(fence.Run); got.Owner != fence.Token || !got.Due.IsZero() {
		f.Errorf("header %+v", got.Header)
	}
}

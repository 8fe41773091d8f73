package storetest

import (
	"errors"

	"github.com/pgreactor/reactor/engine"
)

var statusPromises = []promise{
	{"status_transitions", statusTransitions},
	{"status_transitions_refused", statusRefused},
	{"status_final_ends_ownership", statusFinal},
	{"status_final_never_changes", statusFinalStays},
	{"status_paused", statusPaused},
}

var finals = []engine.Status{engine.Completed, engine.Halted, engine.Failed, engine.Cancelled, engine.Aborted}

// rollingBack is a run under an owner that rolls back.
func (f *fixture) rollingBack() engine.Fence {
	f.Helper()
	fence := f.owned()
	f.save(&fence, engine.Changes{Status: engine.RollingBack, Rollback: engine.ByFailure})
	return fence
}

func statusTransitions(f *fixture) {
	for _, to := range append(finals, engine.Running, engine.Paused, engine.RollingBack) {
		fence := f.owned()
		f.save(&fence, engine.Changes{Status: to})
		f.status(fence.Run, to)
	}
	for _, to := range []engine.Status{engine.RollingBack, engine.Failed, engine.Cancelled} {
		fence := f.rollingBack()
		f.save(&fence, engine.Changes{Status: to})
		f.status(fence.Run, to)
	}
}

// Other transitions are refused, whatever else the save says, and for good.
func statusRefused(f *fixture) {
	running, rollingBack := f.owned(), f.rollingBack()
	for _, refused := range []struct {
		fence engine.Fence
		to    engine.Status
	}{
		{running, engine.Pending},
		{running, "waiting"},
		{rollingBack, engine.Pending},
		{rollingBack, engine.Running},
		{rollingBack, engine.Paused},
		{rollingBack, engine.Completed},
		{rollingBack, engine.Halted},
		{rollingBack, engine.Aborted},
	} {
		was, mark := f.get(refused.fence.Run), f.bell.mark()
		c := everything()
		c.Status = refused.to
		_, err := f.store.Save(f.Context(), refused.fence, c)
		if !errors.Is(err, engine.ErrUnstorable) {
			f.Errorf("%s to %s: error %v, want ErrUnstorable", was.Status, refused.to, err)
		}
		f.sameRun(was)
		f.quiet(mark)
	}
}

// A final status gives up ownership and due time, and tells when it ended.
func statusFinal(f *fixture) {
	for i, to := range finals {
		fence := f.owned()
		mark := f.bell.mark()
		f.save(&fence, engine.Changes{Status: to, Release: i%2 == 0, Due: true, Nodes: []engine.NodeChange{done("last", 1)}})
		got := f.get(fence.Run)
		if got.Status != to || got.Owner != "" || got.Process != "" || !got.Due.IsZero() || len(got.Nodes) != 1 {
			f.Errorf("header %+v, %d nodes", got.Header, len(got.Nodes))
		}
		if got.Ended.Before(got.Started) || got.Ended.After(got.Now) {
			f.Errorf("started %s, ended %s, read %s", got.Started, got.Ended, got.Now)
		}
		if !got.Lease.IsZero() || got.Host != "" {
			f.Errorf("a run without owner has a lease until %s on %q", got.Lease, got.Host)
		}
		f.quiet(mark)
	}
}

// Nothing that an engine does without an undo changes a final run.
func statusFinalStays(f *fixture) {
	for _, final := range finals {
		fence := f.owned()
		f.save(&fence, engine.Changes{Status: final, Release: true, Due: true, Output: valueOf(1)})
		was, mark := f.get(fence.Run), f.bell.mark()
		for _, to := range []engine.Status{engine.Running, engine.RollingBack, engine.Completed, ""} {
			c := everything()
			c.Status = to
			if e := f.refused(fence, c); !e.Lost || e.Status != final {
				f.Errorf("a save after %s: %v", final, e)
			}
		}
		if why := f.refusal(f.process(), fence.Run); why.Why != engine.WhyFinal || why.Status != final {
			f.Errorf("claim refused: %+v", why)
		}
		f.must(f.store.Wake(f.Context(), []string{fence.Run}))
		f.lapse(fence.Process)
		f.sweep()
		f.sameRun(was)
		f.quiet(mark)
	}
}

func statusPaused(f *fixture) {
	fence := f.owned()
	f.save(&fence, engine.Changes{Status: engine.Paused, Release: true})
	got := f.get(fence.Run)
	if got.Status != engine.Paused || got.Owner != "" || !got.Due.IsZero() || !got.Ended.IsZero() {
		f.Errorf("header %+v", got.Header)
	}
}

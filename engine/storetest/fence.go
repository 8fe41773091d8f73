package storetest

import (
	"github.com/pgreactor/reactor/engine"
)

var fencePromises = []promise{
	{"fence_other_token_is_lost", fenceOtherToken},
	{"fence_lapsed_lease_is_lost", fenceLapsed},
	{"fence_process_without_a_row_is_lost", fenceNoProcess},
	{"fence_older_version_is_stale", fenceStale},
	{"fence_judges_token_and_lease_first", fenceOrder},
	{"fence_of_a_released_run_is_lost", fenceReleased},
	{"fence_of_a_run_that_is_gone", fenceGone},
	{"fence_refused_save_leaves_nothing", fenceLeavesNothing},
}

// everything is a save that changes all there is, wake-up included.
func everything() engine.Changes {
	blocked := "b"
	return engine.Changes{
		WriteID: newID(),
		Status:  engine.RollingBack, Rollback: engine.ByFailure, Output: valueOf(1), Failure: valueOf(2),
		Reason: "r", ReasonPath: "p", WakeReason: "w", Blocked: &blocked, Fingerprint: "f2",
		Nodes:   []engine.NodeChange{fullNode("a"), done("kept", 9)},
		Release: true, Due: true,
	}
}

func fenceOtherToken(f *fixture) {
	fence := f.owned()
	other := fence
	other.Token = newID()
	e := f.refused(other, everything())
	f.same("refusal", e, &engine.FenceError{
		Run: fence.Run, Lost: true, Expected: 2, Found: 2,
		Owner: fence.Token, Process: fence.Process, Status: engine.Running,
	})
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

// A lapsed lease is lost even if nobody took the run; renewed, the same save
// is accepted.
func fenceLapsed(f *fixture) {
	fence := f.owned()
	c := engine.Changes{WriteID: newID(), Status: engine.Completed, Output: valueOf(1)}
	f.lapse(fence.Process)
	was := f.get(fence.Run)
	e := f.refused(fence, c)
	f.same("refusal", e, &engine.FenceError{
		Run: fence.Run, Lost: true, Expected: 2, Found: 2,
		Owner: fence.Token, Process: fence.Process, Status: engine.Running,
	})
	f.sameRun(was)
	f.beat(fence.Process, long)
	f.save(&fence, c)
	f.status(fence.Run, engine.Completed)
}

func fenceNoProcess(f *fixture) {
	fence := f.owned()
	f.must(f.store.Unregister(f.Context(), fence.Process))
	if e := f.refused(fence, everything()); !e.Lost {
		f.Errorf("refused: %v", e)
	}
}

func fenceStale(f *fixture) {
	fence := f.owned()
	older := fence
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{done("kept", 1)}})
	was := f.get(fence.Run)
	for _, version := range []int64{older.Version, fence.Version + 1} {
		wrong := fence
		wrong.Version = version
		e := f.refused(wrong, everything())
		f.same("refusal", e, &engine.FenceError{
			Run: fence.Run, Expected: version, Found: 3,
			Owner: fence.Token, Process: fence.Process, Status: engine.Running,
		})
	}
	f.sameRun(was)
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

func fenceOrder(f *fixture) {
	fence := f.owned()
	wrong := fence
	wrong.Version--
	wrong.Token = newID()
	if e := f.refused(wrong, everything()); !e.Lost {
		f.Errorf("another token and an older version: %v", e)
	}
	wrong.Token = fence.Token
	if e := f.refused(wrong, everything()); e.Lost {
		f.Errorf("an older version alone: %v", e)
	}
	f.lapse(fence.Process)
	if e := f.refused(wrong, everything()); !e.Lost {
		f.Errorf("a lapsed lease and an older version: %v", e)
	}
}

// Having owned a run at some earlier time is nothing.
func fenceReleased(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	_, fence := f.own(process, run)
	f.save(&fence, engine.Changes{Release: true})
	for _, token := range []string{fence.Token, newID()} {
		fence.Token = token
		e := f.refused(fence, everything())
		f.same("refusal", e, &engine.FenceError{
			Run: run, Lost: true, Expected: fence.Version, Found: 3, Status: engine.Running,
		})
	}
}

func fenceGone(f *fixture) {
	fence := engine.Fence{Run: newID(), Token: newID(), Process: f.process(), Version: 3}
	e := f.refused(fence, everything())
	f.same("refusal", e, &engine.FenceError{Run: fence.Run, Lost: true, Expected: 3})
}

// A refused save leaves no status, no node, no wake-up, and tells nobody.
func fenceLeavesNothing(f *fixture) {
	fence := f.owned()
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{done("kept", 1)}})
	was, mark := f.get(fence.Run), f.bell.mark()
	stale, lost := fence, fence
	stale.Version--
	lost.Token = newID()
	for _, wrong := range []engine.Fence{stale, lost} {
		f.refused(wrong, everything())
		f.refused(wrong, engine.Changes{Status: engine.Completed})
	}
	f.lapse(fence.Process)
	f.refused(fence, everything())
	f.beat(fence.Process, long)
	f.sameRun(was)
	f.quiet(mark)
}

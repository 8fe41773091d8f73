package storetest

import (
	"sync"

	"github.com/pgreactor/reactor/engine"
)

var takeoverPromises = []promise{
	{"takeover_of_a_lapsed_owner", takeoverLapsed},
	{"takeover_of_a_process_without_a_row", takeoverGone},
	{"takeover_refused_while_the_lease_lives", takeoverRefused},
	{"takeover_one_of_20_wins", takeoverOneWins},
	{"takeover_races_a_save", takeoverRaces},
}

// A stalled owner that wakes up later changes nothing.
func takeoverLapsed(f *fixture) {
	dead, run := f.process(), f.createOne(nil)
	_, stalled := f.own(dead, run)
	f.save(&stalled, engine.Changes{Nodes: []engine.NodeChange{done("a", 1)}})
	f.lapse(dead)

	successor := f.process()
	got, fence := f.own(successor, run)
	if got.TakenFrom != stalled.Token || got.TakenFromProcess != dead {
		f.Errorf("taken from %q of %q, want %q of %q", got.TakenFrom, got.TakenFromProcess, stalled.Token, dead)
	}
	if got.Version != stalled.Version+1 || got.Status != engine.Running || len(got.Nodes) != 1 {
		f.Errorf("taken over at version %d, %s, %d nodes", got.Version, got.Status, len(got.Nodes))
	}
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{done("b", 2)}})
	was := f.get(run)

	f.beat(dead, long)
	for _, version := range []int64{stalled.Version, fence.Version} {
		stalled.Version = version
		e := f.refused(stalled, engine.Changes{Status: engine.Failed})
		f.same("refusal", e, &engine.FenceError{
			Run: run, Lost: true, Expected: version, Found: fence.Version,
			Owner: fence.Token, Process: successor, Status: engine.Running,
		})
	}
	f.sameRun(was)
}

func takeoverGone(f *fixture) {
	dead, run := f.process(), f.createOne(nil)
	_, lost := f.own(dead, run)
	f.must(f.store.Unregister(f.Context(), dead))
	got, _ := f.own(f.process(), run)
	if got.TakenFrom != lost.Token || got.TakenFromProcess != dead {
		f.Errorf("taken from %q of %q", got.TakenFrom, got.TakenFromProcess)
	}
}

func takeoverRefused(f *fixture) {
	process, other, run := f.process(), f.process(), f.createOne(nil)
	_, fence := f.own(process, run)
	f.lapse(other) // whose lease is over matters, not that one is
	f.lapse(process)
	f.beat(process, long)
	if why := f.refusal(f.process(), run).Why; why != engine.WhyOwned {
		f.Errorf("refused because %q", why)
	}
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

func takeoverOneWins(f *fixture) {
	dead, run := f.process(), f.createOne(nil)
	_, lost := f.own(dead, run)
	f.lapse(dead)
	all := f.claimAtOnce(20, func(int) []string { return []string{run} })
	if n := len(all[run]); n != 1 {
		f.Fatalf("%d of 20 took the run over", n)
	}
	if got := all[run][0]; got.TakenFrom != lost.Token || got.Version != 3 {
		f.Errorf("taken from %q at version %d", got.TakenFrom, got.Version)
	}
}

// A take-over happens wholly before a save, which is then lost, or wholly after
// it, and then sees it.
func takeoverRaces(f *fixture) {
	owner, next := f.process(), f.process()
	for range 40 {
		run := f.createOne(nil)
		f.beat(owner, long)
		_, fence := f.own(owner, run)
		var version int64
		var saved, beaten error
		var race sync.WaitGroup
		race.Go(func() {
			version, saved = f.store.Save(f.Context(), fence, engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{done("last", 1)}})
		})
		race.Go(func() { _, beaten = f.store.Beat(f.Context(), owner, 0) })
		var got engine.Claims
		f.eventually("the take-over", func() bool {
			got = f.claim(claimOf(next, run))
			return len(got.Claimed) == 1
		})
		race.Wait()
		f.must(beaten)
		r := got.Claimed[0]
		switch {
		case saved == nil && (version != 3 || r.Version != 4 || len(r.Nodes) != 1):
			f.Fatalf("saved as version %d, taken over at %d with %d nodes", version, r.Version, len(r.Nodes))
		case saved != nil && (!f.fenceError(saved).Lost || r.Version != 3 || len(r.Nodes) != 0):
			f.Fatalf("save refused: %v; taken over at %d with %d nodes", saved, r.Version, len(r.Nodes))
		}
	}
}

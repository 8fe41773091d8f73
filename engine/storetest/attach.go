package storetest

import (
	"errors"

	"github.com/pgreactor/reactor/engine"
)

var attachPromises = []promise{
	{"attach_once", attachOnce},
	{"attach_nobody", attachNobody},
	{"check_passes", checkPasses},
	{"broken_dispatcher_leaves_nothing", brokenDispatcher},
}

// A store serves one engine.
func attachOnce(f *fixture) {
	if f.store.Attach(&recorder{}) == nil {
		f.Error("a second Attach was accepted")
	}
	mark := f.bell.mark()
	f.once(mark, f.createOne(nil))
}

// Without a dispatcher nothing is queued, and all else works.
func attachNobody(f *fixture) {
	f.store = f.open(f.T)
	f.must(f.store.Attach(nil))
	process, run := f.process(), f.createOne(nil)
	_, fence := f.own(process, run)
	f.save(&fence, engine.Changes{Release: true, Due: true})
	f.must(f.store.Wake(f.Context(), []string{run}))
	f.sweep()
	f.status(run, engine.Running)
}

func checkPasses(f *fixture) { f.must(f.store.Check(f.Context())) }

// A wake-up that can't be queued takes the whole change with it; made again
// under its write id, the change is there once.
func brokenDispatcher(f *fixture) {
	process, run := f.process(), newRun()
	f.bell.breakWith(errors.New("the queue is away"))
	_, err := f.store.Create(f.Context(), nil, []engine.NewRun{run})
	f.away(err)
	if _, err := f.store.Get(f.Context(), run.ID); !errors.Is(err, engine.ErrRunNotFound) {
		f.Errorf("the run of a creation that was not possible: %v", err)
	}
	f.bell.breakWith(nil)
	f.create(run)

	_, fence := f.own(process, run.ID)
	was := f.get(run.ID)
	handBack := engine.Changes{WriteID: newID(), Release: true, Due: true, Nodes: []engine.NodeChange{done("a", 1)}}
	f.bell.breakWith(errors.New("the queue is away"))
	_, err = f.store.Save(f.Context(), fence, handBack)
	f.away(err)
	f.sameRun(was)

	other := f.createLater()
	claim := claimOf(process, other)
	claim.Rest = []engine.Wake{{Runs: []string{newID()}, Queue: "reactor", Priority: 2}}
	_, err = f.store.Claim(f.Context(), claim)
	f.away(err)
	f.status(other, engine.Pending)

	f.bell.breakWith(nil)
	f.save(&fence, handBack)
	if got := f.get(run.ID); got.Owner != "" || len(got.Nodes) != 1 {
		f.Errorf("the hand-back was not made: owner %q, %d nodes", got.Owner, len(got.Nodes))
	}
}

// away wants an error that says that the database could not be asked.
func (f *fixture) away(err error) {
	f.Helper()
	_, fenced := errors.AsType[*engine.FenceError](err)
	if err == nil || fenced || errors.Is(err, engine.ErrUnstorable) {
		f.Fatalf("error %v, want one that the engine asks again after", err)
	}
}

// createLater creates a run that has come due since, so that no wake-up was
// queued for it.
func (f *fixture) createLater() string {
	f.Helper()
	return f.createDue(1)[0]
}

// createDue creates n runs in one call that have come due since.
func (f *fixture) createDue(n int) []string {
	f.Helper()
	runs := newRuns(n, dueIn(soon))
	created := f.create(runs...)
	f.after(created[n-1].Now.Add(soon))
	return idsOf(runs)
}

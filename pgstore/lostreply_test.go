package pgstore_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
)

// dropped wants the reply of a COMMIT to be swallowed while do runs.
func (f *fixture) dropped(p *pgproxy.Proxy, do func()) {
	f.Helper()
	dropped := p.DropCommit()
	do()
	select {
	case <-dropped:
	default:
		f.Fatal("no reply of a COMMIT was dropped")
	}
}

// spec: K-382, C-976
func TestSaveWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	fence := f.owned()
	f.dropped(p, func() { f.save(&fence, step("a", 1)) })
	got := f.get(fence.Run)
	if fence.Version != 2 || got.Version != 2 || len(got.Nodes) != 1 {
		t.Errorf("saved as version %d; the run is at %d with %d nodes", fence.Version, got.Version, len(got.Nodes))
	}
	f.queue.clear()
	f.dropped(p, func() { f.save(&fence, engine.Changes{WriteID: newID(), Release: true, Due: true}) })
	f.wokenOnce(fence.Run)
	if len(f.queue.rings) == 0 {
		t.Error("the bell was not rung")
	}
	if got := f.get(fence.Run); got.Version != 3 || got.Owner != "" {
		t.Errorf("handed back as version %d, owner %q", got.Version, got.Owner)
	}
}

// spec: K-807
func TestCreationWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	process := f.process(time.Hour)
	runs := []engine.NewRun{newRun(), newRun(), newRun()}
	runs[0].StartKey = "k"
	f.dropped(p, func() {
		for i, c := range f.create(runs...) {
			if c.ID != runs[i].ID || c.Existing {
				t.Errorf("answer %d: %+v", i, c)
			}
		}
	})
	f.wokenOnce(runs[0].ID, runs[1].ID, runs[2].ID)
	if n := f.number(`select count(*) from reactor.runs`); n != 3 {
		t.Errorf("%d runs", n)
	}

	// Claimed and saved in the meantime, a run is still known as one that the
	// repeat had added.
	_, fence := f.own(process, runs[0].ID)
	f.save(&fence, step("a", 1))
	if c := f.create(runs...)[0]; c.ID != runs[0].ID || c.Existing {
		t.Errorf("answer %+v", c)
	}
	f.complete(fence)
}

// spec: K-807
func TestClaimWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	dead := ownedRun(f.process(time.Hour))
	f.create(dead)
	f.save(&dead.Fence, step("a", 1))
	_, err := f.store.Beat(t.Context(), dead.Fence.Process, 0)
	f.must(err)

	process := f.process(time.Hour)
	var c engine.Claimed
	var fence engine.Fence
	f.dropped(p, func() { c, fence = f.own(process, dead.ID) })
	if c.Version != 3 || len(c.Nodes) != 1 || c.TakenFrom != dead.Fence.Token || c.TakenFromProcess != dead.Fence.Process {
		t.Errorf("claimed at version %d with %d nodes, taken from %q of %q", c.Version, len(c.Nodes), c.TakenFrom, c.TakenFromProcess)
	}
	f.complete(fence)
}

// A database that is away for longer than the store tries is an error that says
// so; nothing was done, and the same save is accepted once it is back.
//
// spec: C-992
func TestSaveWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	fence := f.owned()
	p.Refuse(true)
	p.Cut()
	c := engine.Changes{WriteID: newID(), Status: engine.Completed, Output: json.RawMessage(`1`)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := f.store.Save(ctx, fence, c)
	f.away(err)
	p.Refuse(false)
	f.save(&fence, c)
	if got := f.get(fence.Run).Status; got != engine.Completed {
		t.Errorf("status %s", got)
	}
}

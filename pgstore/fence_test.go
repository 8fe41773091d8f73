package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// held keeps the next transaction that queues a wake-up open: begun is closed
// once it is, and it goes on when the returned function is called.
func (f *fixture) held() (begun <-chan struct{}, goOn func()) {
	open, end := make(chan struct{}), make(chan struct{})
	f.queue.standing(func(ctx context.Context, _ engine.Tx) error {
		f.queue.standing(nil)
		close(open)
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return open, func() { close(end) }
}

// lapse ends the lease of a process.
func (f *fixture) lapse(process string) {
	f.Helper()
	if _, err := f.store.Beat(f.Context(), process, 0); err != nil {
		f.Fatal(err)
	}
}

// A stalled owner that comes back after its lease changes nothing.
//
// spec: K-405, K-333, K-335
func TestStalledOwner(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := ownedRun(f.process(50 * time.Millisecond))
	f.create(r)
	next := f.process(hour)
	var taken engine.Fence
	f.eventually("the lease lapses", func() bool {
		claims, err := f.store.Claim(t.Context(), claimOf(next, r.ID))
		f.must(err)
		if len(claims.Claimed) == 0 {
			return false
		}
		c := claims.Claimed[0]
		taken = engine.Fence{Run: r.ID, Token: c.Owner, Process: next, Version: c.Version}
		return true
	})
	mine := step("b", 1)
	mine.Nodes[0].Output = []byte(`"the successor's"`)
	f.save(&taken, mine)
	late := step("b", 1)
	late.Status, late.Nodes[0].Output = engine.Failed, []byte(`"the stalled owner's"`)
	_, err := f.store.Save(t.Context(), r.Fence, late)
	if e := f.refusal(err); !e.Lost || e.Owner != taken.Token || e.Found != taken.Version || e.Expected != 1 {
		t.Errorf("refusal %+v", e)
	}
	got := f.get(r.ID)
	if got.Status != engine.Running || string(got.Nodes[0].Output) != `"the successor's"` {
		t.Errorf("%s with %s", got.Status, got.Nodes[0].Output)
	}
	f.complete(taken)
}

// spec: K-406, K-338, K-803
func TestLapsedAndNotTaken(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	f.lapse(fence.Process)
	c := step("a", 1)
	_, err := f.store.Save(t.Context(), fence, c)
	if e := f.refusal(err); !e.Lost || e.Owner != fence.Token || e.Found != fence.Version {
		t.Errorf("refusal %+v", e)
	}
	_, err = f.store.Beat(t.Context(), fence.Process, hour)
	f.must(err)
	f.save(&fence, c)
	f.complete(fence)
}

// spec: K-407, K-340
func TestOwnTokenOlderVersion(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	old := fence
	f.save(&fence, step("a", 1))
	_, err := f.store.Save(t.Context(), old, step("b", 2))
	if e := f.refusal(err); e.Lost || e.Expected != 1 || e.Found != 2 || e.Owner != fence.Token || e.Process != fence.Process {
		t.Errorf("refusal %+v", e)
	}
	if n := len(f.get(fence.Run).Nodes); n != 1 {
		t.Errorf("%d nodes", n)
	}
	f.complete(fence)
}

// While the transaction of a save is open the run is passed over, and afterwards
// whoever claims it finds what was saved.
//
// spec: K-409, K-339
func TestClaimAgainstAnOpenSave(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence, next := f.owned(), f.process(hour)
	begun, goOn := f.held()
	saved := make(chan error, 1)
	c := step("a", 1)
	c.Release, c.Due = true, true
	go func() {
		_, err := f.store.Save(t.Context(), fence, c)
		saved <- err
	}()
	<-begun
	claims, err := f.store.Claim(t.Context(), claimOf(next, fence.Run))
	f.must(err)
	if len(claims.Claimed) > 0 || claims.Refused[0].Why != engine.WhyOwned {
		t.Errorf("a live owner at its last save: %+v", claims.Refused)
	}
	f.lapse(fence.Process) // after the save was accepted: harmless
	claims, err = f.store.Claim(t.Context(), claimOf(next, fence.Run))
	f.must(err)
	if len(claims.Claimed) > 0 || claims.Refused[0].Why != engine.WhyLocked {
		t.Errorf("a locked header: %+v", claims.Refused)
	}
	goOn()
	f.must(<-saved)
	got, taken := f.own(next, fence.Run)
	if len(got.Nodes) != 1 || got.Version != 3 || got.TakenFrom != "" {
		t.Errorf("claimed at version %d with %d nodes, taken from %q", got.Version, len(got.Nodes), got.TakenFrom)
	}
	f.complete(taken)
}

// While the transaction of a take-over is open the save waits, and then finds
// that the run is lost.
//
// spec: K-409, K-339
func TestSaveAgainstAnOpenTakeover(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence, next := f.owned(), f.process(hour)
	f.lapse(fence.Process)
	begun, goOn := f.held()
	type answer struct {
		claims engine.Claims
		err    error
	}
	took := make(chan answer, 1)
	c := claimOf(next, fence.Run)
	c.Rest = []engine.Wake{{Runs: []string{newID()}, Queue: "reactor", Priority: 2}}
	go func() {
		claims, err := f.store.Claim(t.Context(), c)
		took <- answer{claims, err}
	}()
	<-begun
	_, err := f.store.Beat(t.Context(), fence.Process, hour) // so that the token alone decides
	f.must(err)
	saved := make(chan error, 1)
	go func() {
		_, err := f.store.Save(t.Context(), fence, step("late", 1))
		saved <- err
	}()
	f.waitsForLock()
	goOn()
	a := <-took
	f.must(a.err)
	if len(a.claims.Claimed) != 1 {
		t.Fatalf("refused: %+v", a.claims.Refused)
	}
	got := a.claims.Claimed[0]
	if e := f.refusal(<-saved); !e.Lost || e.Owner != got.Owner || e.Found != got.Version {
		t.Errorf("refusal %+v", e)
	}
	if n := len(f.get(fence.Run).Nodes); n != 0 {
		t.Errorf("%d nodes of the save that was lost", n)
	}
	f.complete(engine.Fence{Run: fence.Run, Token: got.Owner, Process: next, Version: got.Version})
}

// Beside a lease that lapses and is renewed again and again a save is accepted
// or lost, and nothing in between.
//
// spec: K-805
func TestSaveBesideRenewals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	end := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		for lease := time.Duration(0); ; lease = hour - lease {
			select {
			case <-end:
				return
			default:
			}
			if _, err := f.store.Beat(t.Context(), fence.Process, lease); err != nil {
				t.Error(err)
				return
			}
		}
	})
	accepted, lost := 0, 0
	for accepted < 30 || lost < 30 {
		version, err := f.store.Save(t.Context(), fence, step(fmt.Sprint("n", accepted), int64(accepted+1)))
		switch {
		case err == nil:
			accepted++
			fence.Version = version
		case f.refusal(err).Lost:
			lost++
		default:
			t.Fatalf("error %v", err)
		}
	}
	close(end)
	beats.Wait()
	if _, err := f.store.Beat(t.Context(), fence.Process, hour); err != nil {
		t.Fatal(err)
	}
	if got := f.get(fence.Run); got.Version != int64(accepted+1) || len(got.Nodes) != accepted {
		t.Errorf("version %d with %d nodes after %d saves", got.Version, len(got.Nodes), accepted)
	}
	f.complete(fence)
}

// A refused save leaves nothing behind and tells nobody.
//
// spec: K-344, K-345, K-411
func TestRefusedSaveLeavesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	f.queue.clear()
	blocked := "b"
	for _, wrong := range []engine.Fence{
		{Run: fence.Run, Token: fence.Token, Process: fence.Process, Version: 7},
		{Run: fence.Run, Token: newID(), Process: fence.Process, Version: 1},
		{Run: fence.Run, Token: "", Version: 1},
		{Run: newID(), Token: fence.Token, Version: 1},
	} {
		c := step("a", 1)
		c.Release, c.Due, c.Output, c.Reason, c.Blocked = true, true, []byte(`1`), "r", &blocked
		_, err := f.store.Save(t.Context(), wrong, c)
		f.refusal(err)
	}
	got := f.get(fence.Run)
	if got.Version != 1 || got.Owner != fence.Token || len(got.Nodes) > 0 || got.Output != nil || got.Reason+got.Blocked != "" {
		t.Errorf("run %+v", got)
	}
	if len(f.queue.woken()) > 0 || len(f.queue.rings) > 0 {
		t.Errorf("woken %q, rung %q", f.queue.woken(), f.queue.rings)
	}
	f.complete(fence)
}

package storetest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

const (
	long  = time.Hour   // longer than any test
	brief = time.Second // the shortest pause between two wake-ups of one run
)

// fixture is a test with a store and the dispatcher that it is attached to.
type fixture struct {
	*testing.T
	open  func(*testing.T) engine.Store
	store engine.Store
	bell  *recorder
}

func newFixture(t *testing.T, open func(*testing.T) engine.Store) *fixture {
	t.Helper()
	f := &fixture{T: t, open: open, store: open(t), bell: &recorder{}}
	f.must(f.store.Attach(f.bell))
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// newID is a fresh UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newRun is a pending root of checkout@1 that is due now.
func newRun() engine.NewRun {
	id := newID()
	return engine.NewRun{
		Header: engine.Header{
			ID: id, Root: id, Kind: engine.Root,
			Reactor: "checkout", Definition: 1, Fingerprint: "f1",
			Status: engine.Pending, Queue: "reactor", Priority: 2,
		},
		WriteID: newID(),
		Input:   json.RawMessage(`{"order":"o-17"}`),
	}
}

// newRuns is n of them, with the change made to each.
func newRuns(n int, change func(*engine.NewRun)) []engine.NewRun {
	runs := make([]engine.NewRun, n)
	for i := range runs {
		runs[i] = newRun()
		change(&runs[i])
	}
	return runs
}

func idsOf(runs []engine.NewRun) []string {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	return ids
}

// dueIn lets a run be due so long after its creation.
func dueIn(d time.Duration) func(*engine.NewRun) {
	return func(r *engine.NewRun) { r.DueIn = d }
}

func (f *fixture) create(runs ...engine.NewRun) []engine.Created {
	f.Helper()
	created, err := f.store.Create(f.Context(), nil, runs)
	f.must(err)
	if len(created) != len(runs) {
		f.Fatalf("create %d runs: %d answers", len(runs), len(created))
	}
	return created
}

// createOne creates a run with the change made to it and returns its id.
func (f *fixture) createOne(change func(*engine.NewRun)) string {
	f.Helper()
	r := newRun()
	if change != nil {
		change(&r)
	}
	f.create(r)
	return r.ID
}

// process registers a process that knows checkout@1 and works the queue reactor.
func (f *fixture) process() string {
	f.Helper()
	p := newProcess()
	f.must(f.store.Register(f.Context(), p, long))
	return p.ID
}

func newProcess() engine.Process {
	return engine.Process{
		ID: newID(), Host: "host-1", PID: 4711,
		Knows: []string{engine.Knows("checkout", 1)}, Queues: []string{"reactor"},
	}
}

// beat renews the lease of a process that has a row.
func (f *fixture) beat(process string, lease time.Duration) {
	f.Helper()
	known, err := f.store.Beat(f.Context(), process, lease)
	f.must(err)
	if !known {
		f.Fatalf("process %s: no row", process)
	}
}

// lapse ends the lease of a process.
func (f *fixture) lapse(process string) {
	f.Helper()
	f.beat(process, 0)
}

func claimOf(process string, runs ...string) engine.Claim {
	c := engine.Claim{Process: process, Knows: []string{engine.Knows("checkout", 1)}}
	for _, id := range runs {
		c.Wants = append(c.Wants, engine.Want{Run: id, Token: newID(), WriteID: newID()})
	}
	return c
}

func (f *fixture) claim(c engine.Claim) engine.Claims {
	f.Helper()
	claims, err := f.store.Claim(f.Context(), c)
	f.must(err)
	if n := len(claims.Claimed) + len(claims.Refused); n != len(c.Wants) {
		f.Fatalf("claim of %d runs: %d answers", len(c.Wants), n)
	}
	return claims
}

// own claims one run and returns it with the fence that its owner has.
func (f *fixture) own(process, run string) (engine.Claimed, engine.Fence) {
	f.Helper()
	claims := f.claim(claimOf(process, run))
	if len(claims.Claimed) != 1 {
		f.Fatalf("claim of run %s refused: %s", run, claims.Refused[0].Why)
	}
	return claims.Claimed[0], fenceOf(claims.Claimed[0].Record)
}

func fenceOf(r engine.Record) engine.Fence {
	return engine.Fence{Run: r.ID, Token: r.Owner, Process: r.Process, Version: r.Version}
}

// owned creates a run and claims it.
func (f *fixture) owned() engine.Fence {
	f.Helper()
	_, fence := f.own(f.process(), f.createOne(nil))
	return fence
}

// refusal claims one run, which must be refused, and says why it was.
func (f *fixture) refusal(process, run string) engine.Refusal {
	f.Helper()
	claims := f.claim(claimOf(process, run))
	if len(claims.Refused) != 1 {
		f.Fatalf("claim of run %s accepted", run)
	}
	return claims.Refused[0]
}

// save saves and moves the fence on to the new version.
func (f *fixture) save(fence *engine.Fence, c engine.Changes) {
	f.Helper()
	if c.WriteID == "" {
		c.WriteID = newID()
	}
	version, err := f.store.Save(f.Context(), *fence, c)
	f.must(err)
	if version != fence.Version+1 {
		f.Fatalf("save: version %d after %d", version, fence.Version)
	}
	fence.Version = version
}

// refused saves and returns the refusal.
func (f *fixture) refused(fence engine.Fence, c engine.Changes) *engine.FenceError {
	f.Helper()
	if c.WriteID == "" {
		c.WriteID = newID()
	}
	_, err := f.store.Save(f.Context(), fence, c)
	return f.fenceError(err)
}

func (f *fixture) fenceError(err error) *engine.FenceError {
	f.Helper()
	e, ok := errors.AsType[*engine.FenceError](err)
	if !ok {
		f.Fatalf("error %v, want a *FenceError", err)
	}
	if errors.Is(err, engine.ErrLeaseLost) != e.Lost {
		f.Fatalf("lost is %t, but matching ErrLeaseLost is %t", e.Lost, !e.Lost)
	}
	return e
}

// unstorable wants an error that says that no repetition helps.
func (f *fixture) unstorable(err error) {
	f.Helper()
	if !errors.Is(err, engine.ErrUnstorable) {
		f.Fatalf("error %v, want one that matches ErrUnstorable", err)
	}
}

func (f *fixture) get(run string) *engine.Record {
	f.Helper()
	r, err := f.store.Get(f.Context(), run)
	f.must(err)
	return r
}

func (f *fixture) status(run string, want engine.Status) {
	f.Helper()
	if got := f.get(run).Status; got != want {
		f.Errorf("run %s is %s, want %s", run, got, want)
	}
}

func (f *fixture) health() *engine.Health {
	f.Helper()
	h, err := f.store.Health(f.Context())
	f.must(err)
	return h
}

// sweep runs a pass, in batches of ten.
func (f *fixture) sweep() engine.SweepResult {
	f.Helper()
	result, err := f.store.Sweep(f.Context(), engine.SweepPass{Limit: 10})
	f.must(err)
	if !result.Ran {
		f.Fatal("a pass without an interval was left out")
	}
	return result
}

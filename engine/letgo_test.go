package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

var errAway = errors.New("the database is away")

// A frailStore is one whose answers the test may lose: before says what does
// not arrive, after what arrives and is not answered. It is asked for each call
// by its name.
type frailStore struct {
	sharedStore
	mu            sync.Mutex
	before, after func(call string) error
}

func newFrail() *frailStore {
	return &frailStore{sharedStore: sharedStore{Store: engine.NewMemoryStore()}}
}

// fails makes calls of these names fail, before or after they have worked; no
// name heals it.
func (f *frailStore) fails(before bool, calls ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(call string) error {
		if slices.Contains(calls, call) {
			return errAway
		}
		return nil
	}
	f.before, f.after = nil, nil
	if before {
		f.before = fail
	} else {
		f.after = fail
	}
}

func (f *frailStore) heal() { f.fails(true) }

// around calls work as the test wants it.
func (f *frailStore) around(call string, work func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(call); err != nil {
			return err
		}
	}
	err := work()
	if err == nil && after != nil {
		err = after(call)
	}
	return err
}

func (f *frailStore) Claim(ctx context.Context, c engine.Claim) (claims engine.Claims, err error) {
	err = f.around("Claim", func() (err error) { claims, err = f.sharedStore.Claim(ctx, c); return err })
	if err != nil {
		claims = engine.Claims{}
	}
	return claims, err
}

func (f *frailStore) Create(ctx context.Context, tx engine.Tx, runs []engine.NewRun) (created []engine.Created, err error) {
	err = f.around("Create", func() (err error) { created, err = f.sharedStore.Create(ctx, tx, runs); return err })
	return created, err
}

func (f *frailStore) Save(ctx context.Context, fence engine.Fence, c engine.Changes) (version int64, err error) {
	err = f.around("Save", func() (err error) { version, err = f.sharedStore.Save(ctx, fence, c); return err })
	return version, err
}

func (f *frailStore) Beat(ctx context.Context, process string, lease time.Duration) (known bool, err error) {
	err = f.around("Beat", func() (err error) { known, err = f.sharedStore.Beat(ctx, process, lease); return err })
	return known, err
}

func (f *frailStore) Get(ctx context.Context, run string) (rec *engine.Record, err error) {
	err = f.around("Get", func() (err error) { rec, err = f.sharedStore.Get(ctx, run); return err })
	return rec, err
}

func (f *frailStore) Unregister(ctx context.Context, process string) error {
	return f.around("Unregister", func() error { return f.sharedStore.Unregister(ctx, process) })
}

// frailHost is a host on a frail store.
func frailHost(t *testing.T, config engine.Config, reactors ...engine.Definition) (*host, *frailStore) {
	t.Helper()
	store := newFrail()
	config.Store, config.Dispatcher = store, &jobs{}
	return openHost(t, config, reactors...), store
}

// quick are settings with a lease of a second.
func quick(c engine.Config) engine.Config {
	c.Lease, c.Heartbeat = time.Second, 100*time.Millisecond
	return c
}

// gate is a step that says that it is at work and waits until it may go on, or
// its context ends.
type gate struct{ at, open chan struct{} }

func newGate() *gate { return &gate{at: make(chan struct{}, 10), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context, n int) (int, error) {
	g.at <- struct{}{}
	select {
	case <-g.open:
		return n + 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// owner is the token on a run's header.
func (f *frailStore) owner(t *testing.T, run string) string {
	t.Helper()
	rec, err := f.sharedStore.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Owner
}

// The claim landed, and its reply did not: the run would belong to a living
// process in which nobody drives it.
// spec: K-807, C-987
func TestClaimWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	r := pair(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
	h, store := frailHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	store.fails(false, "Claim")
	for _, w := range h.jobs.take() {
		if err := h.Drive(t.Context(), w); !errors.Is(err, errAway) {
			t.Fatalf("drive: %v", err)
		}
	}
	if store.owner(t, started.ID) == "" {
		t.Fatal("the claim has not landed")
	}
	store.heal()
	until(t, "the run is given back", func() bool { return store.owner(t, started.ID) == "" })
	h.drive(t)
	if v := h.view(t, started.ID); v.Status != engine.Completed || v.Nodes[1].Attempts != 1 {
		t.Errorf("%+v", v)
	}
}

// Creations landed, and their replies did not: nothing of these runs has begun,
// and nothing ever will. Those that did not land leave nothing.
// spec: K-807, C-987
func TestCreationsWhoseRepliesAreLost(t *testing.T) {
	t.Parallel()
	r := pair(func(context.Context, int) (int, error) { t.Error("b ran"); return 0, nil }, nil)
	h, store := frailHost(t, engine.Config{}, r)
	const n = 50
	for i := range 2 * n {
		store.fails(i%2 == 0, "Create", "Save")
		if _, err := r.Run(t.Context(), h.Engine, 1); !errors.Is(err, errAway) {
			t.Fatalf("run: %v", err)
		}
	}
	if got := h.runs(t); got != n {
		t.Fatalf("%d creations landed", got)
	}
	store.heal()
	until(t, "the runs are ended", func() bool {
		page, err := h.List(t.Context(), engine.Query{Status: []engine.Status{engine.Aborted}, Limit: 500})
		return err == nil && len(page.Runs) == n
	})
}

// The caller goes while the database is away, and does not wait for ever; what
// became of its run is stored when the database is back.
// spec: C-998, C-197
func TestCallerGoesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := pair(g.pass, nil)
	h, store := frailHost(t, engine.Config{}, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := make(chan error, 1)
	id := make(chan string, 1)
	go func() {
		res, err := r.Run(ctx, h.Engine, 1)
		id <- res.RunID
		came <- err
	}()
	<-g.at
	store.fails(true, "Save")
	cancel()
	run := <-id
	if err := <-came; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if rec := h.record(t, run); rec.Status != engine.Running {
		t.Fatalf("status %s while the database is away", rec.Status)
	}
	store.heal()
	until(t, "the run is aborted", func() bool { return h.record(t, run).Status == engine.Aborted })
	if v := h.view(t, run); len(v.ToUndo) != 2 || v.ToUndo[0] != "b" || v.Owner != "" {
		t.Errorf("left to undo %v, owner %q", v.ToUndo, v.Owner)
	}
}

// A worker stops while the database is away, and its engine lives on: the
// result is kept, and the run goes on elsewhere.
// spec: C-998, C-992
func TestWorkerStopsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	g := newGate()
	calls := 0
	r := pair(g.pass, func(d *engine.Builder, n *engine.StepNode[int, int]) {
		engine.Step(d, "c", n, func(_ context.Context, n int) (int, error) { calls++; return n, nil })
	})
	h, store := frailHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	wake := h.jobs.take()[0]
	go func() { stopped <- h.Drive(ctx, wake) }()
	<-g.at
	store.fails(true, "Save")
	g.open <- struct{}{}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("drive: %v", err)
	}
	store.heal()
	until(t, "the run is given back", func() bool { return store.owner(t, started.ID) == "" })
	if v := h.view(t, started.ID); state(v, "b") != "done" || calls != 0 {
		t.Errorf("%+v", v)
	}
	h.drive(t)
	if v := h.view(t, started.ID); v.Status != engine.Completed || len(g.at) > 0 || calls != 1 {
		t.Errorf("%+v, b called again %d times, c %d times", v, len(g.at), calls)
	}
}

// A stop does not wait for the end of an outage in which the lease was lost.
// spec: C-998, C-977, K-802
func TestStopWhileTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(h *host, cancel func()){
		"the workers stop":  func(_ *host, cancel func()) { cancel() },
		"the engine closes": func(h *host, _ func()) { go func() { _ = h.Close(context.Background()) }() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			r := pair(g.pass, nil)
			h, store := frailHost(t, quick(engine.Config{}), r)
			started, err := r.Start(t.Context(), h.Engine, 1)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan error, 1)
			wake := h.jobs.take()[0]
			go func() { stopped <- h.Drive(ctx, wake) }()
			<-g.at
			store.fails(true, "Beat", "Save", "Get")
			until(t, "the lease is lost", func() bool {
				rec, err := store.sharedStore.Get(t.Context(), started.ID)
				return err == nil && !rec.Lease.After(rec.Now)
			})
			stop(h, cancel)
			select {
			case <-stopped:
			case <-time.After(10 * time.Second):
				t.Error("the stop does not return")
			}
			store.heal()
			until(t, "nobody owns the run, or its owner has gone", func() bool {
				rec, err := store.sharedStore.Get(t.Context(), started.ID)
				return err == nil && (rec.Owner == "" || rec.Lease.IsZero())
			})
		})
	}
}

// spec: K-804, K-375, K-379, C-981
func TestRowOfTheProcessIsGone(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := pair(g.pass, nil)
	h, store := frailHost(t, quick(engine.Config{}), r)
	came := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), h.Engine, 1)
		came <- err
	}()
	<-g.at
	page, err := h.List(t.Context(), engine.Query{})
	if err != nil || len(page.Runs) != 1 {
		t.Fatal(page, err)
	}
	run := page.Runs[0]
	if err := store.Unregister(t.Context(), run.Owner); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-came:
		if !errors.Is(err, engine.ErrLeaseLost) {
			t.Errorf("the caller got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the caller waits for a run that is lost")
	}
	close(g.open)
	if _, err := h.Sweep(t.Context()); err != nil { // the same process, under its new id, is like any other
		t.Fatal(err)
	}
	h.drive(t)
	if v := h.view(t, run.RunID); v.Status != engine.Completed || v.Nodes[1].Recovered != 1 {
		t.Errorf("%+v", v)
	}
}

// What is claimed while the engine begins to close is given back at once.
// spec: C-993, K-905
func TestCloseDuringAClaim(t *testing.T) {
	t.Parallel()
	r := pair(func(context.Context, int) (int, error) { t.Error("b ran"); return 0, nil }, nil)
	h, store := frailHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	at, goOn := make(chan struct{}), make(chan struct{})
	store.after = func(call string) error {
		if call == "Claim" {
			close(at)
			<-goOn
		}
		return nil
	}
	stopped := make(chan error, 1)
	wake := h.jobs.take()[0]
	go func() { stopped <- h.Drive(t.Context(), wake) }()
	<-at
	closed := make(chan error, 1)
	go func() { closed <- h.Close(t.Context()) }()
	until(t, "the engine is closing", func() bool {
		_, err := r.Start(t.Context(), h.Engine, 2)
		return errors.Is(err, engine.ErrShutdown)
	})
	close(goOn)
	if err := errors.Join(<-stopped, <-closed); err != nil {
		t.Error(err)
	}
	if rec := h.record(t, started.ID); rec.Owner != "" || rec.Due.IsZero() {
		t.Errorf("%+v", rec)
	}
	if wakes := h.jobs.take(); !slices.ContainsFunc(wakes, func(w engine.Wake) bool { return slices.Contains(w.Runs, started.ID) }) {
		t.Errorf("wake-ups %v", wakes)
	}
}

// Close returns once the process has left the system, so that the pool may be
// closed after it.
// spec: K-813
func TestCloseWaitsUntilTheProcessHasLeft(t *testing.T) {
	t.Parallel()
	r := pair(func(_ context.Context, n int) (int, error) { return n, nil }, nil)
	h, store := frailHost(t, engine.Config{}, r)
	if _, err := r.Run(t.Context(), h.Engine, 1); err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	store.after = func(call string) error {
		if call == "Unregister" {
			close(left)
		}
		return nil
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	default:
		t.Error("Close returned before the process had left")
	}
	health, err := store.Health(t.Context())
	if err != nil || len(health.Processes) != 0 {
		t.Errorf("%+v, %v", health, err)
	}
}

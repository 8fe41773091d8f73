package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A host is one process: an engine on a store in memory that several hosts may
// share, as processes share a database. Nothing is driven but by Run and drive.
type host struct {
	*engine.Engine
	store engine.Store
	jobs  *jobs
}

// newHost is a process on a store of its own, unless config has one.
func newHost(t *testing.T, config engine.Config, reactors ...engine.Definition) *host {
	t.Helper()
	if config.Store == nil {
		config.Store = &sharedStore{Store: engine.NewMemoryStore()}
	}
	config.Dispatcher = &jobs{}
	return openHost(t, config, reactors...)
}

// beside is another process on the store of h; it knows only what it is given.
func (h *host) beside(t *testing.T, config engine.Config, reactors ...engine.Definition) *host {
	t.Helper()
	config.Store, config.Dispatcher = h.store, h.jobs
	return openHost(t, config, reactors...)
}

func openHost(t *testing.T, config engine.Config, reactors ...engine.Definition) *host {
	t.Helper()
	config.NoSweep = true
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := engine.New(config, reactors...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &host{Engine: e, store: config.Store, jobs: config.Dispatcher.(*jobs)}
}

// drive works the queue until it is empty.
func (h *host) drive(t *testing.T) {
	t.Helper()
	for {
		wakes := h.jobs.take()
		if len(wakes) == 0 {
			return
		}
		for _, w := range wakes {
			if err := h.Drive(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// seize changes a run as another process that owns it now.
func (h *host) seize(t *testing.T, run string, c engine.Changes) {
	t.Helper()
	rec := h.record(t, run)
	knows := []string{engine.Knows(rec.Reactor, rec.Definition)}
	process := engine.NewUUID()
	if err := h.store.Register(t.Context(), engine.Process{ID: process, Knows: knows}, time.Minute); err != nil {
		t.Fatal(err)
	}
	token := engine.NewUUID()
	claims, err := h.store.Claim(t.Context(), engine.Claim{Process: process, Knows: knows, Wants: []engine.Want{{Run: run, Token: token, WriteID: engine.NewUUID()}}})
	if err != nil || len(claims.Claimed) != 1 {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	c.WriteID = engine.NewUUID()
	if _, err := h.store.Save(t.Context(), engine.Fence{Run: run, Token: token, Process: process, Version: claims.Claimed[0].Version}, c); err != nil {
		t.Fatal(err)
	}
}

// view is a run as operators see it.
func (h *host) view(t *testing.T, run string) engine.View {
	t.Helper()
	v, err := h.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// record is a run as it is stored.
func (h *host) record(t *testing.T, run string) *engine.Record {
	t.Helper()
	r, err := h.store.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runs is how many there are.
func (h *host) runs(t *testing.T) int {
	t.Helper()
	page, err := h.List(t.Context(), engine.Query{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Runs)
}

// A sharedStore may be given to several engines.
type sharedStore struct {
	engine.Store
	attached sync.Once
}

// Attach binds the store to the first dispatcher.
func (s *sharedStore) Attach(d engine.Dispatcher) (err error) {
	s.attached.Do(func() { err = s.Store.Attach(d) })
	return err
}

// jobs is a dispatcher that keeps what it is given.
type jobs struct {
	mu    sync.Mutex
	wakes []engine.Wake
	err   error // of Validate
}

// Wake keeps the wake-ups.
func (j *jobs) Wake(_ context.Context, _ engine.Tx, wakes []engine.Wake, _ bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wakes = append(j.wakes, wakes...)
	return nil
}

// Ring does nothing: the test drives when it wants to.
func (j *jobs) Ring(...string) {}

// Validate is an error if the test wants one.
func (j *jobs) Validate() error { return j.err }

func (j *jobs) take() []engine.Wake {
	j.mu.Lock()
	defer j.mu.Unlock()
	wakes := j.wakes
	j.wakes = nil
	return wakes
}

// until polls until is is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// failureIn is the failure of a run.
func failureIn(t *testing.T, err error) *engine.RunError {
	t.Helper()
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok {
		t.Fatalf("%v is no *RunError", err)
	}
	return failure
}

// state is that of a node in a view.
func state(v engine.View, path string) string {
	for _, n := range v.Nodes {
		if n.Path == path {
			return n.State
		}
	}
	return "no such node"
}

// nodeAt is a node in a view.
func nodeAt(v engine.View, path string) engine.NodeView {
	for _, n := range v.Nodes {
		if n.Path == path {
			return n
		}
	}
	return engine.NodeView{}
}

// places are the two ways to have a run driven: here, and by another process.
var places = []string{"here", "by workers"}

// runAt runs r at a place, and waits for the end. The answer comes from memory
// here, and from the store by workers.
func runAt[In, Out any](t *testing.T, place string, r *engine.Reactor[In, Out], config engine.Config, in In) (*host, engine.Result[Out], error) {
	t.Helper()
	h := newHost(t, config, r)
	if place == "here" {
		res, err := r.Run(t.Context(), h.Engine, in)
		return h, res, err
	}
	started, err := r.Start(t.Context(), h.Engine, in)
	if err != nil {
		return h, engine.Result[Out]{RunID: runOf(err)}, err
	}
	h.beside(t, config, r).drive(t)
	res, err := started.Wait(t.Context())
	return h, res, err
}

// runOf is the run that an error is about.
func runOf(err error) string {
	if failure, ok := errors.AsType[*engine.RunError](err); ok {
		return failure.RunID
	}
	return ""
}

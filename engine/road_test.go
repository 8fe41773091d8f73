package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A road is the way of one process to the store that it shares with others. The
// test may make it slow, or cut it.
type road struct {
	engine.Store
	before, after time.Duration // how long a heartbeat is on its way, and its answer

	mu     sync.Mutex
	closed map[string]error // by operation; "" is all
	saves  []engine.Fence   // of the saves, in order
	sent   time.Time        // when the last heartbeat that was answered was
}

var errRoadClosed = errors.New("the database is away")

// cut makes an operation, or all of them ("") fail until it is mended.
func (r *road) cut(operation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = map[string]error{}
	}
	r.closed[operation] = errRoadClosed
}

func (r *road) mend(operation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.closed, operation)
}

func (r *road) passes(operation string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.closed[""], r.closed[operation])
}

func (r *road) lastSent() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

// Beat takes its time.
func (r *road) Beat(ctx context.Context, process string, lease time.Duration) (bool, error) {
	sent := time.Now()
	if err := r.passes("beat"); err != nil {
		return false, err
	}
	<-time.After(r.before)
	known, err := r.Store.Beat(ctx, process, lease)
	<-time.After(r.after)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = sent
	return known, err
}

// Save notes what it is shown.
func (r *road) Save(ctx context.Context, f engine.Fence, c engine.Changes) (int64, error) {
	if err := r.passes("save"); err != nil {
		return 0, err
	}
	r.mu.Lock()
	r.saves = append(r.saves, f)
	r.mu.Unlock()
	return r.Store.Save(ctx, f, c)
}

func (r *road) Claim(ctx context.Context, c engine.Claim) (engine.Claims, error) {
	if err := r.passes("claim"); err != nil {
		return engine.Claims{}, err
	}
	return r.Store.Claim(ctx, c)
}

func (r *road) Get(ctx context.Context, run string) (*engine.Record, error) {
	if err := r.passes("get"); err != nil {
		return nil, err
	}
	return r.Store.Get(ctx, run)
}

func (r *road) Graph(ctx context.Context, fingerprint string) (*engine.StoredGraph, error) {
	if err := r.passes("graph"); err != nil {
		return nil, err
	}
	return r.Store.Graph(ctx, fingerprint)
}

// onRoad is a process whose way to a store of its own is a road.
func onRoad(t *testing.T, config engine.Config, reactors ...engine.Definition) (*host, *road) {
	t.Helper()
	r := &road{Store: &sharedStore{Store: engine.NewMemoryStore()}}
	config.Store, config.Dispatcher = r, &jobs{}
	return openHost(t, config, reactors...), r
}

// startAndDrive starts a run and has this process drive it in the background.
func startAndDrive[In, Out any](t *testing.T, h *host, r *engine.Reactor[In, Out], in In) (run *engine.Handle[Out], driven chan error) {
	t.Helper()
	run, err := r.Start(t.Context(), h.Engine, in)
	if err != nil {
		t.Fatal(err)
	}
	driven = make(chan error, 1)
	go func() {
		driven <- h.Drive(t.Context(), engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1})
	}()
	return run, driven
}

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A faultyStore fails where the test says so.
type faultyStore struct {
	engine.Store
	mu     sync.Mutex
	create func(next func() ([]engine.Created, error)) ([]engine.Created, error)
	beat   error
}

// Create goes through the test's hands.
func (s *faultyStore) Create(ctx context.Context, tx engine.Tx, runs []engine.NewRun) ([]engine.Created, error) {
	if s.create == nil {
		return s.Store.Create(ctx, tx, runs)
	}
	return s.create(func() ([]engine.Created, error) { return s.Store.Create(ctx, tx, runs) })
}

// Beat fails as long as the test wants it to.
func (s *faultyStore) Beat(ctx context.Context, process string, lease time.Duration) (bool, error) {
	s.mu.Lock()
	err := s.beat
	s.mu.Unlock()
	if err != nil {
		return false, err
	}
	return s.Store.Beat(ctx, process, lease)
}

func (s *faultyStore) beats(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = err
}

var errUnreachable = errors.New("the database can't be reached")

// spec: C-81, K-5
func TestRunThatIsLost(t *testing.T) {
	t.Parallel()
	store := &faultyStore{Store: engine.NewMemoryStore()}
	at := make(chan string, 1)
	r := engine.MustDefine("lost", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, _ int) (int, error) {
			at <- engine.RunFrom(ctx).RunID
			<-ctx.Done()
			return 5, nil
		})
	})
	h := newHost(t, engine.Config{Store: store, Lease: 150 * time.Millisecond, Heartbeat: 50 * time.Millisecond, Recoveries: engine.Unlimited}, r)
	came := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), h.Engine, 1)
		came <- err
	}()
	run := <-at
	store.beats(errUnreachable)
	until(t, "the lease is over", func() bool { rec := h.record(t, run); return !rec.Lease.After(rec.Now) })
	h.seize(t, run, engine.Changes{Status: engine.Completed, Output: json.RawMessage("7")})
	store.beats(nil)
	if err := <-came; !errors.Is(err, engine.ErrLeaseLost) || !strings.Contains(err.Error(), "reactor lost, run "+run) {
		t.Errorf("%v", err)
	} else if _, failed := errors.AsType[*engine.RunError](err); failed {
		t.Errorf("a lost run is no failure: %v", err)
	}
	if v := h.view(t, run); v.Status != engine.Completed || string(v.Output) != "7" || state(v, "a") != "pending" {
		t.Errorf("%s %s, a is %s", v.Status, v.Output, state(v, "a"))
	}
}

// What is not of the reactor's code comes as it is, and leaves no run of ours
// behind that nobody drives.
//
// spec: C-81
func TestCreationThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		create func(next func() ([]engine.Created, error), cancel func()) ([]engine.Created, error)
		is     error
		runs   int
	}{
		"the database is away": {func(func() ([]engine.Created, error), func()) ([]engine.Created, error) { return nil, errUnreachable }, errUnreachable, 0},
		"the reply is lost": {func(next func() ([]engine.Created, error), _ func()) ([]engine.Created, error) {
			_, _ = next()
			return nil, errUnreachable
		}, errUnreachable, 1},
		"the caller leaves in it": {func(next func() ([]engine.Created, error), cancel func()) ([]engine.Created, error) {
			cancel()
			return next()
		}, context.Canceled, 1},
		"the caller leaves and it fails": {func(next func() ([]engine.Created, error), cancel func()) ([]engine.Created, error) {
			cancel()
			_, _ = next()
			return nil, errUnreachable
		}, context.Canceled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := &faultyStore{Store: engine.NewMemoryStore()}
			store.create = func(next func() ([]engine.Created, error)) ([]engine.Created, error) { return c.create(next, cancel) }
			r := engine.MustDefine("created", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				return engine.Step(b, "a", in, func(context.Context, int) (int, error) { t.Error("a ran"); return 0, nil })
			})
			h := newHost(t, engine.Config{Store: store}, r)
			_, err := r.Run(ctx, h.Engine, 1)
			if _, failed := errors.AsType[*engine.RunError](err); failed || !errors.Is(err, c.is) {
				t.Errorf("%v", err)
			}
			until(t, "what was created has ended", func() bool {
				page, err := h.List(t.Context(), engine.Query{})
				return err == nil && len(page.Runs) == c.runs && (c.runs == 0 || page.Runs[0].Status == engine.Aborted && page.Runs[0].Owner == "")
			})
		})
	}
}

// spec: C-81
func TestStartOfACallerWhoIsGone(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCaller)
	for before := range 2 { // at its first use, and later
		_, run := r.Run(ctx, h.Engine, 1)
		_, start := r.Start(ctx, h.Engine, 1)
		for call, err := range map[string]error{"Run": run, "Start": start} {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errCaller) {
				t.Errorf("%s: %v", call, err)
			}
		}
		if n := h.runs(t); n != before {
			t.Errorf("%d runs, want %d", n, before)
		}
		if _, err := r.Run(t.Context(), h.Engine, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Run(t.Context(), nil, 1); err == nil || !strings.HasPrefix(err.Error(), "engine: the engine is nil") {
		t.Errorf("without an engine: %v", err)
	}
	if _, err := (&engine.Handle[int]{ID: "x"}).Wait(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "engine: the handle is none") {
		t.Errorf("a handle of nobody: %v", err)
	}
}

package river_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	reactorriver "github.com/pgreactor/reactor/river"
)

// noStore is a store whose database is away.
type noStore struct{ engine.Store }

func (noStore) Attach(engine.Dispatcher) error { return nil }
func (noStore) Check(context.Context) error    { return errors.New("the database is away") }

// idle is an engine that never gets to work.
func idle(t *testing.T, queue string) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{
		Store: noStore{}, Dispatcher: reactorriver.NewDispatcher(lazyPool(t)), Queue: queue, Logger: slog.New(slog.DiscardHandler),
	}, ship)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// lazyPool is a pool that has never connected.
func lazyPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Twins are jobs with the kinds of ours, by which rows in the database know
// them: a release must not change them.
type (
	driveTwin struct{}
	startTwin struct{}
)

func (driveTwin) Kind() string { return "reactor_drive" }
func (startTwin) Kind() string { return "reactor_start" }

// twin adds a worker of another kind of job with the same name.
func twin[T river.JobArgs](workers *river.Workers) error {
	return river.AddWorkerSafely(workers, river.WorkFunc(func(context.Context, *river.Job[T]) error { return nil }))
}

// spec: K-1073
func TestAttachAddsQueueAndWorkers(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	own := river.QueueConfig{MaxWorkers: 3}
	ours := river.QueueConfig{MaxWorkers: 10, FetchCooldown: 5 * ms}
	for name, c := range map[string]struct {
		queue  string
		config river.Config
		want   map[string]river.QueueConfig
	}{
		"a client that only inserts": {want: map[string]river.QueueConfig{"reactor": ours}},
		"a client with other queues": {
			config: river.Config{Queues: map[string]river.QueueConfig{"mail": own}, Workers: river.NewWorkers()},
			want:   map[string]river.QueueConfig{"mail": own, "reactor": ours},
		},
		"a client that names ours": {
			config: river.Config{Queues: map[string]river.QueueConfig{"reactor": own}},
			want:   map[string]river.QueueConfig{"reactor": own},
		},
		"a client that polls fast": {
			config: river.Config{FetchCooldown: 2 * ms, FetchPollInterval: 2 * ms},
			want:   map[string]river.QueueConfig{"reactor": {MaxWorkers: 10, FetchCooldown: 2 * ms}},
		},
		"an engine with another queue": {queue: "sagas", want: map[string]river.QueueConfig{"sagas": ours}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := c.config
			if err := reactorriver.Attach(&config, idle(t, c.queue)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, config.Queues); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if _, err := river.NewClient(riverpgxv5.New(lazyPool(t)), &config); err != nil {
				t.Errorf("river.NewClient: %v", err)
			}
			for _, err := range []error{twin[driveTwin](config.Workers), twin[startTwin](config.Workers)} {
				if err == nil || !strings.Contains(err.Error(), "already registered") {
					t.Errorf("a worker of ours is missing: %v", err)
				}
			}
		})
	}
}

func TestAttachIsChecked(t *testing.T) {
	t.Parallel()
	e := idle(t, "")
	twice := &river.Config{}
	if err := reactorriver.Attach(twice, e, reactorriver.AttachOptions{Seats: 5}); err != nil {
		t.Fatal(err)
	}
	untouched := &river.Config{}
	for want, err := range map[string]error{
		"river.Config is nil":              reactorriver.Attach(nil, e),
		"engine is nil":                    reactorriver.Attach(untouched, nil),
		"2 AttachOptions; it takes one":    reactorriver.Attach(untouched, e, reactorriver.AttachOptions{}, reactorriver.AttachOptions{}),
		"given -1 Seats":                   reactorriver.Attach(untouched, e, reactorriver.AttachOptions{Seats: -1}),
		"has workers of an engine already": reactorriver.Attach(twice, e),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "attach: ") {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if untouched.Workers != nil || untouched.Queues != nil {
		t.Error("a refused Attach changed the configuration")
	}
}

func TestNewClientIsChecked(t *testing.T) {
	t.Parallel()
	e, pool := idle(t, ""), lazyPool(t)
	newError := func(pool *pgxpool.Pool, e *engine.Engine, workers int) error {
		_, err := reactorriver.NewClient(pool, e, workers)
		return err
	}
	for want, err := range map[string]error{
		"pool is nil":      newError(nil, e, 1),
		"engine is nil":    newError(pool, nil, 1),
		"maxWorkers 0":     newError(pool, e, 0),
		"maxWorkers 10001": newError(pool, e, 10_001),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if err := newError(pool, e, 2); err != nil {
		t.Errorf("a good client: %v", err)
	}
}

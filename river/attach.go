package river

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
)

const (
	defaultSeats   = 64
	defaultWorkers = 10
	queueCooldown  = 5 * time.Millisecond
)

// AttachOptions are what a process may ask for; give at most one value.
type AttachOptions struct {
	Seats int // runs driven at once by workers in this process. Default 64
}

// Attach makes the application's River client, which config is for, drive the
// runs of e: it adds our workers, and our queue with 10 workers and a fetch
// cooldown of 5 ms unless config names the queue itself. Call it before
// river.NewClient, also in a process that only inserts start jobs and has
// workers of its own; once for each config. A config without queues, that of a
// client that only inserts, becomes one of a client that works.
//
// The client must use the schema of the Dispatcher. Behind a pooler in
// transaction mode set config.PollOnly: NOTIFY does not arrive there, and jobs
// are found within config.FetchPollInterval. Set config.SoftStopTimeout, so
// that bodies may finish when the client stops; without it Stop waits for them
// for ever, and ending the context of Start cuts them off.
func Attach(config *river.Config, e *engine.Engine, opts ...AttachOptions) error {
	seats, err := seatsOf(config, e, opts)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if config.Workers == nil {
		config.Workers = river.NewWorkers()
	}
	if err := addWorkers(config.Workers, e); err != nil {
		return fmt.Errorf("attach: config.Workers has workers of an engine already, and it takes one: %w", err)
	}
	addQueue(config, e.Queue())
	for _, queue := range slices.Sorted(maps.Keys(config.Queues)) {
		e.Works(queue, seats) // any of them may be the Queue of StartOptions
	}
	return nil
}

// seatsOf checks what Attach was given.
func seatsOf(config *river.Config, e *engine.Engine, opts []AttachOptions) (int, error) {
	switch {
	case config == nil:
		return 0, errors.New("the river.Config is nil")
	case e == nil:
		return 0, errors.New("the engine is nil")
	case schemaOf(e) != config.Schema:
		return 0, fmt.Errorf("the config has River's Schema %q and the engine's Dispatcher %q: jobs of one are not seen by the other", config.Schema, schemaOf(e))
	case len(opts) > 1:
		return 0, fmt.Errorf("it was given %d AttachOptions; it takes one", len(opts))
	case len(opts) == 0 || opts[0].Seats == 0:
		return defaultSeats, nil
	case opts[0].Seats < 0:
		return 0, fmt.Errorf("it was given %d Seats; there must be some", opts[0].Seats)
	}
	return opts[0].Seats, nil
}

// schemaOf is where the engine's dispatcher has River's tables.
func schemaOf(e *engine.Engine) string {
	if d, ours := e.Dispatcher().(*Dispatcher); ours {
		return d.schema
	}
	return ""
}

func addWorkers(workers *river.Workers, e *engine.Engine) error {
	if err := river.AddWorkerSafely(workers, &driveWorker{engine: e}); err != nil {
		return err
	}
	return river.AddWorkerSafely(workers, &startWorker{engine: e})
}

func addQueue(config *river.Config, queue string) {
	if _, ok := config.Queues[queue]; ok {
		return
	}
	if config.Queues == nil {
		config.Queues = map[string]river.QueueConfig{}
	}
	config.Queues[queue] = ourQueue(defaultWorkers, config.FetchPollInterval)
}

// ourQueue is the configuration of a queue of wake-ups. River wants a cooldown
// that is no longer than the client's poll interval.
func ourQueue(workers int, poll time.Duration) river.QueueConfig {
	cooldown := queueCooldown
	if poll > 0 {
		cooldown = min(cooldown, poll)
	}
	return river.QueueConfig{MaxWorkers: workers, FetchCooldown: cooldown}
}

const (
	clientSoftStop = 10 * time.Second
	clientRescue   = 5 * time.Minute // of start jobs whose worker died
)

// NewClient returns a River client that works our queue only, with up to
// maxWorkers jobs at once, for an application without River: start it, and stop
// it before the engine is closed. Bodies get 10 s to finish when it stops, and
// it logs with the engine's logger.
//
// It may become the leader of River's schema and knows no jobs but ours: an
// application that has River uses Attach. So does one that needs another schema
// or, behind a pooler in transaction mode, PollOnly; the rest of the
// configuration is this:
//
//	config := &river.Config{PollOnly: true, SoftStopTimeout: 10 * time.Second}
//	err := reactorriver.Attach(config, e)
//	...
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
func NewClient(pool *pgxpool.Pool, e *engine.Engine, maxWorkers int) (*river.Client[pgx.Tx], error) {
	switch {
	case pool == nil:
		return nil, errors.New("new River client: the pool is nil")
	case e == nil:
		return nil, errors.New("new River client: the engine is nil")
	case maxWorkers < 1 || maxWorkers > river.QueueNumWorkersMax:
		return nil, fmt.Errorf("new River client: maxWorkers %d; it goes from 1 to %d", maxWorkers, river.QueueNumWorkersMax)
	}
	config := &river.Config{
		Logger:               e.Logger(),
		Queues:               map[string]river.QueueConfig{e.Queue(): ourQueue(maxWorkers, 0)},
		RescueStuckJobsAfter: clientRescue,
		Schema:               schemaOf(e),
		SoftStopTimeout:      clientSoftStop,
	}
	if err := Attach(config, e); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return nil, fmt.Errorf("new River client: %w", err)
	}
	return client, nil
}

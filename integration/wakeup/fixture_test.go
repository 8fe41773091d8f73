// Package wakeup has tests of wake-ups and start jobs with everything in place:
// engine, store and River, in one process.
package wakeup

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/integration"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

func TestMain(m *testing.M) {
	pgtest.Fallback = integration.StartContainer
	pgtest.Main(m)
}

const (
	patience = 20 * time.Second
	noPoll   = 10 * time.Minute // a poll interval that no test lives to see
)

// A process is an engine with its River client, as an application has them.
type process struct {
	pool       *pgxpool.Pool
	dispatcher *reactorriver.Dispatcher
	engine     *engine.Engine
	client     *river.Client[pgx.Tx]
}

// newProcess is a process that has not begun to work. Its leases are short and
// it does not sweep, unless change says otherwise.
func newProcess(t *testing.T, pool *pgxpool.Pool, client *river.Config, reactors []engine.Definition, change ...func(*engine.Config)) *process {
	t.Helper()
	return newProcessOf(t, pool, client, reactors, reactorriver.AttachOptions{}, change...)
}

// newProcessOf is newProcess with options of Attach.
func newProcessOf(t *testing.T, pool *pgxpool.Pool, client *river.Config, reactors []engine.Definition, attach reactorriver.AttachOptions, change ...func(*engine.Config)) *process {
	t.Helper()
	p := &process{pool: pool, dispatcher: reactorriver.NewDispatcher(pool)}
	config := engine.Config{
		Store: pgstore.New(pool), Dispatcher: p.dispatcher, Logger: slog.New(slog.DiscardHandler),
		Lease: time.Second, Heartbeat: 250 * time.Millisecond, Sweep: 100 * time.Millisecond, NoSweep: true,
	}
	for _, c := range change {
		c(&config)
	}
	var err error
	if p.engine, err = engine.New(config, reactors...); err != nil {
		t.Fatal(err)
	}
	client.TestOnly, client.Logger = true, config.Logger
	if client.SoftStopTimeout == 0 {
		client.SoftStopTimeout = 500 * time.Millisecond
	}
	if err := reactorriver.Attach(client, p.engine, attach); err != nil {
		t.Fatal(err)
	}
	if p.client, err = river.NewClient(riverpgxv5.New(pool), client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t) })
	return p
}

// begin starts the client.
func (p *process) begin(t *testing.T) *process {
	t.Helper()
	if err := p.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop ends the process as a deploy does. It may be called twice.
func (p *process) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.client.Stop(ctx); err != nil {
		t.Errorf("stop the client: %v", err)
	}
	if err := p.engine.Close(ctx); err != nil {
		t.Errorf("close the engine: %v", err)
	}
}

// polling is the configuration of a client that needs no notice.
func polling() *river.Config {
	return &river.Config{FetchCooldown: 5 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}
}

// listening is the configuration of a client that nothing but notices wakes.
func listening() *river.Config {
	return &river.Config{FetchPollInterval: noPoll}
}

// sweeping makes an engine sweep.
func sweeping(c *engine.Config) { c.NoSweep = false }

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal("does not happen: " + what)
		}
	}
}

// wait is the result of a run that must end in time.
func wait[Out any](t *testing.T, h *engine.Handle[Out]) (engine.Result[Out], error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := h.Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("run %s does not end", h.ID)
	}
	return res, err
}

// awaitJob waits until a job is in a state, and returns its row.
func (p *process) awaitJob(t *testing.T, id int64, state rivertype.JobState) (job *rivertype.JobRow) {
	t.Helper()
	eventually(t, "the job is "+string(state), func() bool {
		var err error
		if job, err = p.client.JobGet(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return job.State == state
	})
	return job
}

// insert adds a job through the application's client.
func (p *process) insert(t *testing.T, args river.JobArgs) int64 {
	t.Helper()
	res, err := p.client.Insert(t.Context(), args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Job.ID
}

// one is the value of a query that has one.
func one[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (value T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// An order is the input of the reactors of these tests.
type order struct {
	Number int
	Want   string // what the step does: "" works, fail, halt, retry
}

// Validate makes order a contract.
func (o order) Validate() error {
	wrong := engine.FieldErrors{}
	if o.Number < 0 {
		wrong["Number"] = "must not be below 0"
	}
	return wrong.Err()
}

// sell is a reactor of one step.
var sell = engine.MustDefine("sell", func(b *engine.Builder, in engine.Ref[order]) engine.Ref[int] {
	return engine.Step(b, "book", in, func(ctx context.Context, o order) (int, error) {
		switch o.Want {
		case "fail":
			return 0, errSoldOut
		case "halt":
			return 0, engine.Halt("nothing to sell")
		case "retry":
			if engine.RunFrom(ctx).Attempt == 1 {
				return 0, errBusy
			}
		}
		return o.Number * 2, nil
	}).Retry(2, engine.Fixed(20*time.Millisecond))
})

var (
	errSoldOut = engine.Permanent(errors.New("sold out"))
	errBusy    = errors.New("try again")
)

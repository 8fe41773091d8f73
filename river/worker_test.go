package river

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

const patience = 20 * time.Second

// fake is an engine that does what a test says.
type fake struct {
	drive func(ctx context.Context, w engine.Wake) error
	start func(ctx context.Context, reactor string, input json.RawMessage, o engine.StartOptions) (string, error)
	log   *slog.Logger
}

func (f *fake) Drive(ctx context.Context, w engine.Wake) error { return f.drive(ctx, w) }

func (f *fake) StartJSON(ctx context.Context, reactor string, input json.RawMessage, o engine.StartOptions) (string, error) {
	return f.start(ctx, reactor, input, o)
}

func (f *fake) Logger() *slog.Logger {
	if f.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.log
}

// A bench is a started client with our workers on a fake engine.
type bench struct {
	*river.Client[pgx.Tx]
	pool *pgxpool.Pool
}

func newBench(t *testing.T, f *fake) bench {
	t.Helper()
	pool := pgtest.Pool(t)
	workers := river.NewWorkers()
	river.AddWorker(workers, &driveWorker{engine: f})
	river.AddWorker(workers, &startWorker{engine: f})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{Queue: {MaxWorkers: 4}},
		FetchCooldown: 5 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		SoftStopTimeout: 50 * time.Millisecond, RescueStuckJobsAfter: time.Hour,
		Logger: slog.New(slog.DiscardHandler), TestOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := bench{client, pool}
	t.Cleanup(func() { b.stop(t) })
	return b
}

func (b bench) begin(t *testing.T) {
	t.Helper()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b bench) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// add inserts a job.
func (b bench) add(t *testing.T, args river.JobArgs) int64 {
	t.Helper()
	res, err := b.Insert(t.Context(), args, &river.InsertOpts{Queue: Queue})
	if err != nil {
		t.Fatal(err)
	}
	return res.Job.ID
}

// await waits until a job is as check wants it.
func (b bench) await(t *testing.T, id int64, check func(job *rivertype.JobRow) bool) *rivertype.JobRow {
	t.Helper()
	deadline := time.After(patience)
	for {
		job, err := b.JobGet(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if check(job) {
			return job
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the job stays %s, attempt %d, metadata %s", job.State, job.Attempt, job.Metadata)
		}
	}
}

// is is a check for a state.
func is(state rivertype.JobState) func(*rivertype.JobRow) bool {
	return func(job *rivertype.JobRow) bool { return job.State == state }
}

// waiting is a check for a job that was tried and waits for its next time.
func waiting(job *rivertype.JobRow) bool {
	return job.State == rivertype.JobStateAvailable && len(job.AttemptedBy) > 0
}

// now makes a waiting job fetchable.
func (b bench) now(t *testing.T, id int64) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update river_job set scheduled_at = now() where id = $1`, id); err != nil {
		t.Fatal(err)
	}
}

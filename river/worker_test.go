package river

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// spec: K-851
func TestDriveWorkerHandsTheWakeOn(t *testing.T) {
	t.Parallel()
	got := make(chan engine.Wake, 1)
	b := newBench(t, &fake{drive: func(_ context.Context, w engine.Wake) error { got <- w; return nil }})
	b.begin(t)
	res, err := b.Insert(t.Context(), driveArgs{Runs: []string{"r1", "r2"}}, &river.InsertOpts{Queue: Queue, Priority: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Wake{Runs: []string{"r1", "r2"}, Queue: Queue, Priority: 3}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	job := b.await(t, res.Job.ID, is(rivertype.JobStateCompleted))
	if len(job.Errors) != 0 {
		t.Errorf("errors %+v", job.Errors)
	}
	b.await(t, b.add(t, driveArgs{}), is(rivertype.JobStateCompleted)) // of no runs: nothing is asked of the engine
}

func TestDriveWorkerTriesTroubleAgainSoon(t *testing.T) {
	t.Parallel()
	var once sync.Once
	b := newBench(t, &fake{drive: func(context.Context, engine.Wake) (err error) {
		once.Do(func() { err = errors.New("claim runs: the database is away") })
		return err
	}})
	b.begin(t)
	job := b.await(t, b.add(t, driveArgs{Runs: []string{"r1"}}), is(rivertype.JobStateCompleted))
	if len(job.Errors) != 1 || job.Errors[0].Error != "claim runs: the database is away" || job.Attempt != 2 {
		t.Errorf("attempt %d, errors %+v", job.Attempt, job.Errors)
	}
}

func TestDriveWorkerPauses(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	for attempt := range 6 {
		begin := time.Now()
		next := (&driveWorker{}).NextRetry(&river.Job[driveArgs]{JobRow: &rivertype.JobRow{Attempt: attempt}})
		got = append(got, next.Sub(begin).Truncate(time.Second))
	}
	want := []time.Duration{1e9, 1e9, 2e9, 4e9, 5e9, 5e9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSoftStopSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 2)
	untilStop := func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		return fmt.Errorf("not in time: %s", ctx.Err()) // no %w: as an error of a driver may be
	}
	b := newBench(t, &fake{
		drive: func(ctx context.Context, _ engine.Wake) error { return untilStop(ctx) },
		start: func(ctx context.Context, _ string, _ json.RawMessage, _ engine.StartOptions) (string, error) {
			return "", untilStop(ctx)
		},
	})
	b.begin(t)
	ids := []int64{b.add(t, driveArgs{Runs: []string{"r1"}}), b.add(t, StartArgs{Reactor: "r"})}
	<-begun
	<-begun
	b.stop(t)
	for _, id := range ids {
		job := b.await(t, id, is(rivertype.JobStateAvailable))
		if job.Attempt != 0 || len(job.Errors) != 0 || job.ScheduledAt.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: attempt %d, errors %+v, scheduled at %s", job.Kind, job.Attempt, job.Errors, job.ScheduledAt)
		}
	}
}

// An engine that is closed before its River client leaves the jobs to others.
func TestClosedEngineSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	closed := fmt.Errorf("engine is closed: %w", engine.ErrShutdown)
	b := newBench(t, &fake{
		drive: func(context.Context, engine.Wake) error { return closed },
		start: func(context.Context, string, json.RawMessage, engine.StartOptions) (string, error) { return "", closed },
	})
	b.begin(t)
	for _, id := range []int64{b.add(t, driveArgs{Runs: []string{"r1"}}), b.add(t, StartArgs{Reactor: "r"})} {
		job := b.await(t, id, waiting)
		if job.Attempt != 0 || len(job.Errors) != 0 {
			t.Errorf("%s: attempt %d, errors %+v", job.Kind, job.Attempt, job.Errors)
		}
	}
}

// River's rescuer takes the row of a dead worker out of state running, and
// leaves one alone that may be alive.
func TestJobsOfDeadWorkersAreRescued(t *testing.T) {
	t.Parallel()
	b := newBench(t, &fake{
		drive: func(context.Context, engine.Wake) error { return nil },
		start: func(context.Context, string, json.RawMessage, engine.StartOptions) (string, error) { return "run", nil },
	})
	died := func(args river.JobArgs, ago string) int64 {
		id := b.add(t, args)
		_, err := b.pool.Exec(t.Context(), `
update river_job set state = 'running', attempt = 1, attempted_by = '{dead}', attempted_at = now() - $2::interval where id = $1`, id, ago)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	old := died(driveArgs{Runs: []string{"r1"}}, "25 hours")
	start := died(StartArgs{Reactor: "r"}, "61 minutes")
	young := died(driveArgs{Runs: []string{"r2"}}, "23 hours")
	b.begin(t)
	b.await(t, old, is(rivertype.JobStateCompleted))
	b.await(t, start, is(rivertype.JobStateCompleted))
	b.await(t, young, is(rivertype.JobStateRunning))
}

// spec: C-1140
func TestStartWorkerStartsUnderTheJobsID(t *testing.T) {
	t.Parallel()
	type call struct {
		Reactor, Input string
		Options        engine.StartOptions
	}
	calls := make(chan call, 1)
	b := newBench(t, &fake{start: func(_ context.Context, reactor string, input json.RawMessage, o engine.StartOptions) (string, error) {
		calls <- call{reactor, string(input), o}
		return "run-1", nil
	}})
	b.begin(t)
	id := b.add(t, StartArgs{Reactor: "ship", Input: []byte(`{"n":1}`)})
	want := call{"ship", `{"n": 1}`, engine.StartOptions{Key: fmt.Sprintf("river:%d", id)}}
	if diff := cmp.Diff(want, <-calls); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	job := b.await(t, id, is(rivertype.JobStateCompleted))
	if got := string(job.Output()); got != `{"run": "run-1"}` && got != `{"run":"run-1"}` {
		t.Errorf("output %s", got)
	}
	if _, err := b.JobRetry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, <-calls); diff != "" {
		t.Errorf("worked again: -want +got\n%s", diff)
	}
	b.add(t, StartArgs{Reactor: "ship", Options: engine.StartOptions{Key: "mine"}})
	want = call{"ship", "null", engine.StartOptions{Key: "mine"}}
	if diff := cmp.Diff(want, <-calls); diff != "" {
		t.Errorf("with a key: -want +got\n%s", diff)
	}
}

// spec: C-1140
func TestStartWorkerTriesAgainAndAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var known bool
	logged := &strings.Builder{}
	b := newBench(t, &fake{
		log: slog.New(slog.NewTextHandler(logged, nil)),
		start: func(context.Context, string, json.RawMessage, engine.StartOptions) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if !known {
				return "", fmt.Errorf("reactor ship\x00: %w", engine.ErrNotRegistered)
			}
			return "run-1", nil
		},
	})
	b.begin(t)
	id := b.add(t, StartArgs{Reactor: "ship"})
	for tries := 1; tries <= 3; tries++ {
		job := b.await(t, id, func(job *rivertype.JobRow) bool { return waiting(job) && len(job.AttemptedBy) == tries })
		if job.Attempt != 0 || len(job.Errors) != 0 || !strings.Contains(string(job.Metadata), "reactor not registered") {
			t.Errorf("try %d: attempt %d, errors %+v, metadata %s", tries, job.Attempt, job.Errors, job.Metadata)
		}
		if pause := job.ScheduledAt.Sub(*job.AttemptedAt); pause < 4*time.Second || pause > 7*time.Second {
			t.Errorf("try %d: the next one is %s later, want 5 s", tries, pause)
		}
		if tries == 3 {
			mu.Lock()
			known = true
			mu.Unlock()
		}
		b.now(t, id)
	}
	b.await(t, id, is(rivertype.JobStateCompleted))
	b.stop(t)
	if n := strings.Count(logged.String(), "a start job has to wait"); n != 1 {
		t.Errorf("logged %d times in a minute:\n%s", n, logged)
	}
}

// spec: C-1140
func TestStartWorkerGivesUpWhatIsHopeless(t *testing.T) {
	t.Parallel()
	for name, problem := range map[string]error{
		"key":   fmt.Errorf("reactor ship: key k: %w", engine.ErrKeyConflict),
		"input": fmt.Errorf("reactor ship: input: %w", &engine.EncodingError{Reason: "input.a\x00b is over 1 MiB"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &fake{start: func(context.Context, string, json.RawMessage, engine.StartOptions) (string, error) {
				return "", problem
			}})
			b.begin(t)
			job := b.await(t, b.add(t, StartArgs{Reactor: "ship"}), is(rivertype.JobStateCancelled))
			if len(job.Errors) != 1 || !strings.Contains(job.Errors[0].Error, kept(problem)) {
				t.Errorf("errors %+v", job.Errors)
			}
		})
	}
}

func TestStartWorkerLogsEachReactorOnceAMinute(t *testing.T) {
	t.Parallel()
	w := &startWorker{}
	for i := range 5000 {
		name := fmt.Sprint("reactor ", i)
		if !w.mayLog(name) || w.mayLog(name) {
			t.Fatalf("%s is not logged exactly once", name)
		}
	}
	if len(w.logged) > 1001 {
		t.Errorf("%d names are kept", len(w.logged))
	}
}

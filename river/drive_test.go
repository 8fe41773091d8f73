package river

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
)

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

package river

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/pgreactor/reactor/engine"
)

// driveAttempts is how often River tries a wake-up. Its attempts are for
// trouble of the engine, and a job that is given up is harmless: the sweep
// queues another one.
const driveAttempts = 1000

// driveArgs are a wake-up: ids and nothing else.
type driveArgs struct {
	Runs []string `json:"runs"`
}

// Kind is in the rows of jobs: it never changes.
func (driveArgs) Kind() string { return "reactor_drive" }

// A driver is the part of the engine that wake-ups need.
type driver interface {
	Drive(ctx context.Context, w engine.Wake) error
}

// driveWorker works wake-ups. What becomes of the runs is no outcome of the job:
// it is done once each has ended, parked, been handed back or been passed over.
type driveWorker struct {
	river.WorkerDefaults[driveArgs]
	engine driver
}

// Work claims the runs and drives them.
func (w *driveWorker) Work(ctx context.Context, job *river.Job[driveArgs]) error {
	if len(job.Args.Runs) == 0 {
		return nil
	}
	err := w.engine.Drive(ctx, engine.Wake{Runs: job.Args.Runs, Queue: job.Queue, Priority: job.Priority})
	if err != nil {
		return stopped(ctx, err)
	}
	return nil
}

// forgotten is the age from which a job counts as one of a dead worker.
const forgotten = 24 * time.Hour

// Timeout is none, because bodies may run for hours. River's rescuer asks too,
// and leaves a job without a timeout in state running for ever; so that the jobs
// of dead workers go, one that began long ago is said to have timed out. Should
// it be alive after all, its second delivery passes over the runs it drives.
func (w *driveWorker) Timeout(job *river.Job[driveArgs]) time.Duration {
	if job.AttemptedAt != nil && time.Since(*job.AttemptedAt) >= forgotten {
		return forgotten
	}
	return -1
}

// NextRetry is 1, 2, 4 and then always 5 s after the failed attempt: up to 5 s
// River keeps the job available and needs no scheduler for it.
func (w *driveWorker) NextRetry(job *river.Job[driveArgs]) time.Time {
	pause := time.Second << min(max(job.Attempt-1, 0), 3)
	return time.Now().Add(min(pause, 5*time.Second))
}

// closedPause is how long a job waits that met an engine which is closed while
// its River client goes on: another process may take it then.
const closedPause = time.Second

// stopped makes an end by shutdown one that spends no attempt of the job. River
// knows it by context.Canceled, and only while its client stops.
func stopped(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", context.Canceled, err)
	case errors.Is(err, engine.ErrShutdown):
		return river.JobSnooze(closedPause)
	}
	return err
}

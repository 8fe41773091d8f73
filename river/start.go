package river

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/pgreactor/reactor/engine"
)

const (
	startTimeout = time.Minute     // of one try: it only stores a run
	startPause   = 5 * time.Second // between two tries
	logPause     = time.Minute     // between two lines about one reactor
)

// A starter is the part of the engine that start jobs need.
type starter interface {
	StartJSON(ctx context.Context, reactor string, input json.RawMessage, o engine.StartOptions) (runID string, err error)
	Logger() *slog.Logger
}

// startWorker works start jobs.
type startWorker struct {
	river.WorkerDefaults[StartArgs]
	engine starter

	mu     sync.Mutex
	logged map[string]time.Time // by reactor
}

// Work stores the run, whose id becomes the output of the job. What another try
// can help is tried again by a snooze: it spends no attempt, so the job is never
// discarded, and it adds no error to the row.
func (w *startWorker) Work(ctx context.Context, job *river.Job[StartArgs]) error {
	options := job.Args.Options
	options.Key = cmp.Or(options.Key, fmt.Sprintf("river:%d", job.ID))
	run, err := w.engine.StartJSON(ctx, job.Args.Reactor, job.Args.Input, options)
	switch {
	case err == nil:
		return river.RecordOutput(ctx, startOutput{Run: run})
	case hopeless(err):
		return river.JobCancel(errors.New(kept(err)))
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, engine.ErrShutdown):
		return stopped(ctx, err)
	}
	return w.later(ctx, job, err)
}

// startOutput is what a start job leaves: see rivertype.JobRow.Output.
type startOutput struct {
	Run string `json:"run"`
}

// hopeless tells the errors that no other try can help.
func hopeless(err error) bool {
	if _, ok := errors.AsType[*engine.EncodingError](err); ok {
		return true
	}
	return errors.Is(err, engine.ErrKeyConflict) || errors.Is(err, engine.ErrUnstorable)
}

// problemKey is the metadata key under which a start job keeps the reason of its
// last try.
const problemKey = "reactor_problem"

// later has the job tried again, and says why in its metadata and in the log.
func (w *startWorker) later(ctx context.Context, job *river.Job[StartArgs], problem error) error {
	if err := river.MetadataSet(ctx, problemKey, kept(problem)); err != nil {
		return err
	}
	if w.mayLog(job.Args.Reactor) {
		w.engine.Logger().Warn("a start job has to wait; it is tried again every 5 s",
			"job", job.ID, "reactor", job.Args.Reactor, "error", problem)
	}
	return river.JobSnooze(startPause)
}

// kept is the text of an error as River can store it; with U+0000 the job would
// stay in state running.
func kept(err error) string { return strings.ReplaceAll(err.Error(), "\x00", "\uFFFD") }

// mayLog is true once a minute for each reactor.
func (w *startWorker) mayLog(reactor string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.logged[reactor]) < logPause {
		return false
	}
	if w.logged == nil || len(w.logged) > 1000 { // names come from jobs: there may be any number
		w.logged = map[string]time.Time{}
	}
	w.logged[reactor] = time.Now()
	return true
}

// Timeout is finite, so that River's rescuer takes up a job whose worker died.
func (w *startWorker) Timeout(*river.Job[StartArgs]) time.Duration { return startTimeout }

// NextRetry is for what is no error of the start: a panic, or a dead worker.
func (w *startWorker) NextRetry(*river.Job[StartArgs]) time.Time {
	return time.Now().Add(startPause)
}

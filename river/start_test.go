package river

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
)

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

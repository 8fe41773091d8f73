package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

// crashLoop starts workers, one after another, until the run has ended.
func crashLoop(t *testing.T, b *bench, run string) (workers int) {
	t.Helper()
	for workers = 1; workers <= 6; workers++ {
		w := startWorker(t, "w", b.url)
		ended := false
		eventually(t, "the run ends or the worker dies", func() bool {
			select {
			case <-w.ended:
				return true
			default:
			}
			v, err := b.eng.Get(t.Context(), run)
			ended = err == nil && v.Status.Final()
			return ended
		})
		if ended {
			return workers
		}
	}
	t.Fatalf("the run has not ended after %d workers", workers)
	return 0
}

// A body that kills its process is called until the limit of recoveries; then
// it counts as failed and is compensated.
// spec: C-985, C-984, K-904, K-367
func TestBodyThatKillsItsProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.start(t, job{Crash: "body:b"})
	if n := crashLoop(t, b, h.ID); n != 4 {
		t.Errorf("%d workers, want the first one, two take-overs and the one that gives up", n)
	}
	_, err := h.Wait(t.Context())
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "b" || failure.Code != "recovery" || !failure.Permanent || !strings.Contains(err.Error(), "lost 3 times") {
		t.Fatal(err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do b#1, compensate b#1, undo a#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
	if n := keysOf(t, b.pool, h.ID, "b", "do"); n != 1 {
		t.Errorf("b was called with %d idempotency keys", n)
	}
	if trace := strings.Join(b.view(t, h.ID).Trace, ", "); trace != "run a, recovered b, recovered b, recovered b, run b, compensate b, undo a" {
		t.Errorf("trace %s", trace)
	}
}

// The same of a hook makes it a rollback failure, and the rollback goes on.
// spec: C-986, C-301
func TestHookThatKillsItsProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.start(t, job{Fail: "c", Crash: "undo:b"})
	crashLoop(t, b, h.ID)
	_, err := h.Wait(t.Context())
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "c" || len(failure.Rollback) != 1 || failure.Rollback[0].Reason != "crashed" || failure.Rollback[0].Node != "b" {
		t.Fatal(err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do c#1, compensate c#1, undo b#1, undo b#1, undo b#1, undo a#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
}

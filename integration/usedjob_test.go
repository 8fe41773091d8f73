package integration

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// The queue says that a job is used up, or has lost it, and the worker dies: the
// run goes on where it was, and nothing of it counts as failed.
// spec: C-208, C-260, C-987, K-245
func TestJobIsUsedUp(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"discarded": `update river_job set state = 'discarded', finalized_at = now(), errors = array['{"error": "no"}'::jsonb] where state = 'running'`,
		"cancelled": `update river_job set state = 'cancelled', finalized_at = now() where state = 'running'`,
		"completed": `update river_job set state = 'completed', finalized_at = now() where state = 'running'`,
		"deleted":   `delete from river_job where state = 'running'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first := startWorker(t, "w1", b.url)
			h := b.start(t, job{Block: "body:b"})
			awaitBarrier(t, b.pool, "body:b", 1)
			change(t, b.pool, sql)
			first.kill()
			startWorker(t, "w2", b.url)
			awaitBarrier(t, b.pool, "body:b", 2)
			openBarrier(t, b.pool, "body:b")
			if res, err := h.Wait(t.Context()); err != nil || res.Status != engine.Completed {
				t.Fatalf("%+v, %v", res, err)
			}
			if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do c#1"; got != want {
				t.Errorf("effects %s\nwant    %s", got, want)
			}
		})
	}
}

// The same while the worker lives: it goes on with what it owns.
// spec: C-208, K-245, K-248
func TestJobIsUsedUpUnderALivingWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	startWorker(t, "w1", b.url)
	startWorker(t, "w2", b.url)
	h := b.start(t, job{Block: "body:b"})
	awaitBarrier(t, b.pool, "body:b", 1)
	id := one[int64](t, b.pool, `select id from river_job where state = 'running'`)
	before := stored(t, b.pool, h.ID)
	rescue(t, b.pool, id) // River takes the worker for dead and starts the job once more
	eventually(t, "the second delivery is done with", func() bool {
		return one[bool](t, b.pool, `select coalesce((select attempt = 2 and state = 'completed' from river_job where id = $1), true)`, id)
	})
	awaitSweeps(t, b.pool, 10)
	if after := stored(t, b.pool, h.ID); after != before {
		t.Errorf("the run changed:\n%s\n%s", before, after)
	}
	openBarrier(t, b.pool, "body:b")
	if res, err := h.Wait(t.Context()); err != nil || res.Status != engine.Completed {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do c#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
}

// finals are ways to each final status that a run of plain steps can have.
var finals = map[engine.Status]func(ctx context.Context, stop func()) error{
	engine.Completed: func(context.Context, func()) error { return nil },
	engine.Halted:    func(context.Context, func()) error { return engine.Halt("enough") },
	engine.Failed:    func(context.Context, func()) error { return errScripted },
	engine.Aborted:   func(ctx context.Context, stop func()) error { stop(); <-ctx.Done(); return ctx.Err() },
}

// A job for a run that is over is delivered again: nothing is called, nothing
// changes, and the log says so quietly. What is stored and shown of the status
// is the same word.
// spec: C-212, C-184..C-186, C-188, C-191
// spec: K-243, K-852
func TestJobOfAFinalRunIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	for status, end := range finals {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			pool, log := pgtest.Pool(t), &logs{}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			calls := 0
			r := engine.MustDefine("over", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { calls++; return n, nil }).
					Undo(func(context.Context, int, int) error { calls++; return nil })
				return engine.Step(b, "b", a, func(ctx context.Context, n int) (int, error) { calls++; return n, end(ctx, stop) }).
					Compensate(func(context.Context, int, error) error { calls++; return nil })
			})
			eng, _ := open(t, pool, engine.Config{Logger: log.logger(slog.LevelDebug)}, r)
			res, _ := r.Run(ctx, eng, 1)
			before, called := stored(t, pool, res.RunID), calls
			insertWakeUp(t, pool, res.RunID)
			if diff := cmp.Diff(before, stored(t, pool, res.RunID)); diff != "" || calls != called {
				t.Errorf("%d calls more, changed (-before +after):\n%s", calls-called, diff)
			}
			if line := lineWith(log, "event=reactor.wake.dropped", "run="+res.RunID); !strings.Contains(line, "level=DEBUG") || !strings.Contains(line, `reason="already final"`) {
				t.Errorf("log:\n%s", log)
			}
			v, err := eng.Get(t.Context(), res.RunID)
			if err != nil || v.Status != status || one[string](t, pool, `select status from reactor.runs where id = $1`, res.RunID) != string(status) {
				t.Errorf("shown as %s, %v", v.Status, err)
			}
			page, err := eng.List(t.Context(), engine.Query{Status: []engine.Status{status}})
			if err != nil || len(page.Runs) != 1 {
				t.Errorf("%d runs are listed as %s, %v", len(page.Runs), status, err)
			}
		})
	}
}

// lineWith is the first line of a log that has all of the parts.
func lineWith(l *logs, parts ...string) string {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return line
		}
	}
	return ""
}

// A worker leaves a run of a reactor that it does not know as it is, says so
// once, and asks rarely; one that knows it takes it.
// spec: K-244, C-209, K-1059
func TestWorkerThatDoesNotKnowAReactor(t *testing.T) {
	t.Parallel()
	pool, log := pgtest.Pool(t), &logs{}
	known, unknown := newHeld(), newHeld()
	other := engine.MustDefine("stranger", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "only", in, func(context.Context, int) (int, error) { return 0, errors.New("a stranger ran") })
	})
	open(t, pool, engine.Config{Logger: log.logger(slog.LevelInfo)}, other)
	eng := starter(t, pool, unknown.r)
	h, err := unknown.r.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	row := `select version || ' ' || status || coalesce(owner::text, '') || coalesce(started_at::text, '') || coalesce(blocked, '') || due from reactor.runs where id = $1`
	before := one[string](t, pool, row, h.ID)
	eventually(t, "it was delivered three times", func() bool {
		return one[int](t, pool, `select wakes from reactor.runs where id = $1`, h.ID) >= 3
	})
	if after := one[string](t, pool, row, h.ID); after != before {
		t.Errorf("the run changed:\n%s\n%s", before, after)
	}
	if n := strings.Count(log.String(), "is not registered here"); n != 1 {
		t.Errorf("%d lines about the unknown reactor: %s", n, log.String())
	}
	if n := one[int](t, pool, `select count(*) from river_job where errors is not null or attempt > 1`); n != 0 {
		t.Errorf("%d jobs with errors or a second attempt", n)
	}
	if why, err := eng.Why(t.Context(), h.ID); err != nil || !strings.Contains(why, "reactor held v1 is not registered on any worker of queue \"reactor\"") {
		t.Errorf("why: %s, %v", why, err)
	}
	close(known.goOn)
	open(t, pool, engine.Config{}, known.r)
	if res, err := h.Wait(t.Context()); err != nil || res.Value != 4 {
		t.Errorf("%+v, %v", res, err)
	}
}

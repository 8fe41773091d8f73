package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// spec: C-641, C-809, C-810, C-1010
func TestNewNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	second := time.Second
	_, err := engine.New(engine.Config{
		Dispatcher: &jobs{err: errors.New(`river: Options.Schema "A-B": must be lower case`)},
		Middleware: []func(engine.Next) engine.Next{nil},
		Limits:     engine.Limits{Value: -1, Key: -2, ErrorText: -3},
		Queue:      "To Do",
		Lease:      3 * second, Sweep: -second, SweepLimit: -1, Recoveries: -2,
		HookTimeout: -second, BackoffCap: -second,
	}, counter(1), counter(2), counter(1), nil)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		"engine: config has no Store (see package pgstore)",
		`engine: Queue "To Do" must match ^[a-z0-9]+([_-]?[a-z0-9]+)*$`,
		"engine: Sweep -1s must be above 0",
		"engine: HookTimeout -1s must be above 0",
		"engine: BackoffCap -1s must be above 0",
		"engine: Lease 3s must be at least three times Heartbeat 2s",
		"engine: SweepLimit -1 must be above 0",
		"engine: Limits.Value -1 must be above 0",
		"engine: Limits.Key -2 must be above 0",
		"engine: Limits.ErrorText -3 must be above 0",
		"engine: Recoveries -2 must be above 0, or engine.Unlimited",
		"engine: Middleware[0] is nil",
		`engine: river: Options.Schema "A-B": must be lower case`,
		"engine: reactor counter v1 is registered twice (find_test.go:N and find_test.go:N)",
		"engine: a reactor is nil",
	}
	text := regexp.MustCompile(`go:\d+`).ReplaceAllString(err.Error(), "go:N")
	if diff := cmp.Diff(want, strings.Split(text, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	problems, ok := errors.AsType[*engine.DefinitionError](err)
	if !ok || len(problems.Problems) != len(want) || problems.Reactor != "" {
		t.Errorf("%#v", err)
	}
	for _, c := range []engine.Config{{}, {Lease: -second, Heartbeat: -second}} {
		if _, err := engine.New(c); err == nil || !strings.HasPrefix(err.Error(), want[0]) || strings.Contains(err.Error(), "three times") {
			t.Errorf("%v", err)
		}
	}
}

// A bare store fails every use: it is for what must work without a database.
type bareStore struct{ engine.Store }

func (bareStore) Attach(engine.Dispatcher) error { return nil }

// spec: C-76
func TestDefinitionsNeedNoDatabase(t *testing.T) {
	t.Parallel()
	r, err := engine.Define("checked", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	if err != nil || r.Graph() == "" {
		t.Fatal(err)
	}
	if _, err := engine.New(engine.Config{Store: bareStore{}, Dispatcher: &jobs{}}, r); err != nil {
		t.Error(err)
	}
}

// spec: C-658, C-674, K-1
func TestZeroConfigWorks(t *testing.T) {
	t.Parallel()
	r := counter(1)
	e, err := engine.New(engine.Config{Store: engine.NewMemoryStore()}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	if res, err := r.Run(t.Context(), e, 1); err != nil || res.Value != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := r.Start(t.Context(), e, 1); err == nil || err.Error() != "reactor counter: Start needs a Dispatcher in Config (see package river); Run does not" {
		t.Errorf("%v", err)
	}
	if e.Queue() != "reactor" || e.Logger() != slog.Default() {
		t.Errorf("queue %s, logger %v", e.Queue(), e.Logger())
	}
}

// A watch notes what an engine asks its store for.
type watch struct {
	engine.Store
	mu     sync.Mutex
	leases []time.Duration
	beats  []time.Time
	passes []engine.SweepPass
	passed []time.Time
}

func (w *watch) Register(ctx context.Context, p engine.Process, lease time.Duration) error {
	w.mu.Lock()
	w.leases = append(w.leases, lease)
	w.mu.Unlock()
	return w.Store.Register(ctx, p, lease)
}

func (w *watch) Beat(ctx context.Context, process string, lease time.Duration) (bool, error) {
	w.mu.Lock()
	w.leases, w.beats = append(w.leases, lease), append(w.beats, time.Now())
	w.mu.Unlock()
	return w.Store.Beat(ctx, process, lease)
}

func (w *watch) Sweep(ctx context.Context, p engine.SweepPass) (engine.SweepResult, error) {
	w.mu.Lock()
	w.passes, w.passed = append(w.passes, p), append(w.passed, time.Now())
	w.mu.Unlock()
	return w.Store.Sweep(ctx, p)
}

// shortest is the shortest pause between successive times.
func shortest(times []time.Time) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range len(times) - 1 {
		least = min(least, times[i+1].Sub(times[i]))
	}
	return least
}

func (w *watch) seen() (beats, passes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.beats), len(w.passes)
}

// spec: C-652, C-654..C-656, C-1015, K-4
func TestLeaseHeartbeatAndSweep(t *testing.T) {
	t.Parallel()
	r := counter(1)
	for _, noSweep := range []bool{false, true} {
		w := &watch{Store: engine.NewMemoryStore()}
		e, err := engine.New(engine.Config{
			Store: w, Dispatcher: &jobs{}, Logger: slog.New(slog.DiscardHandler), NoSweep: noSweep,
			Lease: 3 * time.Second, Heartbeat: 10 * time.Millisecond, Sweep: 15 * time.Millisecond, SweepLimit: 77,
		}, r)
		if err != nil {
			t.Fatal(err)
		}
		if beats, passes := w.seen(); beats+passes != 0 {
			t.Error("an engine that nobody uses is at work")
		}
		if _, err := r.Run(t.Context(), e, 1); err != nil {
			t.Fatal(err)
		}
		until(t, "three beats and passes", func() bool { beats, passes := w.seen(); return beats >= 3 && (noSweep || passes >= 3) })
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		for _, lease := range w.leases {
			if lease != 3*time.Second {
				t.Errorf("a lease of %s", lease)
			}
		}
		if gap := shortest(w.beats); gap < 10*time.Millisecond || gap >= 2*time.Second {
			t.Errorf("beats %s apart", gap)
		}
		if gap := shortest(w.passed); !noSweep && (gap < 15*time.Millisecond || gap >= time.Second) {
			t.Errorf("passes %s apart", gap)
		}
		for _, p := range w.passes {
			if noSweep || p != (engine.SweepPass{Interval: 15 * time.Millisecond, Limit: 77}) {
				t.Errorf("a pass %+v", p)
			}
		}
		w.mu.Unlock()
	}
}

// spec: C-1017, C-1024, C-657
func TestLimitsOfHooksAndPauses(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	rec := &recorder{}
	config := engine.Config{
		HookTimeout: 15 * time.Millisecond, BackoffCap: 2 * time.Millisecond,
		Middleware: []func(engine.Next) engine.Next{rec.middleware}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	}
	r := engine.MustDefine("bounded", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(d, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
			Undo(func(ctx context.Context, _, _ int) error { <-ctx.Done(); return ctx.Err() })
		return engine.Step(d, "b", a, func(context.Context, int) (int, error) { return 0, errors.New("no") }).
			Retry(2, engine.Fixed(time.Hour)).
			RetryIf(func(error) bool { return true })
	})
	h := newHost(t, config, r)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // rather than an hour
	defer cancel()
	_, err := r.Run(ctx, h.Engine, 1)
	if failure := failureIn(t, err); len(failure.Rollback) != 1 || failure.Rollback[0].Reason != "timed_out" || !strings.Contains(err.Error(), "a timed out after 15ms") {
		t.Errorf("%v", err)
	}
	if delay := rec.find(t, "reactor.step.retry").Fields["delay"]; delay != 2*time.Millisecond {
		t.Errorf("pause of %v", delay)
	}
	angryIf := engine.MustDefine("angry", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(d, "a", in, func(context.Context, int) (int, error) { return 0, errors.New("no") }).
			Retry(2, nil).RetryIf(func(error) bool { panic("not a question") })
	})
	h = newHost(t, config, angryIf)
	if _, err := angryIf.Run(t.Context(), h.Engine, 1); err == nil || !strings.Contains(logged.String(), "not a question") {
		t.Errorf("%v; logged %q", err, logged.String())
	}
}

// spec: C-1020..C-1022
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	for size, fits := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		r := engine.MustDefine("large", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
			a := engine.Step(d, "a", in, func(context.Context, int) (string, error) { return strings.Repeat("x", size-2), nil })
			return engine.Pick(a, func(s string) int { return len(s) })
		})
		res, err := r.Run(t.Context(), engine.InMemory(), 1)
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "result is 1048577 bytes (1 more), the limit is 1 MiB") {
			t.Errorf("%d bytes: %+v, %v", size, res, err)
		}
	}
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	for size, fits := range map[int]bool{512: true, 513: false} {
		_, err := r.Start(t.Context(), h.Engine, 1, engine.StartOptions{Key: strings.Repeat("k", size)})
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "513 bytes") {
			t.Errorf("a key of %d bytes: %v", size, err)
		}
	}
	for size, fits := range map[int]bool{16 << 10: true, 16<<10 + 1: false} {
		text := strings.Repeat("e", size)
		r := engine.MustDefine("talkative", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
			return engine.Step(d, "a", in, func(context.Context, int) (int, error) { return 0, errors.New(text) })
		})
		e := engine.InMemory()
		_, err := r.Run(t.Context(), e, 1)
		v, _ := e.Get(t.Context(), failureIn(t, err).RunID)
		for where, f := range map[string]error{"live": err, "stored": v.Failure} {
			if fits != strings.HasSuffix(f.Error(), text) || fits == strings.HasSuffix(f.Error(), "bytes cut)") {
				t.Errorf("%s, %d bytes: it ends with %q", where, size, f.Error()[len(f.Error())-40:])
			}
		}
	}
}

// A wrongClock is years off.
type wrongClock struct{}

func (wrongClock) Now() time.Time { return time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC) }

// spec: C-1014
func TestClockOfTheProcess(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	n := 0
	r := engine.MustDefine("late", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(d, "a", in, func(ctx context.Context, n int) (int, error) {
			if engine.RunFrom(ctx).Attempt == 1 {
				return 0, errors.New("again")
			}
			return n, nil
		}).Retry(2, engine.Fixed(time.Millisecond))
	})
	h := newHost(t, engine.Config{
		Clock: wrongClock{}, Middleware: []func(engine.Next) engine.Next{rec.middleware},
		NewID: func() string { n++; return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) },
	}, r)
	began := time.Now().Add(-time.Second)
	res, err := inProcesses(t, h, r, 5, engine.Config{Clock: wrongClock{}, Middleware: []func(engine.Next) engine.Next{rec.middleware}})
	if err != nil || res.Value != 5 || res.RunID != "00000000-0000-4000-8000-000000000001" {
		t.Fatalf("%+v, %v", res, err)
	}
	if v := h.view(t, res.RunID); v.Created.Before(began) || v.Started.Before(began) || v.Ended.Before(began) {
		t.Errorf("the process's clock decided: %s, %s, %s", v.Created, v.Started, v.Ended)
	}
	if at := rec.find(t, "reactor.run.ended").At; !at.Equal(wrongClock{}.Now()) {
		t.Errorf("an event at %s", at)
	}
}

// spec: C-671
func TestPagesOfRuns(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	if _, err := r.StartMany(t.Context(), h.Engine, make([]int, 501)); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{0: 50, -1: 50, 7: 7, 500: 500, 501: 500, 1 << 30: 500} {
		page, err := h.List(t.Context(), engine.Query{Limit: limit})
		if err != nil || len(page.Runs) != want || page.Next == "" {
			t.Errorf("limit %d: %d runs, %v", limit, len(page.Runs), err)
		}
	}
}

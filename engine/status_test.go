package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// A loggedStore keeps what was called and what was saved.
type loggedStore struct {
	*frailStore
	log   sync.Mutex
	calls []string
	saves []engine.Changes
}

func loggedHost(t *testing.T, config engine.Config, reactors ...engine.Definition) (*host, *loggedStore) {
	t.Helper()
	store := &loggedStore{frailStore: newFrail()}
	config.Store, config.Dispatcher = store, &jobs{}
	return openHost(t, config, reactors...), store
}

func (l *loggedStore) called(call string) {
	l.log.Lock()
	defer l.log.Unlock()
	l.calls = append(l.calls, call)
}

func (l *loggedStore) Claim(ctx context.Context, c engine.Claim) (engine.Claims, error) {
	l.called("Claim")
	return l.frailStore.Claim(ctx, c)
}

func (l *loggedStore) Get(ctx context.Context, run string) (*engine.Record, error) {
	l.called("Get")
	return l.frailStore.Get(ctx, run)
}

func (l *loggedStore) Save(ctx context.Context, f engine.Fence, c engine.Changes) (int64, error) {
	l.called("Save")
	version, err := l.frailStore.Save(ctx, f, c)
	if err == nil {
		l.log.Lock()
		l.saves = append(l.saves, c)
		l.log.Unlock()
	}
	return version, err
}

// released reports whether a save gives the run up.
func released(c engine.Changes) bool { return c.Release || c.Status.Final() }

// An exit is one way in which a worker comes to its end with a run, by what step
// b does.
type exit struct {
	name   string
	body   func(ctx context.Context, stop func()) (int, error)
	status engine.Status
	due    bool // it is to be woken
}

var exits = []exit{
	{"completed", func(context.Context, func()) (int, error) { return 1, nil }, engine.Completed, false},
	{"skipped", func(context.Context, func()) (int, error) { return 1, engine.Skip("nothing to do") }, engine.Completed, false},
	{"halted", func(context.Context, func()) (int, error) { return 0, engine.Halt("enough") }, engine.Halted, false},
	{"failed", func(context.Context, func()) (int, error) { return 0, engine.Permanent(errDeclined) }, engine.Failed, false},
	{"waits for its retry", func(context.Context, func()) (int, error) { return 0, errDeclined }, engine.Running, true},
	{"handed back", func(ctx context.Context, stop func()) (int, error) { stop(); <-ctx.Done(); return 0, ctx.Err() }, engine.Running, true},
}

// driven drives a run of pair by a worker that the body may stop.
func (o exit) driven(t *testing.T, h *host, r *engine.Reactor[int, int], stop *func()) (run string) {
	t.Helper()
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	*stop = cancel
	h.jobs.take()
	if err := h.Drive(ctx, engine.Wake{Runs: []string{started.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Fatal(err)
	}
	return started.ID
}

// Ownership is given up on every way out, and no save follows that.
// spec: C-216, C-184..C-186, C-190, C-881
func TestEveryWayOut(t *testing.T) {
	t.Parallel()
	for _, o := range exits {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			var stop func()
			r := pair(func(ctx context.Context, _ int) (int, error) { return o.body(ctx, stop) },
				func(_ *engine.Builder, n *engine.StepNode[int, int]) { n.Retry(2, engine.Fixed(time.Hour)) })
			h, store := loggedHost(t, engine.Config{}, r)
			run := o.driven(t, h, r, &stop)
			rec := h.record(t, run)
			if rec.Status != o.status || rec.Owner != "" || rec.Process != "" || rec.Due.IsZero() == o.due || rec.Ended.IsZero() == o.status.Final() {
				t.Errorf("%+v", rec.Header)
			}
			for i, c := range store.saves {
				if released(c) != (i == len(store.saves)-1) {
					t.Errorf("save %d of %d: %+v", i+1, len(store.saves), c)
				}
				if c.Rollback != "" && (c.Failure == nil || c.Status != engine.RollingBack && c.Status != engine.Failed) {
					t.Errorf("a rollback begins with status %q and failure %s", c.Status, c.Failure)
				}
				if c.Status == engine.RollingBack && c.Rollback == "" {
					t.Errorf("a rollback begins without its cause: %+v", c)
				}
			}
		})
	}
}

// A wake-up of a final run changes nothing, calls nothing and says so quietly.
// spec: C-212, C-206, K-243, K-852
func TestWakeUpOfAFinalRun(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	var stop func()
	body := exits[0].body
	calls := 0
	r := pair(func(ctx context.Context, _ int) (int, error) { calls++; return body(ctx, stop) }, nil)
	h := newHost(t, engine.Config{Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))}, r)
	var runs []string
	for _, o := range exits {
		if body = o.body; o.status.Final() {
			runs = append(runs, o.driven(t, h, r, &stop))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	body = func(context.Context, func()) (int, error) { cancel(); return 0, ctx.Err() }
	aborted, _ := r.Run(ctx, h.Engine, 1)
	runs = append(runs, aborted.RunID)
	logged.Reset()
	for _, run := range runs {
		before := h.record(t, run)
		calls = 0
		if err := h.Drive(t.Context(), engine.Wake{Runs: []string{run}, Queue: "reactor", Priority: 1}); err != nil {
			t.Error(err)
		}
		after := h.record(t, run)
		after.Now = before.Now
		if diff := cmp.Diff(before, after, sorted); diff != "" || calls > 0 {
			t.Errorf("%s run: %d calls, changed (-before +after):\n%s", before.Status, calls, diff)
		}
	}
	if n := strings.Count(logged.String(), `reason="already final"`); n != len(runs) || strings.Contains(logged.String(), "level=WARN") || strings.Contains(logged.String(), "level=ERROR") {
		t.Errorf("log:\n%s", logged.String())
	}
}

// sorted compares the nodes of records, which come in no order.
var sorted = cmp.Transformer("sorted", func(nodes []engine.NodeRow) map[string]string {
	rows := map[string]string{}
	for _, n := range nodes {
		text, _ := json.Marshal(n)
		rows[n.Path] = string(text)
	}
	return rows
})

// A run is claimed first and read afterwards: what another process did between
// the wake-up and the claim is what counts.
// spec: C-210, K-346, K-408
func TestClaimComesFirst(t *testing.T) {
	t.Parallel()
	g := newGate()
	var d diary
	r := pair(g.pass, func(b *engine.Builder, n *engine.StepNode[int, int]) {
		engine.Step(b, "c", n, func(_ context.Context, n int) (int, error) { d.note("c"); return n, nil })
	})
	h, store := loggedHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	wake := h.jobs.take()[0]
	first := h.beside(t, engine.Config{}, r)
	store.before = func(call string) error { // the first claim is overtaken by another process
		if call != "Claim" {
			return nil
		}
		store.before = nil
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { <-g.at; stop(); close(g.open) }() // b ends in the soft stop
		return first.Drive(ctx, wake)
	}
	store.calls = nil
	if err := h.Drive(t.Context(), wake); err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(store.calls, "Claim"); i != 0 {
		t.Errorf("before the claim: %v", store.calls[:max(i, 0)])
	}
	if v := h.view(t, started.ID); v.Status != engine.Completed || d.text() != "c" || len(g.at) > 0 {
		t.Errorf("%s, calls %q, b again %d times", v.Status, d.text(), len(g.at))
	}
}

// A rollback that is handed over goes on as a rollback, whoever does it.
// spec: C-189, C-203, C-214
func TestRollbackIsHandedOver(t *testing.T) {
	t.Parallel()
	g := newGate()
	var d diary
	r := engine.MustDefine("hand_over", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		noted := func(name string, err error) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) { d.note(name); return 0, err }
		}
		a := engine.Step(b, "a", in, noted("a", nil)).Undo(func(context.Context, int, int) error { d.note("undo a"); return nil })
		z := engine.Step(b, "z", a, noted("z", errDeclined)).Compensate(func(ctx context.Context, n int, _ error) error {
			d.note("compensate z")
			_, err := g.pass(ctx, n)
			return err
		})
		return engine.Step(b, "later", z, noted("later", nil))
	})
	h := newHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wake := h.jobs.take()[0]
	stopped := make(chan error, 1)
	go func() { stopped <- h.Drive(ctx, wake) }()
	<-g.at
	stop()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	rec := h.record(t, started.ID)
	if rec.Status != engine.RollingBack || rec.Owner != "" || rec.Due.IsZero() || rec.Rollback != engine.ByFailure {
		t.Errorf("between the two: %+v", rec.Header)
	}
	close(g.open)
	h.beside(t, engine.Config{}, r).drive(t)
	if _, err := started.Wait(t.Context()); failureIn(t, err).Node != "z" || len(failureIn(t, err).Rollback) > 0 {
		t.Error(err)
	}
	if got := d.text(); got != "a, z, compensate z, undo a" { // the cut off hook was called twice
		t.Errorf("calls %s", got)
	}
}

// spec: C-195, C-186
func TestInvalidInputIsAFailedRun(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("picky", func(b *engine.Builder, in engine.Ref[positive]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(context.Context, positive) (int, error) { t.Error("a ran"); return 0, nil })
	})
	h := newHost(t, engine.Config{}, r)
	_, err := r.Run(t.Context(), h.Engine, positive{-1})
	_, started := r.Start(t.Context(), h.Engine, positive{-1})
	for _, failure := range []*engine.RunError{failureIn(t, err), failureIn(t, started)} {
		v := h.view(t, failure.RunID)
		if v.Status != engine.Failed || !v.Started.IsZero() || v.Ended.IsZero() || len(v.Trace) > 0 || failure.Node != "" || failure.Fields["N"] == "" {
			t.Errorf("%+v", v)
		}
	}
	if wakes := h.jobs.take(); len(wakes) > 0 {
		t.Errorf("wake-ups %v", wakes)
	}
}

// spec: C-877, C-193
func TestStatesOfANode(t *testing.T) {
	t.Parallel()
	states := func(v engine.View) string {
		var all []string
		for _, n := range v.Nodes {
			all = append(all, n.Path+" "+n.State)
		}
		return strings.Join(all, ", ")
	}
	var stop func()
	body := exits[0].body
	r := pair(func(ctx context.Context, _ int) (int, error) { return body(ctx, stop) }, func(b *engine.Builder, n *engine.StepNode[int, int]) {
		n.Retry(2, engine.Fixed(time.Hour))
		engine.Do(b, "c", n, func(context.Context, int) error { return nil })
	})
	h := newHost(t, engine.Config{}, r)
	for name, want := range map[string]string{
		"completed": "a done, b done, c done", "skipped": "a done, b skipped, c done", "halted": "a done, b halted, c pending",
		"failed": "a done, b failed, c pending", "waits for its retry": "a done, b waiting, c pending", "handed back": "a done, b running, c pending",
	} {
		o := exits[slices.IndexFunc(exits, func(o exit) bool { return o.name == name })]
		body = o.body
		v := h.view(t, o.driven(t, h, r, &stop))
		if got := states(v); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		if name == "waits for its retry" && !strings.HasPrefix(v.Waiting, "retry of b at ") {
			t.Errorf("it waits for %q", v.Waiting)
		}
	}
	pending, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	if v := h.view(t, pending.ID); v.Status != engine.Pending || states(v) != "a pending, b pending, c pending" || !v.Started.IsZero() {
		t.Errorf("%s: %s", v.Status, states(v))
	}
	ctx, cancel := context.WithCancel(t.Context())
	body = func(context.Context, func()) (int, error) { cancel(); return 0, ctx.Err() }
	res, err := r.Run(ctx, h.Engine, 1)
	if v := h.view(t, res.RunID); !errors.Is(err, context.Canceled) || v.Status != engine.Aborted || states(v) != "a done, b open, c pending" {
		t.Errorf("%s: %s, %v", v.Status, states(v), err)
	}
}

// Jobs are lost: a sweep wakes what could go on, and leaves alone what is final,
// waits for a later time, or has a live owner.
// spec: C-181, C-182, C-184..C-186, C-188, C-189
// spec: C-208, C-628, C-630
func TestWhatASweepWakes(t *testing.T) {
	t.Parallel()
	var stop func()
	body, undo := exits[0].body, func(context.Context) error { return nil }
	r := engine.MustDefine("swept", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
			Undo(func(ctx context.Context, _, _ int) error { return undo(ctx) })
		return engine.Step(b, "b", a, func(ctx context.Context, _ int) (int, error) { return body(ctx, stop) }).Retry(2, engine.Fixed(time.Hour))
	})
	h := newHost(t, engine.Config{}, r)
	is := map[string]engine.Status{}
	for _, e := range exits {
		body = e.body
		is[e.driven(t, h, r, &stop)] = e.status
	}
	handedBack := exits[5]
	body = exits[3].body
	undo = func(ctx context.Context) error { stop(); <-ctx.Done(); return ctx.Err() }
	rolling := exits[0].driven(t, h, r, &stop)
	body = handedBack.body
	forward := handedBack.driven(t, h, r, &stop)
	queued, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	later, err := r.Start(t.Context(), h.Engine, 1, engine.StartOptions{At: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate()
	body = func(ctx context.Context, _ func()) (int, error) { return g.pass(ctx, 1) }
	came := make(chan error, 1)
	go func() { _, err := r.Run(t.Context(), h.Engine, 1); came <- err }()
	<-g.at
	h.jobs.take() // all are lost
	is[rolling], is[forward], is[queued.ID], is[later.ID] = engine.RollingBack, engine.Running, engine.Pending, engine.Pending
	for run, status := range is {
		if got := h.record(t, run).Status; got != status {
			t.Errorf("run is %s, want %s", got, status)
		}
	}
	woken := map[string]bool{}
	until(t, "what could go on is woken", func() bool {
		if _, err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, w := range h.jobs.take() {
			for _, run := range w.Runs {
				woken[run] = true
			}
		}
		return woken[rolling] && woken[forward] && woken[queued.ID]
	})
	for run := range woken {
		if rec := h.record(t, run); rec.Status.Final() || rec.Owner != "" || run == later.ID || rec.WakeReason == "retry of b" {
			t.Errorf("woken: %+v", rec.Header)
		}
	}
	close(g.open)
	if err := <-came; err != nil {
		t.Error(err)
	}
}

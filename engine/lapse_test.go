package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// A process that can't renew its lease ends its bodies one lease after it sent
// the last renewal that was confirmed: never later than another process can
// take its runs, however slow the way to the database is.
// spec: K-802, C-977
func TestLapseIsSeenBeforeATakeover(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ before, after time.Duration }{
		"quick":         {},
		"slow to get":   {before: 300 * time.Millisecond},
		"slow to reply": {after: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at, ended := make(chan context.Context, 2), make(chan time.Time, 2)
				r := pair(func(ctx context.Context, n int) (int, error) {
					at <- ctx
					<-ctx.Done()
					ended <- time.Now()
					return n, nil
				}, nil)
				h, road := onRoad(t, engine.Config{Lease: 4 * time.Second, Heartbeat: time.Second}, r)
				road.before, road.after = way.before, way.after
				run, driven := startAndDrive(t, h, r, 1)
				body := <-at
				<-time.After(10 * time.Second) // leases of a live process do not end
				if body.Err() != nil {
					t.Fatal("the body was cut off although the lease is renewed")
				}
				road.cut("")
				taken := takenAt(t, road.Store, run.ID)
				end := <-ended
				if want := road.lastSent().Add(4 * time.Second); !end.Equal(want) || end.After(taken) {
					t.Errorf("the body ended at %s, want %s; taken over at %s", end, want, taken)
				}
				if cause := context.Cause(body); !errors.Is(cause, engine.ErrLeaseLost) {
					t.Errorf("its cause is %v", cause)
				}
				road.mend("")
				if err := <-driven; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// takenAt is when another process gets the run, which it tries all the time.
func takenAt(t *testing.T, s engine.Store, run string) time.Time {
	t.Helper()
	process := engine.NewUUID()
	if err := s.Register(t.Context(), engine.Process{ID: process}, time.Hour); err != nil {
		t.Fatal(err)
	}
	for {
		claims, err := s.Claim(t.Context(), engine.Claim{
			Process: process, Knows: []string{"pair@1"},
			Wants: []engine.Want{{Run: run, Token: engine.NewUUID(), WriteID: engine.NewUUID()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(claims.Claimed) > 0 {
			return time.Now()
		}
		<-time.After(time.Millisecond)
	}
}

// A lapse that is known before a node begins keeps it from beginning, not its
// save from being accepted. Once the lease is renewed and nobody has taken the
// run, it goes on.
// spec: K-380, K-803
func TestNoNodeBeginsInALapse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 3 * time.Second
		var renewed time.Time
		began := make(chan time.Time, 1)
		r := pair(func(_ context.Context, n int) (int, error) { began <- time.Now(); return n + 1, nil }, nil)
		var h *host
		var way *road
		h, way = onRoad(t, engine.Config{Lease: lease, Heartbeat: time.Second, Middleware: []func(engine.Next) engine.Next{
			func(next engine.Next) engine.Next {
				return func(ctx context.Context, ev engine.Event) error {
					if ev.Kind == "reactor.step.completed" && ev.Path == "a" {
						way.cut("beat")
						<-time.After(2 * lease)
						time.AfterFunc(2*lease, func() { renewed = time.Now(); way.mend("beat") })
					}
					return next(ctx, ev)
				}
			},
		}}, r)
		run, driven := startAndDrive(t, h, r, 1)
		if err := <-driven; err != nil {
			t.Error(err)
		}
		select {
		case at := <-began:
			if renewed.IsZero() || at.Before(renewed) {
				t.Errorf("b began at %s, the lease was renewed at %s", at, renewed)
			}
		default:
			t.Error("b did not begin")
		}
		if v := h.view(t, run.ID); v.Status != engine.Completed || strings.Join(v.Trace, ", ") != "run a, run b" {
			t.Errorf("%s, %v", v.Status, v.Trace)
		}
	})
}

// A body that a lapse has cut off is called again, by the same process if
// nobody has taken the run: with its key, at the same attempt, and without a
// compensation.
// spec: K-803, C-977, C-619
func TestBodyIsCalledAgainAfterALapse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan engine.Info, 5)
		var way *road
		first := true
		r := pair(func(ctx context.Context, n int) (int, error) {
			calls <- engine.RunFrom(ctx)
			if first {
				first = false
				way.cut("")
				<-ctx.Done()
				way.mend("")
				return 0, ctx.Err()
			}
			return n + 1, nil
		}, func(_ *engine.Builder, b *engine.StepNode[int, int]) { b.Retry(3, engine.Fixed(time.Second)) })
		var events kinds
		h, road := onRoad(t, engine.Config{Lease: 3 * time.Second, Heartbeat: time.Second, Middleware: events.middleware()}, r)
		way = road
		run, driven := startAndDrive(t, h, r, 1)
		if err := <-driven; err != nil {
			t.Error(err)
		}
		one, two := <-calls, <-calls
		if one.Attempt != 1 || two.Attempt != 1 || one.IdempotencyKey() != two.IdempotencyKey() {
			t.Errorf("attempts %d and %d with the keys %s and %s", one.Attempt, two.Attempt, one.IdempotencyKey(), two.IdempotencyKey())
		}
		if v := h.view(t, run.ID); v.Status != engine.Completed || len(calls) > 0 {
			t.Errorf("%s after %d more calls", v.Status, len(calls))
		}
		events.want(t, "step.failed", 0)
		events.want(t, "compensate.started", 0)
	})
}

// kinds counts events.
type kinds struct {
	mu   sync.Mutex
	seen map[string]int
}

func (k *kinds) middleware() []func(engine.Next) engine.Next {
	return []func(engine.Next) engine.Next{func(next engine.Next) engine.Next {
		return func(ctx context.Context, ev engine.Event) error {
			k.mu.Lock()
			if k.seen == nil {
				k.seen = map[string]int{}
			}
			k.seen[strings.TrimPrefix(ev.Kind, "reactor.")]++
			k.mu.Unlock()
			return next(ctx, ev)
		}
	}}
}

func (k *kinds) want(t *testing.T, kind string, n int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[kind] != n {
		t.Errorf("%d events %s, want %d (all: %v)", k.seen[kind], kind, n, k.seen)
	}
}

// Every save of an execution shows the token that it has claimed the run with
// and the version that its last save has led to, in retries and rollback too.
// spec: K-336, K-352, C-975
func TestSavesCarryTokenAndVersion(t *testing.T) {
	t.Parallel()
	attempts := 0
	r := pair(func(context.Context, int) (int, error) { attempts++; return 0, errors.New("no") },
		func(_ *engine.Builder, b *engine.StepNode[int, int]) { b.Retry(2, engine.Fixed(0)) })
	h, way := onRoad(t, engine.Config{}, r)
	run, driven := startAndDrive(t, h, r, 1)
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if v := h.view(t, run.ID); v.Status != engine.Failed || attempts != 2 || v.Trace[len(v.Trace)-1] != "undo a" {
		t.Fatalf("%s after %d attempts: %v", v.Status, attempts, v.Trace)
	}
	version := int64(2) // after creation and claim
	for i, f := range way.saves {
		if f.Token != way.saves[0].Token || f.Token == "" || f.Process == "" || f.Run != run.ID || f.Version != version {
			t.Errorf("save %d shows %+v, want version %d", i, f, version)
		}
		version++
	}
	if len(way.saves) != 5 { // a, the retry, the failure, compensate, undo and end
		t.Errorf("%d saves", len(way.saves))
	}
}

// No switch of Config turns the fence off: with each of them on, what a stalled
// owner comes back with is refused.
// spec: C-979, K-5
func TestFencingCannotBeSwitchedOff(t *testing.T) {
	t.Parallel()
	configs := map[string]engine.Config{"as it is": {}}
	fields := reflect.TypeFor[engine.Config]()
	for i := range fields.NumField() {
		if fields.Field(i).Type.Kind() == reflect.Bool {
			var c engine.Config
			reflect.ValueOf(&c).Elem().Field(i).SetBool(true)
			configs[fields.Field(i).Name] = c
		}
	}
	if len(configs) < 2 {
		t.Error("no switch was found in Config")
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, goOn := make(chan string), make(chan struct{})
			r := pair(func(ctx context.Context, n int) (int, error) { at <- engine.RunFrom(ctx).RunID; <-goOn; return 99, nil }, nil)
			config.Store, config.Dispatcher, config.Logger = &sharedStore{Store: engine.NewMemoryStore()}, &jobs{}, slog.New(slog.DiscardHandler)
			e, err := engine.New(config, r)
			if err != nil {
				t.Fatal(err)
			}
			h := &host{Engine: e, store: config.Store}
			t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
			done := make(chan error, 1)
			go func() {
				_, err := r.Run(t.Context(), e, 1)
				done <- err
			}()
			run := <-at
			if _, err := h.store.Beat(t.Context(), h.record(t, run).Process, 0); err != nil {
				t.Fatal(err)
			}
			h.seize(t, run, engine.Changes{Status: engine.Completed, Output: []byte("5")})
			close(goOn)
			if err := <-done; !errors.Is(err, engine.ErrLeaseLost) {
				t.Errorf("Run: %v", err)
			}
			if rec := h.record(t, run); string(rec.Output) != "5" || len(rec.Nodes) != 1 {
				t.Errorf("output %s with %d nodes", rec.Output, len(rec.Nodes))
			}
		})
	}
}

// Nothing is forced on a run that has a live owner, neither by a process that
// would block it nor by one that would end it for its crashes: it leaves the
// run alone and says so at debug level.
// spec: K-373, K-346
func TestLiveOwnersAreLeftAlone(t *testing.T) {
	t.Parallel()
	at, goOn := make(chan struct{}), make(chan struct{})
	r := pair(func(_ context.Context, n int) (int, error) { close(at); <-goOn; return n, nil }, nil)
	h := newHost(t, engine.Config{}, r)
	run, driven := startAndDrive(t, h, r, 1)
	<-at
	was := h.record(t, run.ID)
	unfit := engine.MustDefine("pair", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(d, "other", in, func(_ context.Context, n int) (int, error) { t.Error("other ran"); return n, nil })
	})
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	other := h.beside(t, engine.Config{Logger: log, Recoveries: 1}, unfit)
	if err := other.Drive(t.Context(), engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1}); err != nil {
		t.Error(err)
	}
	is := h.record(t, run.ID)
	was.Now, was.Beat, was.Lease = is.Now, is.Beat, is.Lease
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("the run was changed (-was +is):\n%s", diff)
	}
	if lines := strings.Split(strings.TrimSpace(text.String()), "\n"); len(lines) != 1 ||
		!strings.Contains(lines[0], "level=DEBUG") || !strings.Contains(lines[0], run.ID) || !strings.Contains(lines[0], "has a live owner") {
		t.Errorf("logged:\n%s", text.String())
	}
	close(goOn)
	if err := <-driven; err != nil {
		t.Error(err)
	}
}

// Waiting for the next attempt, and giving the run back at a stop, are neither
// failures nor attempts of a node.
// spec: C-619
func TestWaitingAndGivingBackAreNoFailures(t *testing.T) {
	t.Parallel()
	at := make(chan context.Context, 1)
	calls := 0
	r := engine.MustDefine("wanders", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(d, "a", in, func(ctx context.Context, n int) (int, error) {
			if engine.RunFrom(ctx).Attempt == 1 {
				return 0, errors.New("not yet")
			}
			return n, nil
		}).Retry(2, engine.Fixed(time.Millisecond)).Undo(func(context.Context, int, int) error { return nil })
		return engine.Step(d, "b", a, func(ctx context.Context, n int) (int, error) {
			if calls++; calls == 1 {
				at <- ctx
				<-ctx.Done()
				return 0, fmt.Errorf("interrupted: %w", ctx.Err())
			}
			return n, nil
		}).Compensate(func(context.Context, int, error) error { return nil })
	})
	var events kinds
	config := engine.Config{Middleware: events.middleware()}
	first := newHost(t, config, r)
	second := first.beside(t, config, r)
	run, err := r.Start(t.Context(), first.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	driven := make(chan error, 1)
	go func() { driven <- first.Drive(ctx, engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1}) }()
	if err := <-driven; err != nil { // parked for the second attempt of a
		t.Fatal(err)
	}
	until(t, "the second attempt is due", func() bool { return first.view(t, run.ID).Waiting == "a worker" })
	go func() { driven <- first.Drive(ctx, engine.Wake{Runs: []string{run.ID}, Queue: "reactor", Priority: 1}) }()
	cut := <-at
	stop()
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(context.Cause(cut), engine.ErrShutdown) {
		t.Errorf("the cause is %v", context.Cause(cut))
	}
	second.drive(t)
	v := second.view(t, run.ID)
	if v.Status != engine.Completed || nodeAt(v, "a").Attempts != 2 || nodeAt(v, "b").Attempts != 1 {
		t.Errorf("%s, a at attempt %d, b at %d", v.Status, nodeAt(v, "a").Attempts, nodeAt(v, "b").Attempts)
	}
	events.want(t, "step.failed", 1) // the first attempt of a
	events.want(t, "step.retry", 1)
	events.want(t, "compensate.started", 0)
	events.want(t, "undo.started", 0)
}

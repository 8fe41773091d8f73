package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// recorder notes events as they reach one middleware.
type recorder struct {
	mu     sync.Mutex
	events []engine.Event
}

func (r *recorder) middleware(next engine.Next) engine.Next {
	return func(ctx context.Context, ev engine.Event) error {
		r.mu.Lock()
		r.events = append(r.events, ev)
		r.mu.Unlock()
		return next(ctx, ev)
	}
}

func (r *recorder) kinds() (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.events {
		kind := strings.TrimPrefix(ev.Kind, "reactor.")
		if ev.Path != "" {
			kind += " " + ev.Path
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

func (r *recorder) find(t *testing.T, kind string) engine.Event {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.events, func(ev engine.Event) bool { return ev.Kind == kind })
	if i < 0 {
		t.Fatalf("no event %s", kind)
	}
	return r.events[i]
}

// secretive is a saga of two steps over a value with a secret.
func secretive(pay func(context.Context, order) (order, error)) *engine.Reactor[order, string] {
	return engine.MustDefine("secretive", func(b *engine.Builder, in engine.Ref[order]) engine.Ref[string] {
		hold := engine.Step(b, "hold", in, func(_ context.Context, o order) (order, error) { return o, nil }).
			Undo(func(context.Context, order, order) error { return errors.New("undo of 4111222233334444 is refused") })
		paid := engine.Step(b, "pay", hold, pay).Retry(2, engine.Fixed(time.Millisecond)).
			Compensate(func(context.Context, order, error) error { return nil })
		return engine.Pick(paid, func(o order) string { return o.Card })
	})
}

// spec: K-455..K-457, K-460..K-462, K-464, C-252
// spec: K-465..K-470, K-479, K-956
// spec: C-689, C-145, K-478
func TestEvents(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	r := secretive(func(context.Context, order) (order, error) { return order{}, errors.New("declined: 4111222233334444") })
	_, err := r.Run(t.Context(), engine.InMemoryWith(rec.middleware), order{Card: "4111222233334444"})
	if err == nil {
		t.Fatal("want a failure")
	}
	want := []string{
		"run.started",
		"step.started hold", "step.completed hold",
		"step.started pay", "step.failed pay", "step.retry pay",
		"step.started pay", "step.failed pay",
		"compensate.started pay", "compensate.completed pay",
		"undo.started hold", "undo.failed hold",
		"run.ended",
	}
	if diff := cmp.Diff(want, rec.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if ev := rec.find(t, "reactor.step.retry"); ev.Fields["next_attempt"] != 2 || ev.Fields["delay"] != time.Millisecond || ev.Attempt != 1 {
		t.Errorf("retry: attempt %d, %v", ev.Attempt, ev.Fields)
	}
	var failed []string
	for _, ev := range rec.events {
		if ev.Kind == "reactor.step.failed" {
			failed = append(failed, fmt.Sprintf("attempt %d: %v, will retry %v", ev.Attempt, ev.Fields["error"], ev.Fields["will_retry"]))
		}
	}
	if diff := cmp.Diff([]string{"attempt 1: declined: [REDACTED], will retry true", "attempt 2: declined: [REDACTED], will retry false"}, failed); diff != "" {
		t.Errorf("failed attempts (-want +got):\n%s", diff)
	}
	if ev := rec.find(t, "reactor.undo.failed"); ev.Fields["reason"] != "returned_error" || ev.Phase != "undo" {
		t.Errorf("undo failed: %v", ev)
	}
	if ev := rec.find(t, "reactor.run.ended"); ev.Fields["status"] != "failed" || ev.Reactor != "secretive" || ev.RunID == "" || ev.RunKind != "root" || ev.Version != 1 || ev.RootID != ev.RunID {
		t.Errorf("run ended: %+v", ev)
	}
}

// spec: K-955, C-15, C-114, C-610, C-685, C-841
func TestRedaction(t *testing.T) {
	t.Parallel()
	const secret = "4111222233334444"
	rec := &recorder{}
	var logged bytes.Buffer
	e := engine.InMemoryLogging(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})), rec.middleware)
	seen := ""
	r := secretive(func(_ context.Context, o order) (order, error) {
		seen = o.Card
		panic(fmt.Errorf("declined: %s", o.Card))
	})
	_, err := r.Run(t.Context(), e, order{Card: secret})
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok {
		t.Fatal(err)
	}
	if seen != secret {
		t.Errorf("the body got %q", seen)
	}
	view, err := e.Get(t.Context(), failure.RunID)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"failure": failure.Error() + strings.Join(failure.Stack, "\n") + string(failure.Input), "view": string(shown) + view.Failure.Error(),
		"events": fmt.Sprintf("%+v", rec.events), "log": logged.String(),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the secret is in the %s:\n%s", what, text)
		}
	}
	if !strings.Contains(string(failure.Input), "[REDACTED]") || !strings.Contains(failure.Error(), "declined: [REDACTED]") {
		t.Errorf("input %s, text %s", failure.Input, failure.Error())
	}
}

// order of wrapping.
// spec: K-451..K-453, C-660
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	type key struct{}
	var order []string
	named := func(name string) func(engine.Next) engine.Next {
		return func(next engine.Next) engine.Next {
			return func(ctx context.Context, ev engine.Event) error {
				if ev.Kind == "reactor.step.started" {
					order = append(order, name)
					ctx = context.WithValue(ctx, key{}, fmt.Sprint(ctx.Value(key{}), name))
				}
				err := next(ctx, ev)
				if ev.Kind == "reactor.step.started" {
					order = append(order, fmt.Sprintf("%s:%v", name, err))
				}
				return errors.New("ignored")
			}
		}
	}
	got := ""
	r := engine.MustDefine("one", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			got = fmt.Sprint(ctx.Value(key{}))
			return n, nil
		})
	})
	if res, err := r.Run(t.Context(), engine.InMemoryWith(named("x"), named("y")), 3); err != nil || res.Value != 3 {
		t.Fatal(res, err)
	}
	if diff := cmp.Diff([]string{"x", "y", "y:<nil>", "x:<nil>"}, order); diff != "" {
		t.Error(diff)
	}
	if got != "<nil>xy" {
		t.Errorf("the body's context has %q", got)
	}
}

// spec: K-454, C-694
func TestMiddlewareThatMisbehaves(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(engine.Next) engine.Next{
		"panics before": func(engine.Next) engine.Next { return func(context.Context, engine.Event) error { panic("before") } },
		"does not call": func(engine.Next) engine.Next { return func(context.Context, engine.Event) error { return nil } },
		"loses context": func(n engine.Next) engine.Next {
			return func(_ context.Context, ev engine.Event) error { return n(context.Background(), ev) }
		},
		"panics after": func(n engine.Next) engine.Next {
			return func(ctx context.Context, ev engine.Event) error { _ = n(ctx, ev); panic("after") }
		},
		"calls it twice": func(n engine.Next) engine.Next {
			return func(ctx context.Context, ev engine.Event) error { _ = n(ctx, ev); return n(ctx, ev) }
		},
		"fails it": func(n engine.Next) engine.Next {
			return func(ctx context.Context, ev engine.Event) error { _ = n(ctx, ev); return errors.New("no") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := &recorder{}
			var logged bytes.Buffer
			e := engine.InMemoryLogging(slog.New(slog.NewTextHandler(&logged, nil)), broken, inner.middleware)
			calls := 0
			r := engine.MustDefine("one", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				return engine.Step(b, "a", in, func(context.Context, int) (int, error) { calls++; return 4, nil })
			})
			res, err := r.Run(t.Context(), e, 3)
			if err != nil || res.Value != 4 || calls != 1 {
				t.Errorf("%+v, %v after %d calls", res, err, calls)
			}
			if diff := cmp.Diff([]string{"run.started", "step.started a", "step.completed a", "run.ended"}, inner.kinds()); diff != "" {
				t.Errorf("the middleware inside saw (-want +got):\n%s", diff)
			}
			if name != "fails it" && !strings.Contains(logged.String(), "middleware=0") {
				t.Errorf("its position is not logged: %s", logged.String())
			}
		})
	}
}

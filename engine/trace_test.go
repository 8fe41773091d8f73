package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// history is a -> s -> r -> z: s skips with the value that a gives too, r needs
// two attempts, z does what it is told.
func history(z func() error) *engine.Reactor[int, int] {
	undo := func(context.Context, int, int) error { return nil }
	return engine.MustDefine("history", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(context.Context, int) (int, error) { return 0, nil }).Undo(undo)
		s := engine.Step(b, "s", a, func(context.Context, int) (int, error) { return 0, engine.Skip("nothing to do") }).Undo(undo)
		r := engine.Step(b, "r", s, func(ctx context.Context, n int) (int, error) {
			if engine.RunFrom(ctx).Attempt == 1 {
				return 0, errDeclined
			}
			return n, nil
		}).Retry(2, engine.Fixed(0))
		return engine.Step(b, "z", r, func(_ context.Context, n int) (int, error) { return n, z() }).
			Compensate(func(context.Context, int, error) error { return errors.New("no way back") })
	})
}

// The trace is read back from what is stored, by a process that ran nothing.
// spec: C-683, C-684, C-686, C-877, C-878
func TestTraceIsReadBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		z     error
		trace string
		nodes []string // state, hook and what became of it
	}{
		"done": {nil, "run a, run s, skipped s, run r, run r, run z",
			[]string{"a done", "s skipped", "r done", "z done"}},
		"halted": {engine.Halt("enough"), "run a, run s, skipped s, run r, run r, run z, halt z",
			[]string{"a done", "s skipped", "r done", "z halted"}},
		"failed": {errDeclined, "run a, run s, skipped s, run r, run r, run z, compensate z, undo a",
			[]string{"a done, undo completed", "s skipped", "r done, undo skipped", "z failed, compensate failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := history(func() error { return c.z })
			h := newHost(t, engine.Config{}, r)
			res, _ := r.Run(t.Context(), h.Engine, 1)
			v := h.beside(t, engine.Config{}, r).view(t, res.RunID)
			if got := strings.Join(v.Trace, ", "); got != c.trace {
				t.Errorf("trace %s\nwant  %s", got, c.trace)
			}
			var nodes []string
			for _, n := range v.Nodes {
				s := n.Path + " " + n.State
				if n.Hook != "" {
					s += ", " + n.Hook + " " + n.HookState
				}
				nodes = append(nodes, s)
			}
			if diff := cmp.Diff(c.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// A wait ends the turn of its process, and is told as a wait, not as a failure
// of run or node; being driven again starts again.
// spec: K-459, K-478, K-479, C-690, C-179
func TestEventsOfAWait(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	r := history(func() error { return nil })
	waits := engine.MustDefine("waits", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil })
		return engine.Step(b, "b", a, func(ctx context.Context, n int) (int, error) {
			if engine.RunFrom(ctx).Attempt == 1 {
				return 0, errDeclined
			}
			return n, nil
		}).Retry(2, engine.Fixed(20*time.Millisecond))
	})
	h := newHost(t, engine.Config{Middleware: []func(engine.Next) engine.Next{rec.middleware}}, r, waits)
	started, err := waits.Start(t.Context(), h.Engine, 3)
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	want := []string{"run.started", "step.started a", "step.completed a", "step.started b", "step.failed b", "step.retry b", "run.parked"}
	if diff := cmp.Diff(want, rec.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if ev := rec.find(t, "reactor.run.parked"); ev.Fields["wait"] != "time" {
		t.Errorf("parked: %v", ev.Fields)
	}
	if v := h.view(t, started.ID); v.Status != engine.Running || v.Owner != "" || state(v, "b") != "waiting" || v.Failure != nil {
		t.Errorf("while it waits: %+v", v)
	}
	until(t, "the retry is due", func() bool {
		h.drive(t)
		return h.view(t, started.ID).Status == engine.Completed
	})
	want = append(want, "run.started", "step.started b", "step.completed b", "run.ended")
	if diff := cmp.Diff(want, rec.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// spec: K-456, K-955
func TestEventOfTheStart(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	r := secretive(func(_ context.Context, o order) (order, error) { return o, nil })
	h := newHost(t, engine.Config{Codec: rot{}, Middleware: []func(engine.Next) engine.Next{rec.middleware}}, r)
	if _, err := r.Run(t.Context(), h.Engine, order{Card: "4111222233334444"}); err != nil {
		t.Fatal(err)
	}
	ev := rec.find(t, "reactor.run.started")
	if got := shownIn(t, ev, "input"); got != `{"lines":null,"card":"[REDACTED]"}` || ev.Fields["resumed"] != false || ev.Fields["taken_over"] != false {
		t.Errorf("started: input %s, %v", got, ev.Fields)
	}
	if ev.Reactor != "secretive" || ev.RunID == "" || ev.RootID != ev.RunID || ev.RunKind != "root" || ev.Version != 1 || ev.At.IsZero() || ev.Path != "" {
		t.Errorf("started: %+v", ev)
	}
}

// rot is a codec whose stored form shows nothing.
type rot struct{}

func (rot) Encode(_ context.Context, v []byte) ([]byte, error) { return rotated(v), nil }
func (rot) Decode(_ context.Context, v []byte) ([]byte, error) { return rotated(v), nil }

func rotated(v []byte) []byte {
	out := slices.Clone(v)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// shownIn is a value in the fields of an event.
func shownIn(t *testing.T, ev engine.Event, field string) string {
	t.Helper()
	raw, ok := ev.Fields[field].(json.RawMessage)
	if !ok {
		t.Fatalf("%s of %s is %v", field, ev.Kind, ev.Fields[field])
	}
	return string(raw)
}

// What ends an execution without an end of its run interrupts it.
// spec: K-458
func TestEventsOfInterruptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(h *host, store *frailStore, stop context.CancelFunc)
		want error
	}{
		"the caller goes": {func(_ *host, _ *frailStore, stop context.CancelFunc) { stop() }, context.Canceled},
		"the engine closes": {func(h *host, _ *frailStore, _ context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			go func() { _ = h.Close(ctx) }()
		}, engine.ErrShutdown},
		"the run is lost": {func(h *host, store *frailStore, _ context.CancelFunc) {
			health, _ := store.Health(context.Background())
			_ = store.Unregister(context.Background(), health.Processes[0].ID)
		}, engine.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec, g := &recorder{}, newGate()
			r := pair(g.pass, nil)
			h, store := frailHost(t, quick(engine.Config{Middleware: []func(engine.Next) engine.Next{rec.middleware}}), r)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			came := make(chan struct{})
			go func() { defer close(came); _, _ = r.Run(ctx, h.Engine, 1) }()
			<-g.at
			c.end(h, store, stop)
			<-came
			if diff := cmp.Diff([]string{"run.started", "step.started a", "step.completed a", "step.started b", "run.interrupted"}, rec.kinds()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if ev := rec.find(t, "reactor.run.interrupted"); !strings.Contains(ev.Fields["error"].(string), c.want.Error()) {
				t.Errorf("interrupted: %v", ev.Fields)
			}
		})
	}
}

// Hooks that nobody wrote end too, marked as skipped, wherever in the order
// they stand; they never begin.
// spec: K-466, K-469, C-689
func TestEventsOfHooksThatNobodyWrote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written string // nodes with hooks
		want    []string
	}{
		"none":   {"", []string{"compensate.completed c skipped", "undo.completed b skipped", "undo.completed a skipped"}},
		"first":  {"a", []string{"undo.started a", "undo.completed a", "compensate.completed c skipped", "undo.completed b skipped"}},
		"middle": {"b", []string{"undo.started b", "undo.completed b", "compensate.completed c skipped", "undo.completed a skipped"}},
		"last":   {"c", []string{"compensate.started c", "compensate.completed c", "undo.completed b skipped", "undo.completed a skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			r := engine.MustDefine("some_hooks", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				last := engine.Pick(in, func(n int) int { return n })
				for _, name := range []string{"a", "b", "c"} {
					n := engine.Step(b, name, last, func(_ context.Context, n int) (int, error) {
						if name == "c" {
							return 0, errDeclined
						}
						return n, nil
					})
					if strings.Contains(c.written, name) {
						n.Undo(func(context.Context, int, int) error { return nil }).Compensate(func(context.Context, int, error) error { return nil })
					}
					last = n
				}
				return last
			})
			if _, err := r.Run(t.Context(), engine.InMemoryWith(rec.middleware), 1); !errors.Is(err, errDeclined) {
				t.Fatal(err)
			}
			var got []string
			for i, kind := range rec.kinds() {
				if !strings.HasPrefix(kind, "compensate") && !strings.HasPrefix(kind, "undo") {
					continue
				}
				if rec.events[i].Fields["skipped"] == true {
					kind += " skipped"
				}
				got = append(got, kind)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events of hooks (-want +got):\n%s", diff)
			}
		})
	}
}

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// lines is a log whose lines a test may read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// told is each line as its level, event and the attributes asked for.
func (l *lines) told(t *testing.T, attributes ...string) (told []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range bytes.Split(bytes.TrimSpace(l.buf.Bytes()), []byte("\n")) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, name := range []string{"run", "reactor", "event"} {
			if fields[name] == nil || fields[name] == "" {
				t.Errorf("no %s in %s", name, line)
			}
		}
		s := fmt.Sprint(fields["level"], " ", fields["event"])
		for _, name := range attributes {
			if v := fields[name]; v != nil {
				s += fmt.Sprintf(" %s=%v", name, v)
			}
		}
		told = append(told, s)
	}
	return told
}

// What happens to a run is told in lines with the name of the event and what it
// is about.
// spec: C-688, K-501..K-503, K-505, K-507..K-509
func TestLines(t *testing.T) {
	t.Parallel()
	l := &lines{}
	failing := true
	r := engine.MustDefine("told", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (positive, error) { return positive{n}, nil })
		b1 := engine.Step(b, "b", a, func(context.Context, positive) (int, error) {
			if failing {
				return 0, errDeclined
			}
			return -1, nil
		}).Retry(2, engine.Fixed(10*time.Millisecond))
		return engine.Step(b, "c", engine.Pick(b1, func(n int) positive { return positive{n} }), func(_ context.Context, p positive) (int, error) { return p.N, nil })
	})
	h := newHost(t, engine.Config{Logger: l.logger()}, r)
	run := func() string {
		started, err := r.Start(t.Context(), h.Engine, 1)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the run ends", func() bool { h.drive(t); return h.view(t, started.ID).Status.Final() })
		return started.ID
	}
	ended := run()
	failing = false
	run()
	if err := h.Drive(t.Context(), engine.Wake{Runs: []string{ended}, Queue: "reactor", Priority: 1}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DEBUG reactor.run.claimed",
		"WARN reactor.step.retry path=b attempt=1 error=card declined delay=1e+07",
		"INFO reactor.run.parked path=b wait=time",
		"DEBUG reactor.run.claimed",
		"ERROR reactor.step.failed path=b attempt=2 error=card declined",
		"WARN reactor.run.finished path=b failure=card declined status=failed",
		"DEBUG reactor.run.claimed",
		"WARN reactor.step.invalid_input path=c attempt=1 fields=map[N:must be above 0]",
		"ERROR reactor.step.failed path=c attempt=1 error=input is invalid: N: must be above 0",
		"WARN reactor.run.finished path=c failure=input is invalid: N: must be above 0 status=failed",
		"DEBUG reactor.wake.dropped reason=already final",
	}
	if diff := cmp.Diff(want, l.told(t, "path", "attempt", "wait", "reason", "error", "fields", "failure", "status", "delay")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for _, line := range l.told(t, "kind") {
		if !strings.HasSuffix(line, "kind=root") && !strings.Contains(line, "dropped") {
			t.Errorf("%s does not say the kind of the run", line)
		}
	}
}

// spec: K-501, K-503, C-984
func TestLineOfATakeover(t *testing.T) {
	t.Parallel()
	l, g := &lines{}, newGate()
	r := pair(g.pass, nil)
	dead, store := frailHost(t, quick(engine.Config{}), r)
	came := make(chan error, 1)
	go func() { _, err := r.Run(t.Context(), dead.Engine, 1); came <- err }()
	<-g.at
	health, err := store.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from := health.Processes[0].ID
	if err := store.Unregister(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	<-came
	close(g.open)
	h := dead.beside(t, engine.Config{Logger: l.logger()}, r)
	if _, err := h.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	told := l.told(t, "previous_process", "status")
	if want := []string{"INFO reactor.run.claimed previous_process=" + from, "INFO reactor.run.finished status=completed"}; !slices.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
}

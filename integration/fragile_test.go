package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

// A shard says where the reactor that it goes through panics.
type shard struct{ How, At string }

// Validate panics if that is where.
func (s shard) Validate() error {
	if s.How == "validates "+s.At {
		panic(s.How)
	}
	return nil
}

// fragile is a -> b, of which something panics.
func fragile(l *ledger) *engine.Reactor[shard, shard] {
	return engine.MustDefine("fragile", func(d *engine.Builder, in engine.Ref[shard]) engine.Ref[shard] {
		a := engine.Step(d, "a", in, func(ctx context.Context, s shard) (shard, error) { l.note(ctx, "do"); return s, nil }).
			Undo(func(ctx context.Context, s, _ shard) error { l.note(ctx, "undo"); crack(s.How, "undo"); return nil })
		joined := engine.Join2(a, in, func(a, in shard) shard { crack(in.How, "join"); return shard{a.How, "input"} })
		return engine.Step(d, "b", joined, func(ctx context.Context, s shard) (shard, error) {
			l.note(ctx, "do")
			shatter(s.How)
			if s.How == "undo" || s.How == "compensate" {
				return s, errScripted
			}
			return shard{s.How, "result"}, nil
		}).Guard(func(_ context.Context, s shard) error { crack(s.How, "guard"); return nil }).
			Compensate(func(ctx context.Context, s shard, _ error) error {
				l.note(ctx, "compensate")
				crack(s.How, "compensate")
				return nil
			})
	})
}

func crack(how, at string) {
	if how == at {
		panic(how + " panics")
	}
}

// shatter panics in one of the ways of bodies.
func shatter(how string) {
	var counts map[string]int
	var nothing *shard
	switch how {
	case "string":
		panic("out of paper")
	case "error":
		panic(errors.New("no ink"))
	case "nil":
		panic(nil) //nolint:govet // a nil panic is the case
	case "map":
		//lint:ignore SA5000 the panic is the case
		counts["x"]++
	case "pointer":
		nothing.How = "x"
	case "division":
		_ = 1 / len(counts)
	case "deep":
		fall(10_000)
	case "goroutine":
		came := make(chan any)
		go func() {
			defer func() { came <- recover() }()
			panic("in a goroutine")
		}()
		panic(<-came)
	}
}

func fall(n int) {
	if n == 0 {
		panic("at the bottom")
	}
	fall(n - 1)
}

// Whatever panics, and in whatever way, is a failure of its step and never of
// the process: the next run is worked by the same one, whose only worker it is.
// spec: C-853, C-854, C-268, C-302, C-606, C-612
func TestPanicsInAWorkerProcess(t *testing.T) {
	t.Parallel()
	const body, before = "do a#1, do b#1, compensate b#1, undo a#1", "do a#1, undo a#1"
	b := newBench(t)
	w := startWorker(t, "w", b.url, callerRole+"="+loneWorker)
	r := fragile(&ledger{pool: b.pool})
	eng := starter(t, b.pool, r)
	for how, c := range map[string]struct{ text, effects, rollback string }{
		"string":           {"panic: out of paper", body, ""},
		"error":            {"panic: no ink", body, ""},
		"nil":              {"panic: panic called with nil argument", body, ""},
		"map":              {"panic: assignment to entry in nil map", body, ""},
		"pointer":          {"invalid memory address or nil pointer dereference", body, ""},
		"division":         {"integer divide by zero", body, ""},
		"goroutine":        {"panic: in a goroutine", body, ""},
		"deep":             {"panic: at the bottom", body, ""},
		"validates result": {"panic: validates result", body, ""},
		"guard":            {"panic: guard panics", before, ""},
		"join":             {"its input could not be made: panic: join panics", before, ""},
		"validates input":  {"panic: validates input", before, ""},
		"undo":             {"as the job says", body, "undo a panicked"},
		"compensate":       {"as the job says", body, "compensate b panicked"},
	} {
		h, err := r.Start(t.Context(), eng, shard{How: how, At: "start"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Wait(t.Context())
		f, ok := errors.AsType[*engine.RunError](err)
		if !ok || f.Node != "b" || !strings.HasPrefix(err.Error(), "reactor fragile, run "+h.ID+": step b failed (attempt 1 of 1): ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", how, err)
			continue
		}
		if panicked := c.rollback == ""; panicked != (f.Code == "panic") || panicked != (len(f.Stack) > 0) || len(f.Stack) > 101 {
			t.Errorf("%s: code %q, %d frames", how, f.Code, len(f.Stack))
		}
		if how == "deep" && !strings.Contains(f.Stack[100], "more") {
			t.Errorf("the last line of a cut stack is %q", f.Stack[100])
		}
		rollback := ""
		for _, r := range f.Rollback {
			rollback += fmt.Sprintf("%s %s %s", r.Kind, r.Node, r.Reason)
		}
		if got := effects(t, b.pool, h.ID); got != c.effects || rollback != c.rollback {
			t.Errorf("%s: effects %s\nwant %s\nrollback failures %q, want %q", how, got, c.effects, rollback, c.rollback)
		}
		if res, err := b.start(t, job{}).Wait(t.Context()); err != nil || res.Status != engine.Completed {
			t.Errorf("the run after %s: %+v, %v", how, res, err)
		}
	}
	w.signal(syscall.SIGINT)
	if code := w.wait(t); code != 0 {
		t.Errorf("the worker ended with %d: %s", code, w.log())
	}
}

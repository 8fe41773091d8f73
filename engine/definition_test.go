package engine_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares text with a file under testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

type bad struct{ Done chan bool }

func up(_ context.Context, s string) (string, error) { return s, nil }

// spec: C-22, C-27, C-40, C-51, C-53
// spec: C-58, C-59, C-72, C-73, C-75, C-77, C-78
// spec: C-222, C-224, C-800, C-803, C-804, C-807, C-808, C-810
func TestDefinitionProblems(t *testing.T) {
	t.Parallel()
	var leaked engine.Ref[string]
	engine.MustDefine("other", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		leaked = engine.Step(b, "leak", in, up)
		return leaked
	})
	var nilNode *engine.StepNode[string, string]
	_, err := engine.Define("checkout", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[bad] {
		b.Version(0)
		b.Deadline(-time.Second)
		b.Timeout(0)
		b.Timeout(time.Second)
		first := engine.Step(b, "first", in, up)
		engine.Step(b, "first", first, up)
		engine.Step(b, "Bad Name", first, up)
		engine.Step(b, strings.Repeat("x", 65), first, up)
		engine.Step(b, "stranger", leaked, up)
		engine.Step[string, string](b, "forgotten", nil, up)
		engine.Step[string, string](b, "nil_node", nilNode, up)
		engine.Step[string, string](b, "no_body", first, nil)
		engine.Do[string](b, "no_do", first, nil)
		engine.Step(b, "no_pick", engine.Pick[string, string](first, nil), up)
		engine.Step(b, "no_join", engine.Join3[string, string, string, string](first, first, first, nil), up)
		late := engine.Step(b, "late", first, up).Retry(0, nil)
		engine.Step(b, "hooks", first, up).Undo(nil).Compensate(nil).Guard(nil).RetryIf(nil)
		engine.Step(b, "twice", first, up).Retry(2, nil).Retry(3, nil).Timeout(time.Second).Timeout(0)
		engine.Step(b, "exponential", first, up).Retry(2, engine.Exponential(-time.Second))
		engine.Step(b, "linear", first, up).Retry(2, engine.Linear(-time.Second).Cap(time.Second).Jitter(0.5))
		engine.Step(b, "fixed", first, up).Retry(2, engine.Fixed(-time.Second))
		engine.Step(b, "jitter", first, up).Retry(2, engine.Fixed(time.Second).Jitter(1.5))
		engine.Step(b, "cap", first, up).Retry(2, engine.Fixed(time.Second).Cap(-1))
		first.After(late)
		late.After(late)
		return engine.Step(b, "bad", late, func(context.Context, string) (bad, error) { return bad{}, nil })
	})
	if err == nil {
		t.Fatal("want problems")
	}
	if _, ok := errors.AsType[*engine.DefinitionError](err); !ok {
		t.Errorf("%T is no DefinitionError", err)
	}
	golden(t, "problems.txt", err.Error()+"\n")

	defer func() {
		if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "has no nodes") {
			t.Errorf("MustDefine panicked with %v", p)
		}
	}()
	engine.MustDefine("empty", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] { return in })
}

// spec: C-27, C-47, C-52
func TestDefinitionWithoutResult(t *testing.T) {
	t.Parallel()
	_, err := engine.Define("nothing", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		engine.Step(b, "a", in, up)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "its result is nil") {
		t.Errorf("nil result: %v", err)
	}
	if _, err = engine.Define[string, string]("unbuilt", nil); err == nil || !strings.Contains(err.Error(), "build is nil") {
		t.Errorf("nil build: %v", err)
	}
}

// spec: C-77
func TestSealedDefinition(t *testing.T) {
	t.Parallel()
	var kept *engine.StepNode[string, string]
	var builder *engine.Builder
	engine.MustDefine("sealed", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		builder, kept = b, engine.Step(b, "a", in, up)
		return kept
	})
	for name, change := range map[string]func(){
		"step a":  func() { kept.Retry(2, nil) },
		"step b":  func() { engine.Step(builder, "b", kept, up) },
		"version": func() { builder.Version(2) },
	} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, name) || !strings.Contains(p, "sealed") {
					t.Errorf("%s: panic %q does not name it", name, p)
				}
			}()
			change()
			t.Errorf("%s: no panic", name)
		}()
	}
}

type order struct {
	Lines []line `json:"lines"`
	Card  string `json:"card" reactor:"redact"`
}

type line struct {
	SKU string `json:"sku"`
	N   int    `json:"n"`
}

// spec: C-30, C-36, C-166, C-811
func TestGraph(t *testing.T) {
	t.Parallel()
	r := graphed(1)
	golden(t, "checkout.graph", r.Graph())
	if r.Fingerprint() != graphed(1).Fingerprint() {
		t.Error("the same graph has another fingerprint")
	}
	if r.Fingerprint() == graphed(2).Fingerprint() {
		t.Error("another version has the same fingerprint")
	}
}

// graphed has each kind of wiring; its retries and limits are not in the graph.
func graphed(version int) *engine.Reactor[order, string] {
	return engine.MustDefine("checkout", func(b *engine.Builder, in engine.Ref[order]) engine.Ref[string] {
		b.Version(version)
		b.Deadline(time.Duration(version) * time.Hour)
		lines := engine.Step(b, "lines", engine.Pick(in, func(o order) []line { return o.Lines }),
			func(context.Context, []line) (int, error) { return 1, nil }).Retry(version, nil)
		both := engine.Join2(in, lines, func(o order, n int) string { return o.Card })
		pay := engine.Step(b, "pay", both, up)
		none := engine.Do(b, "note", engine.Nothing, func(context.Context, struct{}) error { return nil }).After(pay)
		five := engine.Join5(in, lines, pay, none, engine.Const(4), func(o order, n int, p string, _ struct{}, four int) string { return p })
		engine.Step(b, "four", engine.Join4(in, lines, pay, none, func(order, int, string, struct{}) string { return "" }), up)
		return engine.Step(b, "end", five, up)
	})
}

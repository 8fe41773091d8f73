package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// spec: C-811
func TestWhatAFingerprintIsMadeOf(t *testing.T) {
	t.Parallel()
	type settings struct {
		name, first, second, third string
		settle                     func(*engine.Builder, *engine.StepNode[string, string])
		after                      bool
		body                       func(context.Context, string) (string, error)
	}
	build := func(change func(*settings)) string {
		s := settings{name: "prints", first: "a", second: "b", third: "c", settle: func(*engine.Builder, *engine.StepNode[string, string]) {}, body: up}
		change(&s)
		r := engine.MustDefine(s.name, func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
			a := engine.Step(b, s.first, in, s.body)
			s.settle(b, a)
			other := told(b, s.second, in)
			last := told(b, s.third, a)
			if s.after {
				last.After(other)
			}
			return last
		})
		if !strings.HasSuffix(r.Graph(), "fingerprint "+r.Fingerprint()+"\n") {
			t.Errorf("the graph does not end with the fingerprint:\n%s", r.Graph())
		}
		return r.Fingerprint()
	}
	was := build(func(*settings) {})
	for name, change := range map[string]func(*settings){
		"a body": func(s *settings) { s.body = func(context.Context, string) (string, error) { return "", nil } },
		"retries": func(s *settings) {
			s.settle = func(_ *engine.Builder, n *engine.StepNode[string, string]) { n.Retry(7, nil) }
		},
		"time limits": func(s *settings) {
			s.settle = func(b *engine.Builder, n *engine.StepNode[string, string]) {
				n.Timeout(time.Hour)
				b.Timeout(time.Minute)
				b.Deadline(time.Hour)
			}
		},
		"hooks": func(s *settings) {
			s.settle = func(_ *engine.Builder, n *engine.StepNode[string, string]) {
				n.Undo(func(context.Context, string, string) error { return nil }).Guard(func(context.Context, string) error { return nil })
			}
		},
	} {
		if build(change) != was {
			t.Errorf("%s changed it", name)
		}
	}
	for name, change := range map[string]func(*settings){
		"the reactor's name": func(s *settings) { s.name = "reprints" },
		"a node's name":      func(s *settings) { s.first = "x" },
		"the order of nodes": func(s *settings) { s.second, s.third = "c", "b" },
		"a dependency":       func(s *settings) { s.after = true },
		"the version": func(s *settings) {
			s.settle = func(b *engine.Builder, _ *engine.StepNode[string, string]) { b.Version(2) }
		},
	} {
		if build(change) == was {
			t.Errorf("%s did not change it", name)
		}
	}
}

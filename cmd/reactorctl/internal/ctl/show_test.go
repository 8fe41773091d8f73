package ctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

func TestShow(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	for ends, id := range ids {
		s := l.call("show", id)
		s.want(t, codeOK, "")
		golden(t, "show_"+ends+".golden", s.out)
		if strings.Contains(s.out, card) {
			t.Errorf("%s: the card is shown:\n%s", ends, s.out)
		}
		if strings.ContainsRune(s.out, '\x1b') {
			t.Errorf("%s: an escape sequence from outside, or a colour, reaches a file:\n%q", ends, s.out)
		}
	}
	refused := l.call("show", "0199b6f0-7a41-7000-8000-000000000007")
	golden(t, "show_refused.golden", refused.out)
}

func TestShowJSON(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	s := l.call("show", ids["stuck"], "-o", "json")
	s.want(t, codeOK, "")
	golden(t, "show.json.golden", s.out)
	var v runView
	if err := json.Unmarshal([]byte(s.out), &v); err != nil || v.RunID != ids["stuck"] || v.Failure.Rollback[0].Node != "charge" {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestShowByTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.run("book", "completed")
	for _, arg := range []string{id[:6], id[:35], id, strings.ToUpper(id), " " + id} {
		if s := l.call("show", arg); s.code != codeOK || !strings.HasPrefix(s.out, "run       "+id) {
			t.Errorf("show %q: code %d, %q %q", arg, s.code, s.out, s.err)
		}
	}
	l.run("book", "completed")
	l.call("show", id[:20]).want(t, codeUsage, "more than one run begins with 0199b6f0-7a41-7000-8, such as ")
	l.call("show", "0199b6f0-7a41-7000-9").want(t, codeNotFound, "run not found: no id begins with 0199b6f0-7a41-7000-9")
}

func TestRunsThatAreNotThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, command := range []string{"show", "why"} {
		for _, c := range []struct {
			id      string
			code    int
			message string
		}{
			{"0199b6f0-0000-7000-8000-000000000000", codeNotFound, "run not found: 0199b6f0-0000-7000-8000-000000000000"},
			{"order-7", codeNotFound, `run not found: "order-7" is no id`},
			{"0199", codeNotFound, `"0199" is no id`},
			{"' or 1=1 --", codeNotFound, "is no id"},
			{"", codeUsage, "the id of the run is empty"},
		} {
			s := l.call(command, c.id)
			s.want(t, c.code, c.message)
			if s.out != "" {
				t.Errorf("%s %q: there is output: %q", command, c.id, s.out)
			}
		}
		l.call(command).want(t, codeUsage, "takes the id of one run, or its beginning, and 0 arguments were given")
		l.call(command, "a", "b").want(t, codeUsage, "2 arguments were given")
	}
}

func TestLongValuesAreCut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.run(strings.Repeat("long", 5000), "completed")
	s := l.call("show", id)
	s.want(t, codeOK, "")
	if len(s.out) > 4000 || !strings.Contains(s.out, "… (19.6 KiB; --full shows all)") {
		t.Errorf("%d bytes, want the input cut, with its size and how to see all of it:\n%.500s", len(s.out), s.out)
	}
	if full := l.call("show", id, "--full"); !strings.Contains(full.out, strings.Repeat("long", 5000)) {
		t.Errorf("--full shows %d bytes", len(full.out))
	}
}

// Every state of a node and every end of a hook has words of its own.
func TestStatesAreToldApart(t *testing.T) {
	t.Parallel()
	seen := map[string]engine.NodeView{}
	for _, state := range []engine.NodeState{
		"pending", engine.NodeRunning, engine.NodeWaiting, engine.NodeDispatched, engine.NodeDone, engine.NodeSkipped,
		engine.NodeFailed, engine.NodeHalted, engine.NodeOpen, "invented",
	} {
		for _, hook := range []string{"", "undo", "compensate", "undo_all"} {
			for _, end := range []engine.HookState{engine.HookRunning, engine.HookCompleted, engine.HookFailed, engine.HookSkipped} {
				n := engine.NodeView{State: string(state), Hook: hook, HookState: string(end)}
				if hook == "" {
					n.HookState = ""
				}
				words, _ := stateOf(&n)
				if other, ok := seen[words]; ok && (other.State != n.State || other.Hook != n.Hook || other.HookState != n.HookState) {
					t.Errorf("%+v and %+v are both %q", other, n, words)
				}
				seen[words] = n
			}
		}
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		noColor bool
		env     map[string]string
	}{{true, nil}, {false, map[string]string{"NO_COLOR": "1"}}, {false, map[string]string{"TERM": "dumb"}}, {false, nil}} {
		a := &app{noColor: c.noColor, console: Console{Env: func(name string) string { return c.env[name] }}}
		if a.colored(&strings.Builder{}) {
			t.Errorf("%+v: colours for what is no terminal", c)
		}
	}
	if got := term.Paint("x", statusColors[engine.Failed], true); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("got %q", got)
	}
}

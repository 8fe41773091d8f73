package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
)

// A stage is where the audience sees the demo.
type stage struct {
	out     io.Writer
	colored bool
	began   time.Time // the act
	act     int
}

func (s *stage) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// title opens an act.
func (s *stage) title(text string) {
	s.act++
	s.began = time.Now()
	s.printf("\n%s\n", term.Paint(fmt.Sprintf("Order %d, %s", s.act, text), term.Bold, s.colored))
}

// say is a remark within an act.
func (s *stage) say(format string, args ...any) {
	s.line("", "", fmt.Sprintf(format, args...), term.Yellow)
}

// line is one line of an act: since when, who, which step, what.
func (s *stage) line(who, step, what string, c term.Color) {
	s.printf("  %s  %-8s  %-6s  %s\n", term.Paint(fmt.Sprintf("%5.2fs", time.Since(s.began).Seconds()), term.Dim, s.colored),
		who, step, term.Paint(term.Clean(what), c, s.colored))
}

// show shows an event, if it is one to show.
func (s *stage) show(ev event) {
	if what, c := words(ev); what != "" {
		s.line(ev.worker.name(), ev.Path, what, c)
	}
}

// words is an event in words, "" for one that is not shown.
func words(ev event) (string, term.Color) {
	switch ev.Kind {
	case "reactor.run.started":
		if ev.TakenOver {
			return "takes the run over", term.Yellow
		}
	case "reactor.run.ended":
		return "run " + ev.State, map[string]term.Color{"completed": term.Green, "failed": term.Red}[ev.State]
	case "reactor.step.started":
		if ev.Recovery > 0 {
			return "begins again, under the same key " + ev.Key, term.Yellow
		}
		return "begins, under key " + ev.Key, term.Plain
	case "reactor.step.completed":
		return ev.State, term.Green
	case "reactor.step.failed":
		return "failed: " + ev.Error, term.Red
	case "reactor.undo.completed", "reactor.compensate.completed":
		if !ev.Skipped {
			return "undone", term.Purple
		}
	case "reactor.undo.failed", "reactor.compensate.failed":
		return "not undone: " + ev.Error, term.Red
	}
	return "", term.Plain
}

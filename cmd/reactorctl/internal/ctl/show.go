package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

// show shows one run.
type show struct {
	app  *app
	run  string
	full bool
}

func newShow(a *app) *cobra.Command {
	c := &show{app: a}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run: steps, values, failure, rollback",
		Long: `Show one run: its steps in the order in which they ended, with values,
attempts and what a rollback did with them; how it failed; what could not be
rolled back; what is done and not undone. RUN is the id of a run, or its
beginning if no other run begins so.

Redacted values stay redacted. Long values are cut; --full shows all of them.`,
		Example: `  reactorctl show 0199b6f0-7a41
  reactorctl show 0199b6f0-7a41 -o json | jq .nodes`,
		Args:              oneRun,
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.run = args[0]
			return c.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&c.full, "full", false, "do not cut values")
	return cmd
}

// Run writes the run.
func (c *show) Run(ctx context.Context, out io.Writer) error {
	return c.app.withEngine(ctx, func(eng *engine.Engine) error {
		id, err := findRun(ctx, eng, c.run)
		if err != nil {
			return err
		}
		v, err := eng.Get(ctx, id)
		if err != nil {
			return err
		}
		if c.app.asJSON() {
			return writeJSON(out, viewOf(&v))
		}
		p := &page{Printer: term.Printer{Out: out}, colored: c.app.colored(out), full: c.full}
		p.header(&v)
		p.nodes(&v)
		p.failure(v.Failure)
		p.end(&v)
		return p.Err
	})
}

// A page is a run as text.
type page struct {
	term.Printer
	colored, full bool
}

func (p *page) field(name, text string) {
	if text != "" {
		p.Printf("%-9s %s\n", name, text)
	}
}

func (p *page) header(v *engine.View) {
	p.field("run", v.RunID)
	p.field("reactor", fmt.Sprintf("%s v%d", v.Reactor, v.Version))
	p.field("status", term.Paint(string(v.Status), statusColors[v.Status], p.colored))
	if v.Kind != string(engine.Root) {
		p.field("kind", fmt.Sprintf("%s of run %s, tree %s", v.Kind, v.ParentID, v.RootID))
	}
	for _, f := range []struct{ name, text string }{
		{"blocked", v.Blocked}, {"suspended", v.Suspended}, {"waits for", v.Waiting}, {"reason", v.Reason}, {"owner", v.Owner},
	} {
		p.field(f.name, term.Wrap(term.Clean(f.text), 10))
	}
	p.field("created", term.Moment(v.Created))
	if !v.Started.IsZero() {
		p.field("started", term.Moment(v.Started))
	}
	if !v.Ended.IsZero() {
		p.field("ended", term.Moment(v.Ended)+", after "+term.Took(v.Created, v.Ended))
	}
	p.field("queue", fmt.Sprintf("%s, priority %d", v.Queue, v.Priority))
	p.field("tags", term.Clean(strings.Join(v.Tags, ", ")))
	p.field("input", p.value(v.Input))
	p.field("output", p.value(v.Output))
}

// shownValue is how many characters of a value are shown.
const shownValue = 240

// value is a value as it is shown.
func (p *page) value(raw json.RawMessage) string {
	text := term.Clean(string(raw))
	if short := term.Cut(text, shownValue); !p.full && short != text {
		return fmt.Sprintf("%s (%s; --full shows all)", short, term.Size(len(raw)))
	}
	return text
}

func (p *page) nodes(v *engine.View) {
	if len(v.Nodes) == 0 {
		p.Printf("\nno step has begun\n")
		return
	}
	longest := 0
	for i := range v.Nodes {
		longest = max(longest, len(v.Nodes[i].Path))
	}
	p.Printf("\nsteps\n")
	for i := range v.Nodes {
		p.node(&v.Nodes[i], longest)
	}
}

func (p *page) node(n *engine.NodeView, longest int) {
	state, c := stateOf(n)
	p.Printf("  %-*s  %s%s\n", longest, n.Path, term.Paint(state, c, p.colored), circumstances(n))
	for _, f := range []struct{ name, text string }{
		{"input", p.value(n.Input)}, {"output", p.value(n.Output)}, {"error", term.Wrap(term.Clean(n.Failure), 14)},
		{"reason", term.Wrap(term.Clean(n.Reason), 14)}, {"run", n.RunID},
	} {
		if f.text != "" {
			p.Printf("      %-7s %s\n", f.name, f.text)
		}
	}
}

// states are those of nodes, in words.
var states = map[string]struct {
	word  string
	color term.Color
}{
	"pending": {"not reached", term.Dim}, string(engine.NodeRunning): {"at work", term.Blue}, string(engine.NodeWaiting): {"waits for its next attempt", term.Blue},
	string(engine.NodeDispatched): {"dispatched", term.Blue}, string(engine.NodeDone): {"done", term.Green},
	string(engine.NodeSkipped): {"skipped", term.Cyan}, string(engine.NodeFailed): {"failed", term.Red},
	string(engine.NodeHalted): {"halted the run", term.Cyan}, string(engine.NodeOpen): {"cut off, may have had effects", term.Purple},
}

// hooks are the ends of a rollback's hook, in words, by hook and state.
var hooks = map[string]string{
	"undo completed": "undone", "undo failed": "UNDO FAILED", "undo skipped": "no undo is written", "undo running": "its undo was cut off",
	"compensate completed": "compensated", "compensate failed": "COMPENSATE FAILED",
	"compensate skipped": "no compensate is written", "compensate running": "its compensate was cut off",
}

// stateOf is what became of a node, in words.
func stateOf(n *engine.NodeView) (string, term.Color) {
	s, known := states[n.State]
	if !known {
		s.word = n.State
	}
	if n.Hook == "" {
		return s.word, s.color
	}
	hook, known := hooks[n.Hook+" "+n.HookState]
	if !known {
		hook = n.Hook + " " + n.HookState
	}
	if n.HookState == string(engine.HookFailed) {
		s.color = term.Red
	}
	return s.word + ", " + hook, s.color
}

// circumstances are the numbers of a node.
func circumstances(n *engine.NodeView) string {
	var parts []string
	if n.Attempts > 1 {
		parts = append(parts, term.Count(n.Attempts, "attempt", "attempts"))
	}
	if n.Recovered > 0 {
		parts = append(parts, "taken over "+term.Count(n.Recovered, "time", "times"))
	}
	if !n.Started.IsZero() && !n.Ended.IsZero() {
		parts = append(parts, "took "+term.Took(n.Started, n.Ended))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func (p *page) failure(e *engine.RunError) {
	if e == nil {
		return
	}
	p.Printf("\nfailure\n")
	if e.Node != "" {
		p.Printf("  %s %s failed in attempt %d of %d\n", e.NodeKind, e.Node, e.Attempt, e.Attempts)
	}
	p.Printf("  %s\n", term.Paint(term.Wrap(term.Clean(messageOf(e.Err)), 2), term.Red, p.colored))
	for _, name := range sortedFields(e.Fields) {
		p.Printf("  field %s: %s\n", term.Clean(name), term.Clean(e.Fields[name]))
	}
	if e.Code != "" {
		p.Printf("  code %s\n", term.Clean(e.Code))
	}
	if len(e.Stack) > 0 {
		p.Printf("  %s of a stack: -o json shows them\n", term.Count(len(e.Stack), "frame", "frames"))
	}
	if len(e.Rollback) == 0 {
		return
	}
	p.Printf("\nnot rolled back: put it right by hand\n")
	for _, r := range e.Rollback {
		p.Printf("  %s %s: %s (%s)\n", r.Kind, r.Node, term.Wrap(term.Clean(messageOf(r.Err)), 4), r.Reason)
	}
}

func sortedFields(f engine.FieldErrors) []string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *page) end(v *engine.View) {
	p.Printf("\n")
	if len(v.ToUndo) > 0 && v.Status.Final() && v.Status != engine.Completed {
		p.Printf("left to undo: %s\n", strings.Join(v.ToUndo, ", "))
	}
	trace := "-"
	if len(v.Trace) > 0 {
		trace = strings.Join(v.Trace, ", ")
	}
	p.Printf("trace: %s\n", term.Wrap(trace, 7))
}

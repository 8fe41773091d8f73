package ctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

// runs lists runs.
type runs struct {
	app          *app
	status       []string
	since, until string
	input        []string
	query        engine.Query
}

var statuses = []string{
	string(engine.Pending), string(engine.Running), string(engine.Paused), string(engine.RollingBack), string(engine.Completed),
	string(engine.Halted), string(engine.Failed), string(engine.Cancelled), string(engine.Aborted),
}

var kinds = []string{string(engine.Root), string(engine.Child), string(engine.Unit), string(engine.Element)}

func newRuns(a *app) *cobra.Command {
	c := &runs{app: a}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs, newest first",
		Long: `List runs, newest first: 50, or as many as --limit says, at most 500. All
filters must fit. Where there are more runs a message names the --cursor of
the next page; no run is missed or shown twice while new ones are started.

Times are 90m, 2h or 7d, for so long ago, or a date such as 2026-01-31,
or 2026-01-31T15:04:05Z. They are about the creation of a run.`,
		Example: `  reactorctl runs --status failed,aborted --since 1h
  reactorctl runs --reactor checkout --input sku=book
  reactorctl runs --inbox
  reactorctl runs -o json | jq -r '.runs[].run_id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&c.status, "status", nil, "only these `statuses`: "+strings.Join(statuses, ", "))
	flags.StringVar(&c.query.Reactor, "reactor", "", "only runs of the reactor with this `name`")
	flags.StringVar(&c.query.Kind, "kind", "", "root, child, unit or element (default root)")
	flags.StringSliceVar(&c.query.Tags, "tag", nil, "only runs with this `tag`; given more than once: with all of them")
	flags.StringVar(&c.since, "since", "", "only runs created since this `time`")
	flags.StringVar(&c.until, "until", "", "only runs created before this `time`")
	flags.StringArrayVar(&c.input, "input", nil, "only runs whose input has this `field=value` at its top; may be given more than once")
	flags.BoolVar(&c.query.Blocked, "blocked", false, "only runs whose definition fits no worker")
	flags.StringVar(&c.query.Waiting, "waiting", "", "only runs that wait for this `reason`: time")
	flags.BoolVar(&c.query.Inbox, "inbox", false, "only runs that wait for an operator")
	flags.IntVar(&c.query.Limit, "limit", 50, "most runs to list, at most 500")
	flags.StringVar(&c.query.Cursor, "cursor", "", "`where` to go on, as the page before has said")
	flags.Lookup("waiting").NoOptDefVal = "time"
	fixed(cmd, "status", statuses...)
	fixed(cmd, "kind", kinds...)
	fixed(cmd, "waiting", "time")
	return cmd
}

// Run writes the runs that fit.
func (c *runs) Run(ctx context.Context, out io.Writer) error {
	if err := c.read(time.Now()); err != nil {
		return err
	}
	return c.app.withEngine(ctx, func(eng *engine.Engine) error {
		page, err := eng.List(ctx, c.query)
		if err != nil {
			return err
		}
		if c.app.asJSON() {
			return writeJSON(out, pageOf(page))
		}
		return c.write(out, page)
	})
}

// read makes the query of the flags.
func (c *runs) read(now time.Time) (err error) {
	for _, s := range c.status {
		if !slices.Contains(statuses, s) {
			return usage("--status %s: the statuses are %s", quoted(s), strings.Join(statuses, ", "))
		}
		c.query.Status = append(c.query.Status, engine.Status(s))
	}
	if c.query.Kind != "" && !slices.Contains(kinds, c.query.Kind) {
		return usage("--kind %s: the kinds are %s", quoted(c.query.Kind), strings.Join(kinds, ", "))
	}
	if c.query.Waiting != "" && c.query.Waiting != "time" {
		return usage("--waiting %s: what a run can wait for is time", quoted(c.query.Waiting))
	}
	if c.query.Since, err = instant("since", c.since, now); err != nil {
		return err
	}
	if c.query.Until, err = instant("until", c.until, now); err != nil {
		return err
	}
	for _, pair := range c.input {
		field, value, ok := strings.Cut(pair, "=")
		if !ok || field == "" {
			return usage("--input %s: write it as field=value", quoted(pair))
		}
		if c.query.Input == nil {
			c.query.Input = map[string]string{}
		}
		c.query.Input[field] = value
	}
	if c.query.Limit <= 0 {
		c.query.Limit = 50
	}
	c.query.Limit = min(c.query.Limit, 500)
	return nil
}

// instant is the time that a flag gives, the zero time if it is not set.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.Atoi(n); err == nil && days >= 0 && days < 100_000 {
			return now.AddDate(0, 0, -days), nil
		}
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--%s %s: write 90m, 2h or 7d for so long ago, or 2026-01-31, or 2026-01-31T15:04:05Z", flag, quoted(text))
}

// A runsPage is a list of runs in JSON.
type runsPage struct {
	Runs []runView `json:"runs"`
	Next string    `json:"next"` // the cursor of the next page; "" on the last
}

func pageOf(page engine.Page) runsPage {
	p := runsPage{Runs: []runView{}, Next: page.Next}
	for i := range page.Runs {
		p.Runs = append(p.Runs, viewOf(&page.Runs[i]))
	}
	return p
}

func (c *runs) write(out io.Writer, page engine.Page) error {
	if len(page.Runs) == 0 {
		c.app.tell("no run fits")
		return nil
	}
	now := time.Now()
	t := term.Table{Head: []string{"RUN", "STATUS", "REACTOR", "CREATED"}, Colored: c.app.colored(out)}
	for i := range page.Runs {
		v := &page.Runs[i]
		t.Add(term.Cell{Text: v.RunID}, status(v.Status), term.Cell{Text: term.Cut(v.Reactor, 16)}, term.Cell{Text: term.Ago(now, v.Created)})
		t.Note(notesOf(v)...)
	}
	if err := t.Write(out); err != nil {
		return err
	}
	if page.Next != "" {
		c.app.tell("there are more: add --cursor %s", page.Next)
	}
	return nil
}

// status is a status as it is shown.
func status(s engine.Status) term.Cell { return term.Cell{Text: string(s), Color: statusColors[s]} }

var statusColors = map[engine.Status]term.Color{
	engine.Running: term.Blue, engine.Paused: term.Blue, engine.RollingBack: term.Yellow, engine.Completed: term.Green,
	engine.Halted: term.Cyan, engine.Failed: term.Red, engine.Cancelled: term.Purple, engine.Aborted: term.Purple,
}

// notesOf is what its status does not say of a run.
func notesOf(v *engine.View) (notes []string) {
	for _, n := range []struct{ word, text string }{
		{"blocked", v.Blocked}, {"suspended", v.Suspended}, {"waits for", v.Waiting}, {"reason", v.Reason},
	} {
		if n.text != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", n.word, term.Clean(n.text)))
		}
	}
	if f := v.Failure; f != nil {
		notes = append(notes, term.Clean(strings.TrimPrefix(f.Node+": "+messageOf(f.Err), ": ")))
	}
	if v.Kind != string(engine.Root) {
		notes = append(notes, v.Kind+" of run "+v.ParentID)
	}
	return notes
}

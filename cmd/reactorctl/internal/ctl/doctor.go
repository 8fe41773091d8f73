package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
)

// doctor checks the set-up and the live system.
type doctor struct{ app *app }

func newDoctor(a *app) *cobra.Command {
	c := &doctor{app: a}
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the set-up and the live system, and say what to do",
		Long: `Check the set-up and the live system, and say what to do: the server and its
settings, our schema, River's tables, the clocks, the processes and their
leases, queues that nobody works, runs that nothing will wake.

The exit code is 0 if nothing is bad; a warning is not. It is 6 without a
connection, 7 if the schema or River's tables do not fit, else 1. doctor
reads, and changes nothing.`,
		Example: `  reactorctl doctor
  reactorctl doctor -o json | jq '.findings[] | select(.level != "ok")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// The levels of a finding.
const (
	ok   = "ok"
	warn = "warn"
	bad  = "bad"
)

var levelColors = map[string]term.Color{ok: term.Green, warn: term.Yellow, bad: term.Red}

// A finding is what one check found.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	ToDo  string `json:"to_do,omitempty"`
	code  int    // exit code if it is bad; 0 is codeOther
}

// Findings are all of them.
type findings []finding

func (f *findings) add(check, level, todo, format string, args ...any) *finding {
	*f = append(*f, finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), ToDo: todo})
	return &(*f)[len(*f)-1]
}

// failed is the exit code and the number of bad findings; the first one decides.
func (f findings) failed() (code, n int) {
	for _, finding := range f {
		if finding.Level != bad {
			continue
		}
		if n++; n == 1 {
			code = max(finding.code, codeOther)
		}
	}
	return code, n
}

// Run writes what was found. Something bad is an error.
func (c *doctor) Run(ctx context.Context, out io.Writer) error {
	url, err := c.app.databaseURL()
	if err != nil {
		return err
	}
	all := &findings{}
	if err := c.examine(ctx, url, all); err != nil {
		return err
	}
	if err := c.write(out, *all); err != nil {
		return err
	}
	if code, n := all.failed(); n > 0 {
		return &failure{code: code, text: "doctor: " + term.Count(n, "thing is bad", "things are bad")}
	}
	return nil
}

// examine makes all checks. Its error is one that left nothing to say.
func (c *doctor) examine(ctx context.Context, url string, all *findings) error {
	pool, err := connect(ctx, url)
	if f, ok := errors.AsType[*failure](err); ok && f.code == codeNoConnection {
		all.add("connection", bad, "see to it that the database can be reached from here", "%s", f.text).code = codeNoConnection
		return nil
	}
	if err != nil {
		return err
	}
	defer pool.Close()
	e := &examination{app: c.app, pool: pool, findings: all}
	for _, check := range []func(context.Context) error{e.server, e.settings, e.schema, e.rivers, e.pausedQueues, e.system} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *doctor) write(out io.Writer, all findings) error {
	if c.app.asJSON() {
		_, n := all.failed()
		return writeJSON(out, struct {
			OK       bool     `json:"ok"`
			Findings findings `json:"findings"`
		}{n == 0, all})
	}
	p := &term.Printer{Out: out}
	longest := 0
	for _, f := range all {
		longest = max(longest, len(f.Check))
	}
	indent := 4 + 2 + longest + 2
	for _, f := range all {
		level := term.Paint(fmt.Sprintf("%-4s", f.Level), levelColors[f.Level], c.app.colored(out))
		p.Printf("%s  %-*s  %s\n", level, longest, f.Check, term.Wrap(term.Clean(f.Text), indent))
		if f.ToDo != "" {
			p.Printf("%s-> %s\n", strings.Repeat(" ", indent), term.Wrap(term.Clean(f.ToDo), indent+3))
		}
	}
	return p.Err
}

// An examination is the checks of one database, in their order.
type examination struct {
	app *app
	*findings
	pool  *pgxpool.Pool
	fits  bool // our schema can be read
	river bool // there are tables of River
}

// text reads the one text of a query's one row.
func (e *examination) text(ctx context.Context, sql string, args ...any) (text string, err error) {
	err = e.pool.QueryRow(ctx, sql, args...).Scan(&text)
	return text, err
}

// riverTable is the name of one of River's tables, for a statement.
func (e *examination) riverTable(name string) string {
	if e.app.riverSchema == "" {
		return name
	}
	return pgx.Identifier{e.app.riverSchema, name}.Sanitize()
}

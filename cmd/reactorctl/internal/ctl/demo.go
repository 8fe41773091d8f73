package ctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/demo"
	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
)

// demoSchema is where the demo puts its tables, River's too, in a database that
// is not its own: nothing there is shared with an application.
const demoSchema = "reactor_demo"

// play plays the demo.
type play struct {
	app           *app
	keep          bool
	schemasChosen bool // by flags
}

func newDemo(a *app) *cobra.Command {
	c := &play{app: a}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See runs succeed, fail and be undone, and survive the death of a worker",
		Long: `Play three orders of examples/checkout (hold stock, charge the card, ship)
through two workers, each a process of its own: one order is shipped; one
fails and is undone; one loses its worker to SIGKILL while it charges, and the
other worker takes it over. The steps are shown as they happen. At the end the
database is asked whether all ended as promised; only then the exit code is 0.

It takes about ten seconds and uses a PostgreSQL of its own, which is gone
afterwards, unless --keep is given: then all goes on until Ctrl-C. If this
machine has no PostgreSQL, one is downloaded once. DATABASE_URL is not read.

With --database it plays in your database, in schema "` + demoSchema + `" unless
--schema and --river-schema name others, and leaves its runs there.`,
		Example: `  reactorctl demo
  reactorctl demo --keep
  reactorctl demo --database postgres://app@localhost/app`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.schemasChosen = cmd.Flags().Changed("schema") || cmd.Flags().Changed("river-schema")
			return c.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&c.keep, "keep", false, "leave it running until Ctrl-C, to look around")
	return cmd
}

// Run plays the demo and writes its report.
func (c *play) Run(ctx context.Context, out io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program that the workers are to run: %w", err)
	}
	o := demo.Options{
		Database: c.app.database, Schema: c.app.schema, RiverSchema: c.app.riverSchema, Keep: c.keep,
		Program: program, Out: out, Colored: c.app.colored(out), Connect: connect,
	}
	if o.Database != "" && !c.schemasChosen {
		o.Schema, o.RiverSchema = demoSchema, demoSchema
	}
	if c.app.asJSON() {
		o.Out, o.Colored = c.app.console.Err, c.app.colored(c.app.console.Err)
	}
	o.Kept = func(r demo.Report) error {
		if err := c.write(out, o, r); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	report, err := demo.Play(ctx, o)
	if err != nil {
		return err
	}
	if !c.keep {
		err = c.write(out, o, report)
	}
	if err == nil && !report.OK {
		err = &failure{code: codeOther, text: "demo: not all runs ended as promised"}
	}
	return err
}

func (c *play) write(out io.Writer, o demo.Options, r demo.Report) error {
	if c.app.asJSON() {
		return writeJSON(out, r)
	}
	if err := r.Write(out, o.Colored); err != nil {
		return err
	}
	p := &term.Printer{Out: out}
	if o.Database != "" {
		p.Printf("\n%s", leftBehind(o))
	}
	if c.keep {
		p.Printf("\n%s", lookAround(o, r))
	}
	return p.Err
}

// leftBehind says what stays in a database that is not the demo's.
func leftBehind(o demo.Options) string {
	if o.Schema != demoSchema {
		return fmt.Sprintf("Left in your database: the three runs and the table demo_calls in schema %q,\nand River's tables.\n", o.Schema)
	}
	return fmt.Sprintf("Left in your database: schema %q, with all that the demo made. To remove it:\n\n  drop schema %s cascade;\n", demoSchema, demoSchema)
}

// lookAround says what can be done with a demo that goes on.
func lookAround(o demo.Options, r demo.Report) string {
	var s strings.Builder
	s.WriteString("It goes on until Ctrl-C. In another terminal:\n\n")
	if r.Database != "" {
		fmt.Fprintf(&s, "  export DATABASE_URL='%s'\n", r.Database)
	}
	flags := ""
	if o.Schema != "reactor" {
		flags = " --schema " + o.Schema
	}
	program := programName(o.Program)
	fmt.Fprintf(&s, "  %s runs%s\n", program, flags)
	for _, run := range r.Runs {
		fmt.Fprintf(&s, "  %s show %s%s\n", program, run.RunID[:13], flags)
	}
	return s.String()
}

// programName is how a reader calls this program.
func programName(path string) string {
	if strings.Contains(path, "go-build") { // of go run
		return "go run ./cmd/reactorctl"
	}
	return "reactorctl"
}

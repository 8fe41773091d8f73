package ctl

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/migrations/schema"
)

// Main runs reactorctl with the arguments and returns its exit code.
func Main(ctx context.Context, args []string, console Console) int {
	a := &app{console: console}
	root := newRoot(a)
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	root.SetIn(console.In)
	root.SetOut(console.Out)
	root.SetErr(console.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return codeOK
	}
	if text := errorText(ctx, err); text != "" {
		a.tell("reactorctl: %s", text)
	}
	return codeOf(err)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "reactorctl",
		Short: "Look after durable runs in PostgreSQL",
		Long: `reactorctl looks after the runs that an application with Reactor keeps in its
PostgreSQL: it makes the tables, lists and explains runs, and checks the
set-up.

The database is that of --database, else that of DATABASE_URL. Commands that
only look need the right to SELECT and nothing else. What a command found goes
to the standard output, as a table or with -o json as JSON; messages go to the
standard error. "reactorctl help exit-codes" lists the exit codes.`,
		Example: `  reactorctl demo
  DATABASE_URL=postgres://app@localhost/app reactorctl migrate
  reactorctl runs --status failed --since 1h
  reactorctl why 0199b6f0-7a41`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noSuchCommand,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkFlags() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s: %s (%s --help lists the flags)", cmd.Name(), masked(err.Error()), cmd.CommandPath())
	})
	a.addFlags(root)
	root.AddCommand(
		newMigrate(a), newDev(a), newDemo(a), newDemoWorker(a), newRuns(a), newShow(a), newWhy(a),
		newDoctor(a), newVersion(a), newExitCodes(),
	)
	return root
}

func (a *app) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.database, "database", "", "connection string of the `URL` form or of key=value pairs (default $DATABASE_URL)")
	flags.StringVar(&a.schema, "schema", schema.Default, "schema of our tables")
	flags.StringVar(&a.riverSchema, "river-schema", "", "schema of River's tables (default the first of the search path)")
	flags.StringVarP(&a.output, "output", "o", "table", "form of the result: table or json")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours (default: colours on a terminal only)")
	fixed(root, "output", outputs...)
}

var outputs = []string{"table", "json"}

// checkFlags refuses values of the shared flags that no command can use.
func (a *app) checkFlags() error {
	if !slices.Contains(outputs, a.output) {
		return usage("-o %s: the forms are table and json", quoted(a.output))
	}
	if err := schema.ValidName(a.schema); err != nil {
		return usage("--schema: %v", err)
	}
	return nil
}

// fixed completes a flag from a list of values.
func fixed(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(fmt.Sprintf("complete --%s of %s: %v", flag, cmd.Name(), err)) // there is no such flag
	}
}

// noSuchCommand refuses a first argument that is no command.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s has no command %s", cmd.CommandPath(), quoted(args[0]))
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ": did you mean " + near[0] + "?"
	}
	return usage("%s (%s --help lists them)", text, cmd.CommandPath())
}

// noArguments refuses arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument, and %s was given", cmd.CommandPath(), quoted(args[0]))
	}
	return nil
}

// oneRun wants the id of one run.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s takes the id of one run, or its beginning, and %d arguments were given", cmd.CommandPath(), len(args))
	}
	return nil
}

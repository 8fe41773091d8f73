package ctl

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/migrations"
)

// migrateSQL prints the migrations.
type migrateSQL struct {
	app   *app
	after int64
	down  bool
}

func newMigrateSQL(a *app) *cobra.Command {
	c := &migrateSQL{app: a}
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print our migrations for a tool of your own",
		Long: `Print our migrations, without River's, for a tool of your own. goose takes
them in a file with a number of yours, psql as they are. No database is asked.`,
		Example: `  reactorctl migrate sql | psql "$DATABASE_URL"
  reactorctl migrate sql --after 1 > migrations/0043_reactor.sql`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().Int64Var(&c.after, "after", 0, "the `version` that is there already")
	cmd.Flags().BoolVar(&c.down, "down", false, "print the way back")
	return cmd
}

// Run prints the SQL.
func (c *migrateSQL) Run(_ context.Context, out io.Writer) error {
	text := &strings.Builder{}
	if err := migrations.SQL(text, migrations.Script{Schema: c.app.schema, After: c.after, Down: c.down}); err != nil {
		return usage("migrate sql: %v", err)
	}
	if c.app.asJSON() {
		return writeJSON(out, map[string]string{"sql": text.String()})
	}
	_, err := io.WriteString(out, text.String())
	return err
}

package ctl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/migrations"
)

// migrateUp brings the tables to the version of this program.
type migrateUp struct {
	app   *app
	river bool
}

func newMigrate(a *app) *cobra.Command {
	c := &migrateUp{app: a}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables, or bring them to the version of this program",
		Long: `Make the tables, or bring them to the version of this program; without a word
it is "migrate up". It is safe in several processes at once.

River's tables are made where there are none. Where there are, they are
checked and left alone, unless --river is given. Other schemas than "reactor"
and the first of the search path are named by --schema and --river-schema;
give the same names to your program.`,
		Example: `  reactorctl migrate --database postgres://app@localhost/app
  reactorctl migrate status
  reactorctl migrate sql > migrations/0042_reactor.sql`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().BoolVar(&c.river, "river", false, "bring River's tables to the version of this program too, whoever made them")
	up := &cobra.Command{
		Use:   "up",
		Short: "Bring the tables to the version of this program",
		Args:  noArguments,
		RunE:  cmd.RunE,
	}
	up.Flags().AddFlagSet(cmd.Flags())
	cmd.AddCommand(up, newMigrateDown(a), newMigrateStatus(a), newMigrateSQL(a))
	return cmd
}

// Run migrates and writes what it did.
func (c *migrateUp) Run(ctx context.Context, out io.Writer) error {
	return c.app.withMigrator(ctx, func(m *migrations.Migrator, _ *pgxpool.Pool) error {
		report, err := c.migrate(ctx, m)
		if err != nil && report.After.Latest == 0 {
			return err // nothing was found out
		}
		if written := c.app.writeReport(out, report); written != nil {
			return written
		}
		return err
	})
}

// migrate is up, and River's too if that was asked for.
func (c *migrateUp) migrate(ctx context.Context, m *migrations.Migrator) (migrations.Report, error) {
	if !c.river {
		return m.Up(ctx)
	}
	rivers, err := m.UpRiver(ctx)
	if err != nil {
		return rivers, err
	}
	report, err := m.Up(ctx)
	report.Before = rivers.Before
	return report, err
}

func (a *app) writeReport(out io.Writer, r migrations.Report) error {
	if a.asJSON() {
		return writeJSON(out, r)
	}
	p := &term.Printer{Out: out}
	p.Printf("%s\n", oursChange(r))
	p.Printf("%s\n", riverChange(r))
	return p.Err
}

func oursChange(r migrations.Report) string {
	if r.Before.Version == r.After.Version {
		return fmt.Sprintf("schema %q: at version %d, nothing to do", r.After.Schema, r.After.Version)
	}
	return fmt.Sprintf("schema %q: from version %d to %d", r.After.Schema, r.Before.Version, r.After.Version)
}

func riverChange(r migrations.Report) string {
	switch {
	case !r.After.RiverTables:
		return riverNamed(r.After) + ": there are none"
	case !r.Before.RiverTables:
		return riverNamed(r.After) + ": made"
	case len(r.Before.RiverMissing) > len(r.After.RiverMissing):
		return riverNamed(r.After) + ": brought up to date"
	}
	return riverNamed(r.After) + ": were there, left alone"
}

func riverNamed(s migrations.State) string {
	if s.RiverSchema == "" {
		return "River's tables"
	}
	return fmt.Sprintf("River's tables in schema %q", s.RiverSchema)
}

// migrateStatus says what the database has.
type migrateStatus struct{ app *app }

func newMigrateStatus(a *app) *cobra.Command {
	c := &migrateStatus{app: a}
	return &cobra.Command{
		Use:   "status",
		Short: "Say which tables there are, and change nothing",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// Run writes the status.
func (c *migrateStatus) Run(ctx context.Context, out io.Writer) error {
	return c.app.withMigrator(ctx, func(m *migrations.Migrator, _ *pgxpool.Pool) error {
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		if c.app.asJSON() {
			return writeJSON(out, s)
		}
		p := &term.Printer{Out: out}
		p.Printf("%s\n", oursState(s))
		p.Printf("%s\n", riverState(s))
		return p.Err
	})
}

func oursState(s migrations.State) string {
	switch {
	case s.Version == 0:
		return fmt.Sprintf("schema %q: missing; this program needs version %d", s.Schema, s.Latest)
	case s.Version < s.Latest:
		return fmt.Sprintf("schema %q: at version %d; this program needs %d", s.Schema, s.Version, s.Latest)
	case s.Version > s.Latest:
		return fmt.Sprintf("schema %q: at version %d; this program knows %d", s.Schema, s.Version, s.Latest)
	}
	return fmt.Sprintf("schema %q: at version %d, as this program needs", s.Schema, s.Version)
}

func riverState(s migrations.State) string {
	switch {
	case !s.RiverTables:
		return riverNamed(s) + ": there are none"
	case !s.RiverVersioned:
		return riverNamed(s) + ": there, without a record of their version"
	case len(s.RiverMissing) > 0:
		return fmt.Sprintf("%s: lack version %s", riverNamed(s), strings.Trim(strings.ReplaceAll(fmt.Sprint(s.RiverMissing), " ", ", "), "[]"))
	}
	return riverNamed(s) + ": up to date"
}

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

// confirm asks a question with yes or no. Where nobody can be asked it refuses.
func (a *app) confirm(question string) error {
	if !term.IsTerminal(a.console.In) {
		return usage("%s Nobody can be asked here: give --yes", question)
	}
	fmt.Fprintf(a.console.Err, "%s Go on? [y/N] ", term.Clean(question))
	answer, _ := bufio.NewReader(a.console.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &failure{code: codeOther, text: "nothing was changed"}
	}
	return nil
}

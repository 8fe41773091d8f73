package ctl

import (
	"context"
	"fmt"
	"io"

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

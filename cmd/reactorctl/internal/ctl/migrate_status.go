package ctl

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/migrations"
)

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

package ctl

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// migrateDown takes versions of the tables back.
type migrateDown struct {
	app         *app
	steps       int
	yes, dryRun bool
}

func newMigrateDown(a *app) *cobra.Command {
	c := &migrateDown{app: a}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take the last version of our tables back, with what is stored in them",
		Long: `Take the last version of our tables back, with what is stored in them. At
version 1 that is everything: each run, finished or not. It says what will
happen and asks; without a terminal it refuses unless --yes is given. River's
tables stay.`,
		Example: `  reactorctl migrate down --dry-run`,
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().IntVar(&c.steps, "steps", 1, "how many versions to take back")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would happen and change nothing")
	return cmd
}

// Run takes the versions back.
func (c *migrateDown) Run(ctx context.Context, out io.Writer) error {
	if c.steps < 1 {
		return usage("--steps %d: at least 1 is needed", c.steps)
	}
	return c.app.withMigrator(ctx, func(m *migrations.Migrator, pool *pgxpool.Pool) error {
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		switch {
		case s.Version == 0:
			return &schema.MissingError{Schema: s.Schema}
		case s.Version > s.Latest:
			return &schema.NewerError{Schema: s.Schema, Version: s.Version, Knows: s.Latest}
		}
		question, err := c.question(ctx, s, pool)
		if err != nil {
			return err
		}
		if c.dryRun {
			p := &term.Printer{Out: out}
			p.Printf("%s\nNothing was changed.\n", question)
			return p.Err
		}
		if !c.yes {
			if err := c.app.confirm(question); err != nil {
				return err
			}
		}
		report, err := m.Down(ctx, c.steps)
		if err != nil {
			return err
		}
		return c.app.writeReport(out, report)
	})
}

// question says what will happen, and to whom.
func (c *migrateDown) question(ctx context.Context, s migrations.State, pool *pgxpool.Pool) (string, error) {
	to := max(s.Version-int64(c.steps), 0)
	what := fmt.Sprintf("This takes schema %q from version %d to %d.", s.Schema, s.Version, to)
	if to > 0 || s.Version < s.Latest {
		return what, nil
	}
	eng, err := c.app.reader(pool)
	if err != nil {
		return "", err
	}
	defer eng.Close(context.WithoutCancel(ctx))
	health, err := eng.Health(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s All runs are deleted, %s not finished, and %s.", what, unfinished(health), atWork(health)), nil
}

func unfinished(h *engine.Health) string {
	n := 0
	for _, runs := range h.Counts {
		n += runs
	}
	return term.Count(n, "of them", "of them")
}

// atWork says how many processes would lose their tables.
func atWork(h *engine.Health) string {
	live := 0
	for _, p := range h.Processes {
		if p.Lease.After(h.Clock) {
			live++
		}
	}
	if live == 1 {
		return "1 process that is at work loses its tables"
	}
	return fmt.Sprintf("%d processes that are at work lose their tables", live)
}

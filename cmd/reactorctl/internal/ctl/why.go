package ctl

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

// why explains where a run is.
type why struct {
	app *app
	run string
}

func newWhy(a *app) *cobra.Command {
	c := &why{app: a}
	return &cobra.Command{
		Use:   "why RUN",
		Short: "Explain why a run is where it is",
		Long: `Explain why a run is where it is and what would move it: at work in which
process, waiting for which time after which error, due and not picked up and
why not, blocked by which difference; of a run that has ended, how. RUN is the
id of a run, or its beginning if no other run begins so.`,
		Example:           `  reactorctl why 0199b6f0-7a41`,
		Args:              oneRun,
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.run = args[0]
			return c.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

// Run writes the explanation.
func (c *why) Run(ctx context.Context, out io.Writer) error {
	return c.app.withEngine(ctx, func(eng *engine.Engine) error {
		id, err := findRun(ctx, eng, c.run)
		if err != nil {
			return err
		}
		text, err := eng.Why(ctx, id)
		if err != nil {
			return err
		}
		if c.app.asJSON() {
			return writeJSON(out, struct {
				RunID string `json:"run_id"`
				Why   string `json:"why"`
			}{id, text})
		}
		p := &term.Printer{Out: out}
		p.Printf("%s\n", term.Wrap(term.Clean(text), 0))
		return p.Err
	})
}

package ctl

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/demo"
)

// demoWorker is a worker of the demo, which starts it.
type demoWorker struct{ app *app }

func newDemoWorker(a *app) *cobra.Command {
	c := &demoWorker{app: a}
	return &cobra.Command{
		Use:    "demo-worker",
		Short:  "Work for the demo, which starts it",
		Hidden: true,
		Args:   noArguments,
		RunE:   func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// Run works until the input ends. What goes wrong is told to the demo, on out.
func (c *demoWorker) Run(ctx context.Context, out io.Writer) error {
	if err := demo.Work(ctx, c.app.console.In, out); err != nil {
		return &failure{code: codeOther, err: err}
	}
	return nil
}

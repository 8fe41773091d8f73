package ctl

import (
	"context"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/migrations/schema"
)

// version says what this program is.
type version struct{ app *app }

func newVersion(a *app) *cobra.Command {
	c := &version{app: a}
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the schema it needs",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// A versionView is what a program is, in JSON.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Schema   int64  `json:"schema"` // version of our tables that it needs
	River    string `json:"river,omitempty"`
	Go       string `json:"go"`
}

// Run writes the version.
func (c *version) Run(_ context.Context, out io.Writer) error {
	v := versionView{Version: "unknown", Schema: schema.Latest, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.fill(info)
	}
	if c.app.asJSON() {
		return writeJSON(out, v)
	}
	p := &term.Printer{Out: out}
	p.Printf("reactorctl %s\n", v.Version)
	if v.Revision != "" {
		p.Printf("revision   %s\n", v.Revision)
	}
	p.Printf("schema     %d\n", v.Schema)
	if v.River != "" {
		p.Printf("river      %s\n", v.River)
	}
	p.Printf("go         %s\n", v.Go)
	return p.Err
}

func (v *versionView) fill(info *debug.BuildInfo) {
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/riverqueue/river" {
			v.River = d.Version
		}
	}
}

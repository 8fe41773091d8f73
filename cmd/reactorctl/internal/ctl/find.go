package ctl

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

var (
	wholeID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	partOf  = regexp.MustCompile(`^[0-9a-f-]{6,35}$`)
)

// findRun is the id of the run that begins with text.
func findRun(ctx context.Context, eng *engine.Engine, text string) (string, error) {
	id := strings.ToLower(strings.TrimSpace(text))
	switch {
	case id == "":
		return "", usage("the id of the run is empty")
	case wholeID.MatchString(id):
		return id, nil
	case !partOf.MatchString(id):
		return "", notFound("run not found: %s is no id: an id is a UUID, or the first 6 or more characters of one", quoted(text))
	}
	page, err := eng.List(ctx, engine.Query{IDPrefix: id, Limit: 2})
	if err != nil {
		return "", err
	}
	switch len(page.Runs) {
	case 0:
		return "", notFound("run not found: no id begins with %s", id)
	case 1:
		return page.Runs[0].RunID, nil
	}
	return "", usage("more than one run begins with %s, such as %s and %s: give more of its id", id, page.Runs[0].RunID, page.Runs[1].RunID)
}

func notFound(format string, args ...any) error {
	return &failure{code: codeNotFound, text: fmt.Sprintf(format, args...), err: engine.ErrRunNotFound}
}

// completeRun completes the id of a run with the newest ones that fit.
func (a *app) completeRun(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	err := a.withEngine(cmd.Context(), func(eng *engine.Engine) error {
		page, err := eng.List(cmd.Context(), engine.Query{IDPrefix: strings.ToLower(begun), Limit: 20})
		for i := range page.Runs {
			v := &page.Runs[i]
			ids = append(ids, fmt.Sprintf("%s\t%s %s, %s", v.RunID, v.Reactor, v.Status, term.Ago(time.Now(), v.Created)))
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

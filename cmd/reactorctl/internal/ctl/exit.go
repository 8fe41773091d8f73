package ctl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// The exit codes.
const (
	codeOK           = 0
	codeOther        = 1
	codeUsage        = 2
	codeNotFound     = 3
	codeNoConnection = 6
	codeSchema       = 7
)

func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `The exit codes of reactorctl:

  0  all is done as asked
  1  anything that is not below; doctor: something is bad
  2  usage: an unknown command or flag, a bad value, no database named,
     a question that nobody could be asked
  3  not found: no run has this id
  4  conflict: the status of the run does not allow it (no command of this
     release changes runs)
  6  no connection to the database
  7  the schema is missing, older or newer than this program needs, or River's
     tables are`,
	}
}

// A failure is an error with an exit code of its own.
type failure struct {
	code int
	text string // for people; "" if they were told already
	err  error  // may be nil
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

func usage(format string, args ...any) error {
	return &failure{code: codeUsage, text: fmt.Sprintf(format, args...)}
}

// codeOf is the exit code of a command that returned err.
func codeOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	switch {
	case errors.Is(err, engine.ErrRunNotFound):
		return codeNotFound
	case isSchema(err):
		return codeSchema
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return codeNoConnection
	}
	return codeOther
}

// isSchema reports whether the tables do not fit this program.
func isSchema(err error) bool {
	_, missing := errors.AsType[*schema.MissingError](err)
	_, older := errors.AsType[*schema.OlderError](err)
	_, newer := errors.AsType[*schema.NewerError](err)
	_, river := errors.AsType[*migrations.RiverError](err)
	return missing || older || newer || river
}

// errorText is err as people read it, "" if there is nothing to say.
func errorText(ctx context.Context, err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return withoutState(f.text)
	}
	if ctx.Err() != nil {
		return "interrupted"
	}
	return masked(withoutState(err.Error()))
}

var sqlState = regexp.MustCompile(`\b(ERROR|FATAL|PANIC): | \(SQLSTATE \w{5}\)`)

// withoutState takes the code out of a text of PostgreSQL.
func withoutState(text string) string {
	if !strings.Contains(text, "(SQLSTATE ") {
		return text
	}
	return sqlState.ReplaceAllString(text, "")
}

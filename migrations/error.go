package migrations

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// explain says what went wrong while doing something, in words for people, and
// keeps err to be found by errors.As. Blockers are the sessions that hold the
// lock, if one was waited for in vain.
func explain(doing string, err error, blockers []string) error {
	if err == nil {
		return nil
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if pgErr.Code == pgerrcode.LockNotAvailable {
		return &explained{text: doing + ": " + lockText(blockers), err: err}
	}
	return &explained{text: doing + ": " + serverText(pgErr), err: err}
}

func lockText(blockers []string) string {
	who := cmp.Or(strings.Join(blockers, ", "), "another session")
	return fmt.Sprintf("waited %v for a lock that is held by %s: wait for the end of its transaction, or end it, and try again",
		lockTimeout, who)
}

// serverText leaves out the code that PostgreSQL's errors end with.
func serverText(e *pgconn.PgError) string {
	text := e.Message
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

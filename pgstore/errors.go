package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgreactor/reactor/engine"
)

// storeError is an error of the database in words for people: what was to be
// done and what the server said, without codes and connection settings. What
// it came from is wrapped.
type storeError struct {
	text  string
	cause []error
}

func (e *storeError) Error() string   { return e.text }
func (e *storeError) Unwrap() []error { return e.cause }

// described says of err what was being done.
func described(what string, err error) error {
	return &storeError{text: what + ": " + plainText(err), cause: []error{err}}
}

// refused is described for a write: an error that lies in what was to be
// written wraps engine.ErrUnstorable too.
func refused(what string, err error) error {
	if !unstorable(err) || errors.Is(err, engine.ErrUnstorable) {
		return described(what, err)
	}
	return &storeError{text: what + ": " + plainText(err), cause: []error{engine.ErrUnstorable, err}}
}

// unstorableError is an error that no repetition helps against and that was
// found without the database.
func unstorableError(format string, args ...any) error {
	return &storeError{text: fmt.Sprintf(format, args...), cause: []error{engine.ErrUnstorable}}
}

// plainText is err without a code, a connection string or a statement.
func plainText(err error) string {
	if e, ok := errors.AsType[*enqueueError](err); ok && error(e) != err {
		return e.Error()
	}
	text := err.Error()
	if broken(err) {
		text = "the connection to the database broke: " + text
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok {
		text = pg.Message
		if pg.Code == pgerrcode.LockNotAvailable {
			text = "another open transaction holds a lock that is needed: " + text
		}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if pg == nil {
			text = innermost(err).Error()
		}
		return "the database can't be reached: " + text
	}
	return text
}

// innermost is the last error of a chain, and the first one of a joined.
func innermost(err error) error {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			if len(e.Unwrap()) == 0 {
				return err
			}
			err = e.Unwrap()[0]
		default:
			return err
		}
	}
}

// unstorable reports whether the server refuses the values themselves: a row
// twice in one statement, data that a type can't hold, a constraint, a limit.
func unstorable(err error) bool {
	if _, ok := errors.AsType[*enqueueError](err); ok {
		return false // it lies in the queue, not in what was to be written
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgerrcode.IsCardinalityViolation(pg.Code) || pgerrcode.IsDataException(pg.Code) ||
		pgerrcode.IsIntegrityConstraintViolation(pg.Code) || pgerrcode.IsProgramLimitExceeded(pg.Code))
}

// errAgain is returned by a transaction that met a race and is to be tried
// once more.
var errAgain = errors.New("somebody else was at work on the same rows")

// tries is how often a transaction is tried.
const tries = 4

// repeat runs a transaction, again after a short pause if it met a deadlock or
// a broken connection. All transactions of this package recognise that they
// have landed before.
func repeat(ctx context.Context, transaction func() error) error {
	for try := 1; ; try++ {
		err := transaction()
		if err == nil || try == tries || ctx.Err() != nil || !repeatable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		}
	}
}

// repeatableCodes are the errors of a server that go away by themselves.
var repeatableCodes = []string{
	pgerrcode.SerializationFailure, pgerrcode.DeadlockDetected,
	pgerrcode.AdminShutdown, pgerrcode.CrashShutdown, pgerrcode.CannotConnectNow,
}

func repeatable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.Contains(repeatableCodes, pg.Code) || pgerrcode.IsConnectionException(pg.Code) || planChanged(pg)
	}
	return errors.Is(err, errAgain) || broken(err)
}

// planChanged reports whether a prepared statement is older than a migration;
// pgx prepares it anew at the next try.
func planChanged(pg *pgconn.PgError) bool {
	return pg.Code == pgerrcode.FeatureNotSupported && strings.Contains(pg.Message, "cached plan must not change result type")
}

// broken reports whether the connection is gone, so that the outcome is unknown.
func broken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

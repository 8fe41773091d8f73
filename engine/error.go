package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Met at the start of a run.
var (
	// ErrKeyConflict is returned by Start when its key has started a run on
	// another input.
	ErrKeyConflict = errors.New("the key has started a run on another input")
	// ErrNotRegistered is returned by Run and Start when the engine does not
	// know the reactor, or knows another definition of that name and version.
	ErrNotRegistered = errors.New("reactor not registered")
)

// Met in a body, as context.Cause of its context.
var (
	// ErrTimeout is the cause when the attempt's time limit has passed.
	ErrTimeout error = deadline("the attempt's timeout has passed")
	// ErrDeadline is the cause when the run's deadline has passed.
	ErrDeadline error = deadline("the run's deadline has passed")
	// ErrCancelled is the cause when the run is being cancelled, and what Run
	// and Wait return for a cancelled run.
	ErrCancelled = errors.New("run cancelled")
	// ErrUndone is the cause when the run is being undone.
	ErrUndone = errors.New("run is being undone")
	// ErrLeaseLost is the cause when another process may own the run by now,
	// and what Run returns when it lost its run.
	ErrLeaseLost = errors.New("another process may own the run by now")
	// ErrShutdown is the cause when the soft-stop time is over; the run goes on
	// elsewhere.
	ErrShutdown = errors.New("the process is shutting down")
)

// Met by operators and readers.
var (
	// ErrRunNotFound is returned when no run has the id.
	ErrRunNotFound = errors.New("run not found")
	// ErrAborted is what Wait returns for an aborted run.
	ErrAborted = errors.New("run aborted")
)

// Met by those who implement a Store.
var (
	// ErrUnstorable is wrapped by a Store in the error of a write that no
	// repetition can make acceptable: the database refuses the value itself.
	ErrUnstorable = errors.New("the database can't take this value")
)

// deadline is an error that matches context.DeadlineExceeded too.
type deadline string

func (d deadline) Error() string        { return string(d) }
func (d deadline) Is(target error) bool { return target == context.DeadlineExceeded }

// A RunError is how a failed run ends.
type RunError struct {
	Reactor, RunID    string
	Node, NodeKind    string          // the innermost path that failed and its kind; "" for the reactor's input
	Attempt, Attempts int             // which attempt failed, of how many
	Code              string          // ErrorCode() of the cause, or ours: contract, panic, timeout, deadline, value, recovery
	Type              string          // Go type of the root cause
	Permanent         bool            // retrying could not have helped
	Fields            FieldErrors     // when a contract was broken
	Input             json.RawMessage // of the node, redacted
	Stack             []string        // of a panic, at most 100 frames and a line that counts the rest
	Err               error           // the cause; after a restart what is stored of it
	Rollback          []RollbackError // what could not be compensated or undone, in the order of the rollback

	text    string   // the cause as people may read it: redacted and cut
	secrets []string // redacted values that must not turn up in what is stored
}

// Error names the reactor, the run, the node, the cause and what could not be
// rolled back.
func (e *RunError) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "reactor %s", e.Reactor)
	if e.RunID != "" {
		fmt.Fprintf(&s, ", run %s", e.RunID)
	}
	s.WriteString(": ")
	if e.Node != "" {
		fmt.Fprintf(&s, "%s %s failed", e.NodeKind, e.Node)
		if e.Attempts > 0 {
			fmt.Fprintf(&s, " (attempt %d of %d)", e.Attempt, e.Attempts)
		}
		s.WriteString(": ")
	}
	s.WriteString(e.text)
	if n := len(e.Rollback); n > 0 {
		fmt.Fprintf(&s, "; %d rollback failure(s): ", n)
		for i, r := range e.Rollback {
			if i > 0 {
				s.WriteString("; ")
			}
			s.WriteString(r.Error())
		}
	}
	return s.String()
}

// Unwrap is the cause.
func (e *RunError) Unwrap() error { return e.Err }

// A RollbackError is one compensate or undo that did not do its work.
type RollbackError struct {
	Node     string // the path
	Kind     string // compensate, undo, undo_all
	Reason   string // returned_error, panicked, timed_out, not_decodable, no_undo_code, crashed
	Key      string // the key that stayed busy
	Err      error  // after a restart its message
	At       time.Time
	Resolved string // retried, or the note of an operator; "" while it is open

	text string // the message as it is stored: redacted and cut
}

// Error is the kind, the path and the message.
func (e RollbackError) Error() string {
	text := e.text
	if text == "" {
		text = textOf(e.Err)
	}
	return fmt.Sprintf("%s %s: %s", e.Kind, e.Node, text)
}

// Unwrap is the hook's error.
func (e RollbackError) Unwrap() error { return e.Err }

// FieldErrors say what is wrong with a value: field to message.
type FieldErrors map[string]string

// Err is f as an error, nil if f is empty.
func (f FieldErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Error lists field and message, fields sorted.
func (f FieldErrors) Error() string {
	fields := make([]string, 0, len(f))
	for field := range f {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	for i, field := range fields {
		fields[i] = field + ": " + f[field]
	}
	return strings.Join(fields, "; ")
}

// A ValidationError is a value that broke its contract.
type ValidationError struct {
	What   string // input, result, payload
	Fields FieldErrors
	Err    error // what Validate returned
}

// Error reads: input is invalid: cents: must be above 0.
func (e *ValidationError) Error() string { return e.What + " is invalid: " + textOf(e.Err) }

// Unwrap is what Validate returned.
func (e *ValidationError) Unwrap() error { return e.Err }

// An EncodingError is a value that can't be stored or read back.
type EncodingError struct {
	Node   string // path; "" for the reactor's input
	Field  string // inside the value, as in items[2].price; "" for the value itself
	Reason string // the whole sentence

	panic *PanicError // in a method of the value's type, if that was it
}

// Error is the reason, which names the field.
func (e *EncodingError) Error() string { return e.Reason }

// Unwrap is the *PanicError if a method of the value's type panicked.
func (e *EncodingError) Unwrap() error {
	if e.panic == nil {
		return nil
	}
	return e.panic
}

// A PanicError is a panic in reactor code, with at most 100 frames and a line
// that counts the rest.
type PanicError struct {
	Value  any
	Frames []string
}

// Error starts with "panic: ".
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the panic's value if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A DefinitionError lists every problem of a definition, or of what New was
// given; then Reactor is "".
type DefinitionError struct {
	Reactor  string
	Problems []Problem

	causes []error // of New
}

// Error counts the problems of a definition and lists them, one a line. Those
// of New are lines that begin with "engine: ".
func (e *DefinitionError) Error() string {
	if e.causes != nil {
		return errors.Join(e.causes...).Error()
	}
	var s strings.Builder
	fmt.Fprintf(&s, "reactor %q: %d problem(s) in its definition", e.Reactor, len(e.Problems))
	for _, p := range e.Problems {
		fmt.Fprintf(&s, "\n\t%s: %s: %s", p.Pos, p.Node, p.Msg)
	}
	return s.String()
}

// Unwrap is what seams said of their options.
func (e *DefinitionError) Unwrap() []error { return e.causes }

// A Problem is one thing wrong with a definition, and where.
type Problem struct {
	Pos  string // file:line in the user's source
	Node string // kind and name
	Msg  string
}

// textOf is the text of an error that may panic or be nil.
func textOf(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T (its Error method panicked: %v)", err, p)
		}
	}()
	if err == nil {
		return ""
	}
	return err.Error()
}

// sentence is a text for people that matches a sentinel.
type sentence struct {
	text string
	is   error
}

func refuse(sentinel error, format string, args ...any) error {
	return &sentence{fmt.Sprintf(format, args...), sentinel}
}

func (r *sentence) Error() string { return r.text }
func (r *sentence) Unwrap() error { return r.is }

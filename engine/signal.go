package engine

import "errors"

// Halt, returned as the error of a body or guard hook, ends the run cleanly:
// what is done stays done, the rest does not run.
func Halt(reason string) error { return &halt{reason} }

// Skip, returned as the error of a body or guard hook, marks the step as one
// that had nothing to do; the value beside it is its result.
func Skip(reason string) error { return &skip{reason} }

// Permanent marks err as one that retrying can't help. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type halt struct{ reason string }

func (h *halt) Error() string { return "halt: " + h.reason }

type skip struct{ reason string }

func (s *skip) Error() string { return "skip: " + s.reason }

type permanent struct{ err error }

func (p *permanent) Error() string { return textOf(p.err) }
func (p *permanent) Unwrap() error { return p.err }

// isPermanent finds permanence at any depth of wrapping, also of a failure that
// was read back from the store or comes from another run.
func isPermanent(err error) bool {
	if _, ok := errors.AsType[*permanent](err); ok {
		return true
	}
	if s, ok := errors.AsType[*storedError](err); ok && s.permanent {
		return true
	}
	r, ok := errors.AsType[*RunError](err)
	return ok && r.Permanent
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The codes of failures that are ours. A cause with ErrorCode() string has its
// own.
const (
	codeContract = "contract"
	codePanic    = "panic"
	codeTimeout  = "timeout"
	codeDeadline = "deadline"
	codeValue    = "value"
	codeRecovery = "recovery"
)

// storedFailure is a RunError as it is kept: with the run, and with the node
// whose attempt failed. Its rollback failures lie with the nodes.
type storedFailure struct {
	Node      string          `json:"node,omitempty"`
	NodeKind  string          `json:"kind,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Attempts  int             `json:"attempts,omitempty"`
	Code      string          `json:"code,omitempty"`
	Type      string          `json:"type,omitempty"`
	Permanent bool            `json:"permanent,omitempty"`
	Fields    FieldErrors     `json:"fields,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Stack     []string        `json:"stack,omitempty"`
	Text      string          `json:"text"`
	Chain     []string        `json:"chain,omitempty"` // texts of the causes below
	Is        []string        `json:"is,omitempty"`    // sentinels that survive
}

// storedError is what is left of an error once it was read back.
type storedError struct {
	text      string
	chain     []string
	code      string
	permanent bool
	is        []string
}

func (s *storedError) Error() string { return s.text }

// ErrorCode is the code of the error that was stored.
func (s *storedError) ErrorCode() string { return s.code }

// Unwrap is the next text of the chain.
func (s *storedError) Unwrap() error {
	if len(s.chain) == 0 {
		return nil
	}
	return &storedError{text: s.chain[0], chain: s.chain[1:], code: s.code, permanent: s.permanent}
}

// Is recognises the sentinels that keep their identity in the store.
func (s *storedError) Is(target error) bool {
	for _, name := range s.is {
		if target == lasting[name] || errors.Is(lasting[name], target) {
			return true
		}
	}
	return false
}

// lasting are the errors that are recognised after a restart too.
var lasting = map[string]error{
	"canceled": context.Canceled, "deadline_exceeded": context.DeadlineExceeded,
	"timeout": ErrTimeout, "deadline": ErrDeadline,
}

// timedOut is a body or hook that returned an error after its limit.
type timedOut struct {
	path  string
	limit time.Duration
	err   error
}

func (t *timedOut) Error() string {
	return fmt.Sprintf("%s timed out after %s: %s", t.path, t.limit, textOf(t.err))
}
func (t *timedOut) Unwrap() error { return t.err }
func (t *timedOut) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// pastDeadline is what was at work, or next, when the run's deadline passed.
type pastDeadline struct {
	limit time.Duration
	err   error
}

func (p *pastDeadline) Error() string {
	if p.err == nil {
		return fmt.Sprintf("the run's deadline of %s has passed", p.limit)
	}
	return fmt.Sprintf("the run's deadline of %s has passed: %s", p.limit, textOf(p.err))
}
func (p *pastDeadline) Unwrap() error { return p.err }
func (p *pastDeadline) Is(target error) bool {
	return target == ErrDeadline || target == context.DeadlineExceeded
}

// lostTooOften is a node whose run was taken over again and again.
type lostTooOften struct{ times int }

func (l lostTooOften) Error() string     { return fmt.Sprintf("lost %d times", l.times) }
func (l lostTooOften) ErrorCode() string { return codeRecovery }

// notMade is an input, or a result of a run, that could not be made.
type notMade struct {
	what string
	err  error
}

func (n *notMade) Error() string { return "its " + n.what + " could not be made: " + textOf(n.err) }
func (n *notMade) Unwrap() error { return n.err }

// describe fills in what a RunError says of its cause. Secrets are the redacted
// values that must not turn up in its texts.
func (r *RunError) describe(err error, limit int, secrets []string) {
	r.Err = err
	r.text = shown(textOf(err), limit, secrets)
	r.Code, r.Type = codeOf(err), typeOf(err)
	r.Permanent = r.Permanent || isPermanent(err)
	if p, ok := errors.AsType[*PanicError](err); ok {
		for _, frame := range p.Frames {
			r.Stack = append(r.Stack, shown(frame, limit, secrets))
		}
	}
	if f, ok := errors.AsType[FieldErrors](err); ok {
		r.Fields = f
	}
	if v, ok := errors.AsType[*ValidationError](err); ok && len(v.Fields) > 0 {
		r.Fields = v.Fields
	}
	if other, ok := errors.AsType[*RunError](err); ok { // of another run, handed on
		r.Code, r.Type, r.Fields = other.Code, other.Type, other.Fields
	}
}

// shown is a text as people may read it.
func shown(text string, limit int, secrets []string) string {
	return cleanText(scrub(text, secrets), limit)
}

// codeOf is the code nearest to the root cause, or ours.
func codeOf(err error) (code string) {
	defer func() { _ = recover() }() // a user's ErrorCode or Unwrap may panic
	for e := err; e != nil; e = errors.Unwrap(e) {
		if c, ok := e.(interface{ ErrorCode() string }); ok && c.ErrorCode() != "" {
			code = c.ErrorCode()
		}
	}
	if code != "" {
		return code
	}
	return ourCode(err)
}

func ourCode(err error) string {
	if _, ok := errors.AsType[*ValidationError](err); ok {
		return codeContract
	}
	if _, ok := errors.AsType[*EncodingError](err); ok {
		return codeValue
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return codePanic
	}
	switch {
	case errors.Is(err, ErrDeadline):
		return codeDeadline
	case errors.Is(err, ErrTimeout):
		return codeTimeout
	}
	return ""
}

// typeOf is the Go type of the root cause.
func typeOf(err error) (name string) {
	defer func() { _ = recover() }()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if _, wrapper := e.(*permanent); !wrapper {
			name = fmt.Sprintf("%T", e)
		}
	}
	return name
}

// stored is r as it is kept.
func (r *RunError) stored(limit int, secrets []string) json.RawMessage {
	s := storedFailure{
		Node: r.Node, NodeKind: r.NodeKind, Attempt: r.Attempt, Attempts: r.Attempts,
		Code: r.Code, Type: r.Type, Permanent: r.Permanent, Fields: cleanFields(r.Fields, limit, secrets),
		Input: r.Input, Stack: r.Stack, Text: r.text, Chain: chainOf(r.Err, limit, secrets), Is: isOf(r.Err),
	}
	raw, err := json.Marshal(s)
	if err != nil { // the input is valid JSON, the rest are clean texts
		raw, _ = json.Marshal(storedFailure{Node: r.Node, NodeKind: r.NodeKind, Text: r.text})
	}
	return raw
}

func cleanFields(fields FieldErrors, limit int, secrets []string) FieldErrors {
	if len(fields) == 0 {
		return nil
	}
	clean := make(FieldErrors, len(fields))
	for field, msg := range fields {
		clean[cleanText(field, limit)] = shown(msg, limit, secrets)
	}
	return clean
}

// chainOf are the texts of the causes below err, as long as they are few.
func chainOf(err error, limit int, secrets []string) (texts []string) {
	defer func() { _ = recover() }()
	for e := errors.Unwrap(err); e != nil && len(texts) < 16; e = errors.Unwrap(e) {
		texts = append(texts, shown(textOf(e), limit, secrets))
	}
	return texts
}

func isOf(err error) (names []string) {
	for _, name := range []string{"canceled", "deadline_exceeded", "timeout", "deadline"} {
		if errors.Is(err, lasting[name]) {
			names = append(names, name)
		}
	}
	return names
}

// readFailure reads what stored wrote.
func readFailure(raw json.RawMessage, reactor, run string) *RunError {
	var s storedFailure
	if err := json.Unmarshal(raw, &s); err != nil {
		s = storedFailure{Text: "its stored failure can't be read: " + err.Error()}
	}
	return &RunError{
		Reactor: reactor, RunID: run, Node: s.Node, NodeKind: s.NodeKind, Attempt: s.Attempt, Attempts: s.Attempts,
		Code: s.Code, Type: s.Type, Permanent: s.Permanent, Fields: s.Fields, Input: s.Input, Stack: s.Stack, text: s.Text,
		Err: &storedError{text: s.Text, chain: s.Chain, code: s.Code, permanent: s.Permanent, is: s.Is},
	}
}

// storedHook is a RollbackError as it is kept with its node.
type storedHook struct {
	Kind   string    `json:"kind"`
	Reason string    `json:"reason"`
	Key    string    `json:"key,omitempty"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
	Note   string    `json:"resolved,omitempty"`
}

func (r RollbackError) stored(limit int, secrets []string) json.RawMessage {
	raw, err := json.Marshal(storedHook{Kind: r.Kind, Reason: r.Reason, Key: r.Key, Text: shown(textOf(r.Err), limit, secrets), At: r.At, Note: r.Resolved})
	if err != nil { // clean texts only
		panic(err)
	}
	return raw
}

func readHook(path string, raw json.RawMessage) RollbackError {
	var s storedHook
	if err := json.Unmarshal(raw, &s); err != nil {
		s.Text = "its stored failure can't be read: " + err.Error()
	}
	return RollbackError{Node: path, Kind: s.Kind, Reason: s.Reason, Key: s.Key, Err: &storedError{text: s.Text}, At: s.At, Resolved: s.Note, text: s.Text}
}

// valueError finds a refused value in an error; nil if there is none.
func valueError(err error) *EncodingError {
	e, _ := errors.AsType[*EncodingError](err)
	return e
}

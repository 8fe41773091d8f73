package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// node is a vertex of the graph with its types erased: executor and stores work
// on nodes and JSON. Its functions take and give the values of its types as any.
type node struct {
	kind, name, pos string
	scope           *Builder
	index           int
	deps            []*node
	settings        []string

	in, out   reflect.Type
	attempts  int
	backoff   Backoff
	retryIf   func(error) bool
	timeout   time.Duration
	readOnly  bool
	decodeIn  func(raw []byte) (any, error)
	decodeOut func(raw []byte) (any, error)
	zero      func() any                                // of Out
	check     func(e *Engine, what string, v any) error // the contract of a value of In or Out

	input      func(*frame) (any, error)
	guard      func(ctx context.Context, in any) error
	run        func(ctx context.Context, in any) (any, error)
	undo       func(ctx context.Context, in, out any) error
	compensate func(ctx context.Context, in any, cause error) error
}

// handle is the Ref[T] part of every typed node.
type handle[T any] struct{ n *node }

func (h handle[T]) nodes() []*node { return []*node{h.n} }

func (h handle[T]) resolve(fr *frame) (v T, err error) {
	raw, err := fr.value(h.n)
	if err != nil {
		return v, err
	}
	return v, h.n.unreadable(fr, decode(raw, &v))
}

// A StepNode is a step and the handle on its result.
type StepNode[In, Out any] struct{ handle[Out] }

// Step adds a step that turns in into an Out by calling run. Its name is what
// the database knows it by: keep it when you rename the function.
func Step[In, Out any](b *Builder, name string, in Ref[In], run func(context.Context, In) (Out, error)) *StepNode[In, Out] {
	n := b.add("step", name, in)
	b.notNil(n, "run", run == nil)
	n.in, n.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	n.decodeIn, n.decodeOut = decodeTo[In], decodeTo[Out]
	n.input = func(fr *frame) (any, error) { return in.resolve(fr) }
	n.check = checkEither[In, Out]
	n.zero = func() any { var zero Out; return zero }
	n.run = func(ctx context.Context, in any) (any, error) { return run(ctx, to[In](in)) }
	return &StepNode[In, Out]{handle[Out]{n}}
}

// Do is Step for a function with nothing to return.
func Do[In any](b *Builder, name string, in Ref[In], run func(context.Context, In) error) *StepNode[In, struct{}] {
	if run == nil {
		return Step[In, struct{}](b, name, in, nil)
	}
	return Step(b, name, in, func(ctx context.Context, v In) (struct{}, error) { return struct{}{}, run(ctx, v) })
}

// Guard checks in before the body; an error fails the step as never started: it
// is not retried and not compensated, and the done steps are undone.
func (s *StepNode[In, Out]) Guard(f func(context.Context, In) error) *StepNode[In, Out] {
	s.n.set("guard", f == nil)
	s.n.guard = func(ctx context.Context, in any) error { return f(ctx, to[In](in)) }
	return s
}

// Undo reverts the done step when a later one fails; it gets what run got and
// gave.
func (s *StepNode[In, Out]) Undo(f func(ctx context.Context, in In, out Out) error) *StepNode[In, Out] {
	s.n.set("undo", f == nil)
	s.n.undo = func(ctx context.Context, in, out any) error { return f(ctx, to[In](in), to[Out](out)) }
	return s
}

// Compensate cleans up after the step's own last failed attempt.
func (s *StepNode[In, Out]) Compensate(f func(ctx context.Context, in In, cause error) error) *StepNode[In, Out] {
	s.n.set("compensate", f == nil)
	s.n.compensate = func(ctx context.Context, in any, cause error) error { return f(ctx, to[In](in), cause) }
	return s
}

// Retry allows attempts attempts in all, the first one included, spaced by
// backoff; without Retry there is one. A nil backoff is
// Exponential(time.Second).Jitter(0.5).
func (s *StepNode[In, Out]) Retry(attempts int, backoff Backoff) *StepNode[In, Out] {
	s.n.set("retry", false)
	if attempts < 1 {
		s.n.problem(fmt.Sprintf("retry of %d attempts; it takes at least 1", attempts))
	}
	if why := backoff.refusal(); why != "" {
		s.n.problem(why)
	}
	s.n.attempts, s.n.backoff = attempts, backoff
	return s
}

// RetryIf retries only the errors for which f is true; a Permanent one never.
func (s *StepNode[In, Out]) RetryIf(f func(err error) bool) *StepNode[In, Out] {
	s.n.set("retry_if", f == nil)
	s.n.retryIf = f
	return s
}

// Timeout ends the context of each attempt after d, with ErrTimeout as its
// cause; it bounds undo and compensate too. The default is that of b.Timeout,
// for undo and compensate Config.HookTimeout.
func (s *StepNode[In, Out]) Timeout(d time.Duration) *StepNode[In, Out] {
	s.n.set("timeout", false)
	s.n.scope.positive(s.n, "timeout", d)
	s.n.timeout = d
	return s
}

// After makes the step wait for deps without taking their values.
func (s *StepNode[In, Out]) After(deps ...Dep) *StepNode[In, Out] {
	s.n.scope.open("step " + s.n.name)
	for _, d := range deps {
		s.n.scope.notNil(s.n, "after", isNil(d))
		if !isNil(d) {
			s.n.waitFor(d)
		}
	}
	return s
}

// ReadOnly says that the step has no effects, so that nobody misses its undo.
func (s *StepNode[In, Out]) ReadOnly() *StepNode[In, Out] {
	s.n.set("read_only", false)
	s.n.readOnly = true
	return s
}

// set notes a setting, to find one that is given twice or given nil.
func (n *node) set(name string, missing bool) {
	n.scope.open(n.kind + " " + n.name)
	if slices.Contains(n.settings, name) {
		n.problem(name + " is set twice")
	}
	n.settings = append(n.settings, name)
	n.scope.notNil(n, name, missing)
}

func (n *node) problem(msg string) { n.scope.problem(n, msg) }

func (b *Builder) notNil(n *node, what string, missing bool) {
	if missing {
		b.problem(n, what+" is nil")
	}
}

func (n *node) waitFor(deps ...Dep) {
	for _, d := range deps {
		for _, dn := range nodesOf(d) {
			n.waitForNode(dn)
		}
	}
}

func (n *node) waitForNode(d *node) {
	switch {
	case d == nil:
		n.problem("input is nil")
	case d == noFunction:
		n.problem("a Pick or Join that it uses has a nil function")
	case d.scope != n.scope:
		n.problem(fmt.Sprintf("uses %q of reactor %q, defined at %s", d.name, d.scope.def.name, d.pos))
	case d == n:
		n.problem("waits for itself")
	case d.index > n.index:
		n.problem(fmt.Sprintf("waits for %q, which is defined later, at %s", d.name, d.pos))
	case !slices.Contains(n.deps, d):
		n.deps = append(n.deps, d)
	}
}

// limit is the time limit of an attempt of n, 0 for none.
func (n *node) limit() time.Duration {
	if n.timeout > 0 {
		return n.timeout
	}
	return n.scope.def.timeout
}

// to is v as a T; a nil any is the nil of an interface type.
func to[T any](v any) T {
	t, _ := v.(T)
	return t
}

func decodeTo[T any](raw []byte) (any, error) {
	var v T
	err := decode(raw, &v)
	return v, err
}

// checkEither checks the contract of a value of a step. Input and result have
// types of their own, which is why the word decides.
func checkEither[In, Out any](e *Engine, what string, v any) error {
	if what == "input" {
		in := to[In](v)
		return validate(&in, what, e.config.Validator)
	}
	out := to[Out](v)
	return validate(&out, what, e.config.Validator)
}

// acceptInput brings a reactor's input into its normal form and checks its
// contract.
func acceptInput[In any](e *Engine, raw json.RawMessage) (normal json.RawMessage, failure error) {
	var in In
	if err := decode(raw, &in); err != nil {
		return raw, err
	}
	normal, err := encode(in, "input", e.config.Limits.Value) // before Validate, which may change its own copy
	if err != nil {
		return raw, err
	}
	return normal, protect(func() error { return validate(&in, "input", e.config.Validator) })
}

// unreadable names the node whose stored result can't be read.
func (n *node) unreadable(fr *frame, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the result of %s: %w", fr.path(n), err)
}

package engine

import (
	"context"
	"log/slog"
	"time"
)

// Next carries out one Event. A middleware acts around it; it can change the
// context, not the outcome.
type Next func(ctx context.Context, ev Event) error

// An Event is one thing that happens in a run. Those whose kind ends with
// started contain the work: next returns when it has ended. The event of the
// end fires as the last thing inside.
type Event struct {
	Kind string // such as reactor.step.completed
	Info
	At      time.Time
	Version int            // of the definition
	RunKind string         // root, child, unit, element
	Fields  map[string]any // those of its kind, redacted
}

// passage is one event on its way through the middleware. It sees to it that
// the work is done exactly once, whatever a middleware does.
type passage struct {
	ev      Event
	reached []bool // per layer, the work itself last
	work    func(context.Context) error
	err     error
}

type passageKey struct{}

// chain wraps the middleware once, the first outermost.
func chain(middleware []func(Next) Next, log *slog.Logger) Next {
	last := len(middleware)
	next := func(ctx context.Context, _ Event) error {
		p, ok := ctx.Value(passageKey{}).(*passage)
		if !ok || p.reached[last] {
			return nil
		}
		p.reached[last] = true
		p.err = p.work(ctx)
		return p.err
	}
	for i := last - 1; i >= 0; i-- {
		if middleware[i] != nil { // New refuses one that is
			next = layer(i, middleware[i], next, log)
		}
	}
	return next
}

// layer guards one middleware: if it panics, calls next twice or not at all,
// the run is as if it were not there.
func layer(i int, wrap func(Next) Next, next Next, log *slog.Logger) Next {
	through := func(ctx context.Context, ev Event) error {
		p, ok := ctx.Value(passageKey{}).(*passage)
		if !ok {
			return nil
		}
		if p.reached[i] {
			misused(log, i, ev, "calls next twice")
			return p.err
		}
		p.reached[i] = true
		_ = next(ctx, p.ev)
		return p.err
	}
	outer := wrap(through)
	return func(ctx context.Context, ev Event) error {
		p := ctx.Value(passageKey{}).(*passage)
		watched(log, i, ev, func() { _ = outer(ctx, ev) })
		if !p.reached[i] {
			misused(log, i, ev, "does not call next with its context")
			p.reached[i] = true
			_ = next(ctx, p.ev)
		}
		return p.err
	}
}

func watched(log *slog.Logger, i int, ev Event, f func()) {
	defer func() {
		if v := recover(); v != nil {
			misused(log, i, ev, textOf(newPanic(v)))
		}
	}()
	f()
}

func misused(log *slog.Logger, i int, ev Event, what string) {
	log.Warn("middleware misbehaves; the run goes on as if it were not there", "event", "reactor.middleware.misbehaved", "middleware", i, "at", ev.Kind, "run", ev.RunID, "reactor", ev.Reactor, "path", ev.Path, "what", what)
}

// span fires an event with work inside.
func (e *Engine) span(ctx context.Context, ev Event, work func(context.Context) error) error {
	if len(e.config.Middleware) == 0 {
		return work(ctx)
	}
	ev.At = e.config.Clock.Now()
	p := &passage{ev: ev, reached: make([]bool, len(e.config.Middleware)+1), work: work}
	_ = e.middleware(context.WithValue(ctx, passageKey{}, p), ev)
	return p.err
}

// point fires an event without work.
func (e *Engine) point(ctx context.Context, ev Event) {
	_ = e.span(ctx, ev, func(context.Context) error { return nil })
}

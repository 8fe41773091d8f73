package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// verdict is how one attempt of a node ended.
type verdict struct {
	state  NodeState       // done, skipped, halted; "" is a failure or an interruption
	out    json.RawMessage // plain
	reason string          // of a skip or halt
	err    error           // the failure
	raw    error           // what the body itself returned
	final  bool            // never to be retried
	guard  bool            // it was the guard hook that returned
	begun  bool            // the body was called
	cut    error           // the interruption that the body failed on
	took   time.Duration
}

// step makes one attempt of a node and stores how it ended. It says to stop
// when the execution is at its end, or when a rollback is next.
func (x *execution) step(ctx context.Context, fr *frame, n *node) (end ending, stop bool) {
	row := *x.row(fr, n)
	if left := x.until(row.Due); row.State == NodeWaiting && left > 0 {
		return x.wait(ctx, &row, left)
	}
	if row.State != NodeRunning {
		row.Attempt++
		row.State = NodeRunning
	}
	in, err := x.inputOf(fr, n, &row)
	started := x.nodeEvent("reactor.step.started", &row, "body", map[string]any{"input": x.redacted(n.in, in)})
	_ = x.e.span(ctx, started, func(ctx context.Context) error {
		v := verdict{err: err, final: true}
		if err == nil {
			v = x.attempt(ctx, n, &row, in)
		}
		end, stop = x.settle(ctx, fr, n, &row, v)
		return v.err
	})
	return end, stop
}

// inputOf is the node's input in plain form: what is stored of it, else made
// now.
func (x *execution) inputOf(fr *frame, n *node, row *NodeRow) (raw json.RawMessage, err error) {
	if row.Input != nil {
		raw, err = x.e.unseal(row.Input)
	} else {
		err = protect(func() error {
			v, err := n.input(fr)
			if err == nil {
				raw, err = encode(v, "input", x.e.config.Limits.Value)
			}
			return err
		})
	}
	if err == nil && row.Input == nil {
		row.Input, err = x.e.seal(raw)
	}
	if err != nil {
		return nil, &notMade{what: "input", err: err}
	}
	return raw, nil
}

// attempt goes through one attempt: contract, guard hook, body, result. Reactor
// code is called in a goroutine of its own, and waited for.
func (x *execution) attempt(ctx context.Context, n *node, row *NodeRow, in json.RawMessage) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	var value any
	if err := x.watched(ctx, row.Path, func() (err error) {
		value, err = x.accept(n, in)
		return err
	}); err != nil {
		v.err, v.final = err, true
		return v
	}
	if limit := n.limit(); limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, ErrTimeout)
		defer stop()
	}
	info := x.info(row.Path, row.Attempt, row.Recoveries)
	if err := x.watched(ctx, row.Path, func() error { x.enter(ctx, n, info, value, &v); return nil }); err != nil {
		v.err, v.raw, v.cut = err, err, context.Cause(ctx)
	}
	x.judge(n, row, &v)
	return v
}

// accept decodes an input and checks its contract.
func (x *execution) accept(n *node, in json.RawMessage) (any, error) {
	value, err := n.decodeIn(in)
	if err != nil {
		return nil, &notMade{what: "input", err: err}
	}
	return value, n.check(x.e, "input", value)
}

// enter calls guard hook and body. The verdict is filled in as it goes, so that
// it holds also for a body that does not return.
func (x *execution) enter(ctx context.Context, n *node, info Info, value any, v *verdict) {
	if n.guard != nil {
		info.Phase = "guard"
		v.final, v.guard = true, true // a panic of it ends the step too
		if err := n.guard(withInfo(ctx, info), value); err != nil {
			x.returned(ctx, n, v, n.zero(), err)
			return
		}
	}
	info.Phase = "body"
	v.final, v.guard, v.begun = false, false, true
	out, err := n.run(withInfo(ctx, info), value)
	x.returned(ctx, n, v, out, err)
}

// returned reads what guard hook or body gave back.
func (x *execution) returned(ctx context.Context, n *node, v *verdict, out any, err error) {
	v.raw = err
	if h, ok := errors.AsType[*halt](err); ok {
		v.state, v.reason = NodeHalted, h.reason
		return
	}
	s, skipped := errors.AsType[*skip](err)
	if err != nil && !skipped {
		v.err, v.cut = err, context.Cause(ctx)
		return
	}
	if v.out, v.err = x.resultOf(n, out); v.err != nil {
		v.final, v.guard = true, false
		return
	}
	v.state = NodeDone
	if skipped {
		v.state, v.reason = NodeSkipped, s.reason
	}
}

// resultOf encodes a result and checks its contract.
func (x *execution) resultOf(n *node, out any) (json.RawMessage, error) {
	raw, err := encode(out, "result", x.e.config.Limits.Value)
	if err != nil {
		return nil, Permanent(err)
	}
	return raw, n.check(x.e, "result", out)
}

// judge tells a failure from an interruption, by what had ended the body's
// context when it returned an error. A context that a middleware ended is
// neither: what the body returned is then an error like any other.
func (x *execution) judge(n *node, row *NodeRow, v *verdict) {
	cause := v.cut
	v.cut = nil
	switch {
	case v.err == nil || cause == nil:
	case cause == ErrTimeout && !x.callerEndedBy(ErrTimeout):
		v.err = &timedOut{path: row.Path, limit: n.limit(), err: v.raw}
	case cause == ErrDeadline && !x.callerEndedBy(ErrDeadline):
		v.err, v.final = &pastDeadline{limit: x.def.deadline, err: v.raw}, true
	case x.life.Err() != nil || x.here && x.caller.Err() != nil:
		v.cut = cause
	}
}

// callerEndedBy reports whether it is the caller's context that ended with
// limit: that of a body which called Run.
func (x *execution) callerEndedBy(limit error) bool {
	return x.here && context.Cause(x.caller) == limit
}

// settle stores how an attempt ended and says what is next.
func (x *execution) settle(ctx context.Context, fr *frame, n *node, row *NodeRow, v verdict) (ending, bool) {
	row.Begun = row.Begun || v.begun
	switch {
	case v.cut != nil:
		return x.cut(fr, n, row, v), true
	case v.err != nil:
		return x.failed(ctx, n, row, v)
	}
	end, stop, err := x.settled(fr, n, row, v)
	if errors.Is(err, ErrUnstorable) {
		refused := &EncodingError{Node: row.Path, Reason: "result can't be stored: " + textOf(err)}
		v = verdict{err: refused, raw: refused, final: true, begun: v.begun, took: v.took}
		row.Output, row.Seq = nil, 0
		return x.failed(ctx, n, row, v)
	}
	if err == nil {
		x.point(ctx, "reactor.step.completed", row, "body", map[string]any{"result": x.redacted(n.out, v.out), "state": string(v.state)})
	}
	return end, stop
}

// settled stores a node that is done, skipped or halted. With the last one the
// run ends.
func (x *execution) settled(fr *frame, n *node, row *NodeRow, v verdict) (ending, bool, error) {
	out, err := x.e.seal(v.out)
	if err != nil {
		return ending{}, true, refuse(ErrUnstorable, "%s", textOf(err))
	}
	row.State, row.Output, row.Failure, row.Recoveries = v.state, out, nil, 0
	row.Reason = cleanText(v.reason, x.e.config.Limits.ErrorText)
	row.Seq = x.seq + 1
	change := NodeChange{NodeRow: *row, Took: v.took}
	switch {
	case v.state == NodeHalted:
		err = x.save(Changes{Status: Halted, Reason: row.Reason, ReasonPath: row.Path, Nodes: []NodeChange{change}})
	case x.isLast(fr, n):
		x.values[row.Path] = v.out
		err = x.complete(&change)
	default:
		err = x.save(Changes{Nodes: []NodeChange{change}})
	}
	if err != nil {
		delete(x.values, row.Path)
		return x.saved(err), true, err
	}
	x.seq++
	x.values[row.Path] = v.out
	return ending{way: ended}, x.rec.Status != Running, nil
}

// isLast reports whether no node after n, the first that has not settled, has
// to settle.
func (x *execution) isLast(fr *frame, n *node) bool {
	for _, o := range fr.scope.graph[n.index+1:] {
		if row := x.nodes[fr.path(o)]; row == nil || !settled(row.State) {
			return false
		}
	}
	return true
}

// cut ends the execution of a run whose body was interrupted.
func (x *execution) cut(fr *frame, n *node, row *NodeRow, v verdict) ending {
	change := NodeChange{NodeRow: *row, Took: v.took}
	x.causes[row.Path] = v.raw
	switch {
	case errors.Is(context.Cause(x.life), ErrLeaseLost):
		x.cutRow = row
		return ending{way: lapsed}
	case x.here && x.caller.Err() != nil:
		if !row.Begun {
			return x.abort(nil)
		}
		change.State, change.Failure = NodeOpen, x.sealFailure(x.nodeFailure(n, row, v))
		return x.abort([]NodeChange{change})
	}
	return x.handBack(fr, n, &change)
}

// wait lets the time until a node's next attempt pass: here in place, by
// workers as a wait of the run.
func (x *execution) wait(ctx context.Context, row *NodeRow, left time.Duration) (ending, bool) {
	if !x.inPlace {
		left = x.bounded(left)
		return x.park(row.Path, left, Changes{WakeReason: "retry of " + row.Path}), true
	}
	timer := time.NewTimer(x.bounded(left))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-x.e.stopping:
	}
	return ending{}, false
}

// park gives the run up until a time.
func (x *execution) park(path string, d time.Duration, c Changes) ending {
	c.Release, c.Due, c.DueIn = true, true, d
	if err := x.save(c); err != nil {
		return x.saved(err)
	}
	x.logWait(path, d)
	x.e.alarm(x.rec.ID, d)
	return ending{way: parked}
}

// protect calls reactor code; a panic is its error.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanic(p)
		}
	}()
	return f()
}

var errGoexit = errors.New("the body ended its goroutine (runtime.Goexit)")

// watched calls reactor code in a goroutine of its own and waits for it,
// however long that takes. Once ctx has ended it says every minute what it
// waits for.
func (x *execution) watched(ctx context.Context, path string, f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		returned := false
		defer func() {
			if p := recover(); p != nil {
				err = newPanic(p)
			} else if !returned {
				err = errGoexit
			}
			close(done)
		}()
		err = f()
		returned = true
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
	}
	x.awaitReturn(ctx, path, done)
	return err
}

func (x *execution) awaitReturn(ctx context.Context, path string, done chan struct{}) {
	ended := time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Minute):
			x.log(slog.LevelWarn, "reactor.body.overdue", "a body has not returned although its context has ended; nothing else of its run begins before",
				"path", path, "cause", context.Cause(ctx), "since", time.Since(ended).Round(time.Second))
		}
	}
}

// info is what a body or hook may know.
func (x *execution) info(path string, attempt, recovery int) Info {
	i := Info{Reactor: x.rec.Reactor, RunID: x.rec.ID, RootID: x.rec.Root, Path: path, Attempt: attempt, Recovery: recovery}
	if x.rec.Parent != "" {
		i.parent = x.parentStatus
	}
	return i
}

func (x *execution) parentStatus(ctx context.Context) (Status, error) {
	statuses, err := x.e.config.Store.Statuses(ctx, []string{x.rec.Parent})
	if err != nil {
		return "", fmt.Errorf("status of parent %s: %w", x.rec.Parent, err)
	}
	return statuses[x.rec.Parent], nil
}

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// execution drives one run that this process owns, from its claim or creation
// until it ends, parks, is given back or is lost. Whatever drives a run does it
// by this type: Run, workers and rollback differ in where they start and in
// what they report to.
type execution struct {
	e     *Engine
	def   *definition
	rec   *Record
	fence Fence

	caller  context.Context // of Run or of the worker
	here    bool            // in Run: the end of the caller's context aborts the run
	inPlace bool            // retries wait here rather than park
	taken   bool            // from a dead owner

	life   context.Context // ends with the lease or at shutdown, with its cause
	cancel context.CancelCauseFunc

	nodes     map[string]*NodeRow        // by path
	at        int                        // in source order; what is before it has settled
	values    map[string]json.RawMessage // plain results by path
	input     json.RawMessage            // plain
	seq       int64                      // last one given out
	causes    map[string]error           // live causes of failures by path, of hooks by kind and path
	failure   *RunError                  // what started the rollback
	unwritten []task                     // hooks that nobody wrote, passed over and not yet told of
	cutRow    *NodeRow                   // of a body that a lapse of the lease cut off
	unsaved   *Changes                   // of a save that nobody waits for any longer
	loaded    time.Time                  // when rec was, by the monotonic clock
}

// way is how an execution came to its end.
type way int

const (
	ended      way = iota // the run has a final status
	parked                // it waits; what ends the wait wakes it
	handedBack            // it goes on elsewhere
	lapsed                // the lease of this process was over; it may still be ours
	lost                  // another owner has it
	unsaved               // the process stopped before the end could be stored
)

// ending is what an execution reports.
type ending struct {
	way way
	err error // of lost and unsaved
}

func newExecution(ctx context.Context, e *Engine, def *definition, rec *Record, process string) *execution {
	x := &execution{
		e: e, def: def, rec: rec, caller: ctx, loaded: time.Now(),
		fence: Fence{Run: rec.ID, Token: rec.Owner, Process: process, Version: rec.Version},
		at:    1, nodes: make(map[string]*NodeRow, len(rec.Nodes)),
		values: map[string]json.RawMessage{}, causes: map[string]error{},
	}
	x.life, x.cancel = context.WithCancelCause(context.Background())
	for i := range rec.Nodes {
		row := &rec.Nodes[i]
		x.nodes[row.Path] = row
		x.seq = max(x.seq, row.Seq, row.HookSeq)
	}
	return x
}

// drive carries the run on from where it is.
func (x *execution) drive() (end ending) {
	ctx, stop := x.context()
	defer stop()
	fields := map[string]any{"input": x.observed(x.def.in, x.rec.Input), "resumed": len(x.nodes) > 0, "taken_over": x.taken}
	_ = x.e.span(ctx, x.event("reactor.run.started", fields), func(ctx context.Context) error {
		end = x.carryOn(ctx)
		return x.report(ctx, end)
	})
	return end
}

func (x *execution) carryOn(ctx context.Context) ending {
	if x.rec.Failure != nil {
		x.failure = x.readFailure(x.rec.Failure)
	}
	if end, stop := x.recover(); stop {
		x.tellUnwritten(ctx)
		return end
	}
	if x.rec.Status != RollingBack {
		end := x.forward(ctx)
		x.tellUnwritten(ctx)
		if x.rec.Status != RollingBack || end.way != ended {
			return end
		}
	}
	return x.rollback(ctx)
}

// context is that of the bodies: it ends with the caller's, the run's deadline,
// the lease, or at shutdown.
func (x *execution) context() (context.Context, func()) {
	ctx := x.caller
	if !x.here {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	life, end := x.life, x.cancel
	stops := []func() bool{context.AfterFunc(life, func() { cancel(context.Cause(life)) })}
	if !x.here {
		stops = append(stops, context.AfterFunc(x.caller, func() { end(ErrShutdown) }))
	}
	if left, has := x.deadline(); has {
		stops = append(stops, time.AfterFunc(left, func() { cancel(ErrDeadline) }).Stop)
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
		end(nil)
	}
}

// deadline is what is left of the run's own limit.
func (x *execution) deadline() (left time.Duration, has bool) {
	if x.def.deadline == 0 || x.rec.Kind != Root && x.rec.Kind != Child {
		return 0, false
	}
	return x.until(x.rec.Started.Add(x.def.deadline)), true
}

// until is how far away a time of the database's clock is.
func (x *execution) until(t time.Time) time.Duration { return t.Sub(x.rec.Now) - time.Since(x.loaded) }

// now is the database's clock, as far as this process can tell.
func (x *execution) now() time.Time { return x.rec.Now.Add(time.Since(x.loaded)) }

// forward runs nodes in source order until the run ends or has to wait. An
// ending while the run is rolling back means that the rollback is next.
func (x *execution) forward(ctx context.Context) ending {
	for {
		fr, n := x.next()
		if n == nil {
			return x.saved(x.complete(nil))
		}
		if end, stop := x.boundary(ctx, fr, n); stop {
			return end
		}
		if end, stop := x.step(ctx, fr, n); stop {
			return end
		}
	}
}

// frame is one scope of a run: the root's, and one day that of a composed child
// or an element.
type frame struct {
	x      *execution
	scope  *Builder
	prefix string
}

func (fr *frame) path(n *node) string { return fr.prefix + n.name }

// value is the stored result of a node, or the input of the scope, in plain
// form.
func (fr *frame) value(n *node) (json.RawMessage, error) {
	if n.kind == "input" {
		return fr.x.plainInput()
	}
	path := fr.path(n)
	if v, ok := fr.x.values[path]; ok {
		return v, nil
	}
	row := fr.x.nodes[path]
	if row == nil || row.Output == nil {
		return nil, fmt.Errorf("the result of %s is not there", path)
	}
	v, err := fr.x.e.unseal(row.Output)
	if err != nil {
		return nil, fmt.Errorf("the result of %s: %w", path, err)
	}
	fr.x.values[path] = v
	return v, nil
}

func (x *execution) plainInput() (json.RawMessage, error) {
	if x.input == nil {
		v, err := x.e.unseal(x.rec.Input)
		if err != nil {
			return nil, fmt.Errorf("the input of the run: %w", err)
		}
		x.input = v
	}
	return x.input, nil
}

func (x *execution) root() *frame { return &frame{x: x, scope: x.def.scope} }

// next is the first node in source order that has not settled.
func (x *execution) next() (*frame, *node) {
	fr := x.root()
	for ; x.at < len(fr.scope.graph); x.at++ {
		n := fr.scope.graph[x.at]
		if row := x.nodes[fr.path(n)]; row == nil || !settled(row.State) {
			return fr, n
		}
	}
	return fr, nil
}

func settled(s NodeState) bool { return s == NodeDone || s == NodeSkipped || s == NodeDispatched }

// boundary is what is looked at before anything new begins.
func (x *execution) boundary(ctx context.Context, fr *frame, n *node) (ending, bool) {
	left, limited := x.deadline()
	switch {
	case x.hasLapsed():
		return ending{way: lapsed}, true
	case x.here && x.caller.Err() != nil:
		return x.abort(x.cutOff(fr, n)), true
	case x.mustStop():
		return x.handBack(fr, n, nil), true
	case limited && left <= 0:
		return x.saved(x.fail(n, x.row(fr, n), verdict{err: &pastDeadline{limit: x.def.deadline}, final: true})), true
	}
	return ending{}, false
}

// hasLapsed reports whether the run may belong to another process by now.
func (x *execution) hasLapsed() bool {
	return errors.Is(context.Cause(x.life), ErrLeaseLost) || !x.e.lease.lives()
}

// mustStop reports whether this process, or its workers, begin nothing more.
func (x *execution) mustStop() bool {
	return x.life.Err() != nil || !x.here && x.caller.Err() != nil || x.e.isClosing()
}

// row is the state of a node, fresh if it has none.
func (x *execution) row(fr *frame, n *node) *NodeRow {
	path := fr.path(n)
	if row := x.nodes[path]; row != nil {
		return row
	}
	return &NodeRow{Path: path, Kind: n.kind}
}

// complete ends the run with the value of its result handle; last is the node
// that has just settled, if one has.
func (x *execution) complete(last *NodeChange) error {
	c := Changes{Status: Completed}
	if last != nil {
		c.Nodes = []NodeChange{*last}
	}
	out, err := x.result(last)
	if err != nil {
		return x.failResult(c.Nodes, err)
	}
	c.Output = out
	return x.save(c)
}

// result makes the run's value, with the result of last as if it were stored.
func (x *execution) result(last *NodeChange) (json.RawMessage, error) {
	if last != nil {
		x.nodes[last.Path] = &last.NodeRow
	}
	var raw json.RawMessage
	err := protect(func() (err error) {
		v, err := x.def.result(x.root())
		if err == nil {
			raw, err = encode(v, "result", x.e.config.Limits.Value)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return x.e.seal(raw)
}

// failResult rolls back a run whose nodes are done but whose value could not be
// made.
func (x *execution) failResult(done []NodeChange, err error) error {
	r := &RunError{Reactor: x.rec.Reactor, RunID: x.rec.ID, Permanent: true}
	r.describe(&notMade{what: "result", err: err}, x.e.config.Limits.ErrorText, nil)
	return x.beginRollback(r, done)
}

// readFailure reads what the run or a node keeps of a failure.
func (x *execution) readFailure(stored json.RawMessage) *RunError {
	raw, err := x.e.unseal(stored)
	if err != nil {
		raw, _ = json.Marshal(storedFailure{Text: "its stored failure can't be read: " + textOf(err)})
	}
	return readFailure(raw, x.rec.Reactor, x.rec.ID)
}

// recover counts a take-over on the node or hook that the dead owner may have
// been at, and gives up on one that was lost too often.
func (x *execution) recover() (ending, bool) {
	if !x.taken {
		return ending{}, false
	}
	if x.rec.Status == RollingBack {
		return x.recoverHook()
	}
	fr, n := x.next()
	if n == nil {
		return ending{}, false
	}
	row := x.row(fr, n)
	if row.State == NodeWaiting && x.until(row.Due) > 0 {
		return ending{}, false // between two attempts nothing was at work
	}
	if row.State != NodeRunning {
		row.Attempt++
	}
	row.State, row.Begun = NodeRunning, true
	if row.Input == nil {
		_, _ = x.inputOf(fr, n, row) // for a compensation; what is wrong with it turns up where it is used
	}
	row.Recoveries++
	row.Recovered++
	if limit := x.e.config.Recoveries; limit != Unlimited && row.Recoveries >= limit {
		x.log(slog.LevelWarn, "reactor.recoveries.exhausted", "a run was taken over too often at one node, which counts as failed", "path", row.Path, "recoveries", row.Recoveries)
		end := x.saved(x.fail(n, row, verdict{err: lostTooOften{row.Recoveries}, final: true, begun: true}))
		return end, x.rec.Status != RollingBack || end.way != ended
	}
	err := x.save(Changes{Nodes: []NodeChange{{NodeRow: *row}}})
	return x.saved(err), err != nil
}

// saved turns the outcome of a save that ends an execution into its ending.
func (x *execution) saved(err error) ending {
	switch {
	case err == nil:
		return ending{way: ended}
	case errors.Is(err, ErrLeaseLost):
		return ending{way: lost, err: err}
	}
	return ending{way: unsaved, err: err}
}

// abort ends a run whose caller was interrupted. Nothing is undone; what was
// cut off is kept, for an Undo.
func (x *execution) abort(open []NodeChange) ending { return x.saved(x.save(x.aborted(open))) }

func (x *execution) aborted(open []NodeChange) Changes {
	return Changes{
		Status: Aborted, Nodes: open,
		Reason: cleanText("the caller's context ended: "+textOf(context.Cause(x.caller)), x.e.config.Limits.ErrorText),
	}
}

// cutOffByLapse marks the node that a lapse of the lease cut off as open.
func (x *execution) cutOffByLapse() []NodeChange {
	if x.cutRow == nil || !x.cutRow.Begun {
		return nil
	}
	open := *x.cutRow
	open.State = NodeOpen
	return []NodeChange{{NodeRow: open}}
}

// cutOff marks a node that has begun and has no result as open.
func (x *execution) cutOff(fr *frame, n *node) []NodeChange {
	row := x.row(fr, n)
	if !row.Begun {
		return nil
	}
	open := *row
	open.State = NodeOpen
	return []NodeChange{{NodeRow: open, Keep: true}}
}

// handBack gives the run up so that another process goes on with it at once, or
// when its wait is over. No attempt is spent.
func (x *execution) handBack(fr *frame, n *node, cut *NodeChange) ending {
	c := Changes{Release: true, Due: true, WakeReason: "handed back"}
	if cut != nil {
		c.Nodes = []NodeChange{*cut}
	}
	if row := x.row(fr, n); row.State == NodeWaiting {
		c.DueIn = x.bounded(max(0, x.until(row.Due)))
	}
	if err := x.save(c); err != nil {
		return x.saved(err)
	}
	return ending{way: handedBack}
}

// bounded is a wait that ends with the run's deadline at the latest.
func (x *execution) bounded(d time.Duration) time.Duration {
	if left, has := x.deadline(); has {
		return max(0, min(d, left))
	}
	return d
}

// order sorts by when nodes settled.
func order(a, b *NodeRow) int { return cmp.Compare(a.Seq, b.Seq) }

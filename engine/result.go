package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Result is how a run came back.
type Result[Out any] struct {
	RunID  string
	Status Status
	Value  Out    // when Completed
	Reason string // when Halted or Cancelled
	Node   string // when Halted: the path of the node that halted
}

// A Handle is a run somewhere else.
type Handle[Out any] struct {
	ID       string
	Existing bool // StartOptions.Key had started it before

	e *Engine
}

// Wait blocks until the run ends or pauses, or ctx does. It returns no error for
// Completed, Halted and Paused; a *RunError for Failed; an error that matches
// ErrCancelled or ErrAborted for the other two. It holds no connection, and
// ending the wait does nothing to the run.
func (h *Handle[Out]) Wait(ctx context.Context) (Result[Out], error) {
	switch {
	case h.e == nil:
		return Result[Out]{RunID: h.ID}, errNoHandle
	case ctx == nil:
		return Result[Out]{RunID: h.ID}, errNilContext
	}
	if err := h.e.await(ctx, h.ID); err != nil {
		return Result[Out]{RunID: h.ID}, err
	}
	rec, err := h.e.load(ctx, h.ID)
	if err != nil {
		return Result[Out]{RunID: h.ID}, err
	}
	return answer[Out](h.e, rec, nil)
}

var errNoHandle = errors.New("engine: the handle is none that Start or Find has returned")

// refusedResult is that of a run which did not begin.
func refusedResult[Out any](err error) Result[Out] {
	if r, ok := errors.AsType[*RunError](err); ok {
		return Result[Out]{RunID: r.RunID, Status: Failed}
	}
	return Result[Out]{}
}

// resultOfRun is what Run returns for an execution that has ended.
func resultOfRun[Out any](e *Engine, x *execution, end ending) (Result[Out], error) {
	switch {
	case end.way == lost || end.way == lapsed:
		return Result[Out]{RunID: x.rec.ID}, fmt.Errorf("reactor %s, run %s: %w", x.rec.Reactor, x.rec.ID, ErrLeaseLost)
	case end.way == unsaved && x.caller.Err() != nil:
		return Result[Out]{RunID: x.rec.ID}, callerGone(x.caller)
	case end.way == unsaved:
		return Result[Out]{RunID: x.rec.ID}, fmt.Errorf("reactor %s, run %s: its state could not be stored; workers go on with it: %w", x.rec.Reactor, x.rec.ID, end.err)
	case end.way != ended:
		return Result[Out]{RunID: x.rec.ID, Status: x.rec.Status}, nil
	case x.rec.Status == Aborted:
		return Result[Out]{RunID: x.rec.ID, Status: Aborted}, callerGone(x.caller)
	}
	res, err := answer[Out](e, x.record(), x.failure)
	x.liven()
	return res, err
}

// liven puts the errors of hooks that were called here in the place of what is
// stored of them.
func (x *execution) liven() {
	if x.failure == nil {
		return
	}
	for i, f := range x.failure.Rollback {
		if live := x.causes[f.Kind+" "+f.Node]; live != nil {
			x.failure.Rollback[i].Err = live
		}
	}
}

// callerGone is the error of a context that has ended, with its cause.
func callerGone(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// record is the loaded record with the nodes as they are now.
func (x *execution) record() *Record {
	rec := *x.rec
	rec.Nodes = make([]NodeRow, 0, len(x.nodes))
	for _, row := range x.nodes {
		rec.Nodes = append(rec.Nodes, *row)
	}
	return &rec
}

// answer is how a stored run looks to its caller. Live is the failure as the
// process that ran it has it; nil elsewhere.
func answer[Out any](e *Engine, rec *Record, live *RunError) (Result[Out], error) {
	res := Result[Out]{RunID: rec.ID, Status: rec.Status}
	switch rec.Status {
	case Completed:
		plain, err := e.unseal(rec.Output)
		if err == nil {
			err = decode(plain, &res.Value)
		}
		if err != nil {
			return res, fmt.Errorf("reactor %s, run %s: its result can't be read: %w", rec.Reactor, rec.ID, err)
		}
	case Halted:
		res.Reason, res.Node = rec.Reason, rec.ReasonPath
	case Failed:
		return res, e.failureOf(rec, live)
	case Cancelled:
		res.Reason = rec.Reason
		return res, refuse(ErrCancelled, "reactor %s, run %s was cancelled: %s", rec.Reactor, rec.ID, rec.Reason)
	case Aborted:
		return res, refuse(ErrAborted, "reactor %s, run %s was aborted: %s; left to undo: %s", rec.Reactor, rec.ID, rec.Reason, strings.Join(toUndo(rec), ", "))
	}
	return res, nil
}

// failureOf is the failure of a run with what its rollback could not do.
func (e *Engine) failureOf(rec *Record, live *RunError) *RunError {
	r := live
	if r == nil {
		raw, err := e.unseal(rec.Failure)
		if err != nil {
			raw = (&RunError{text: "its stored failure can't be read: " + textOf(err)}).stored(1<<10, nil)
		}
		r = readFailure(raw, rec.Reactor, rec.ID)
	}
	r.Rollback = e.rollbackFailures(rec)
	return r
}

// rollbackFailures are the hooks that did not do their work, in their order.
func (e *Engine) rollbackFailures(rec *Record) []RollbackError {
	var failed []NodeRow
	for _, row := range rec.Nodes {
		if row.HookState == HookFailed {
			failed = append(failed, row)
		}
	}
	slices.SortFunc(failed, func(a, b NodeRow) int { return int(a.HookSeq - b.HookSeq) })
	var list []RollbackError
	for _, row := range failed {
		raw, err := e.unseal(row.HookFailure)
		if err != nil {
			raw = RollbackError{Kind: row.Hook, Err: err}.stored(1<<10, nil)
		}
		list = append(list, readHook(row.Path, raw))
	}
	return list
}

// toUndo are the paths that an Undo would take, in its order.
func toUndo(rec *Record) []string {
	var open, done []NodeRow
	for _, row := range rec.Nodes {
		switch {
		case row.HookState != HookNone && row.HookState != HookRunning:
		case row.State == NodeOpen:
			open = append(open, row)
		case row.State == NodeDone:
			done = append(done, row)
		}
	}
	slices.SortFunc(done, func(a, b NodeRow) int { return int(b.Seq - a.Seq) })
	var paths []string
	for _, row := range append(open, done...) {
		paths = append(paths, row.Path)
	}
	return paths
}

func notFound(run string) error { return refuse(ErrRunNotFound, "run not found: %s", run) }

// load reads a run, without making this process one that owns runs.
func (e *Engine) load(ctx context.Context, run string) (*Record, error) {
	if !isUUID(run) {
		return nil, notFound(cleanText(run, 64))
	}
	run = strings.ToLower(run)
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	rec, err := e.config.Store.Get(ctx, run)
	if errors.Is(err, ErrRunNotFound) {
		return nil, notFound(run)
	}
	return rec, err
}

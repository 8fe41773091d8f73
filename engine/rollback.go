package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// task is one hook that a rollback has still to come to.
type task struct {
	kind string // compensate, undo
	row  *NodeRow
	n    *node // nil if the definition at hand has no such node
}

// written reports whether there is something to call, or to report as missing.
func (t task) written() bool {
	if t.n == nil {
		return true
	}
	return t.kind == "compensate" && t.n.compensate != nil || t.kind == "undo" && t.n.undo != nil
}

// tasks is what is left of a rollback, in order: failed nodes that had begun,
// the latest failure first, then done nodes, the newest first.
func (x *execution) tasks() []task {
	var failed, done []task
	for _, row := range x.nodes {
		switch {
		case row.HookState != HookNone && row.HookState != HookRunning:
		case row.Begun && (row.State == NodeFailed || row.State == NodeOpen):
			failed = append(failed, task{"compensate", row, x.nodeAt(row.Path)})
		case row.State == NodeDone:
			done = append(done, task{"undo", row, x.nodeAt(row.Path)})
		}
	}
	newest := func(a, b task) int { return order(b.row, a.row) }
	slices.SortFunc(failed, newest)
	slices.SortFunc(done, newest)
	return append(failed, done...)
}

// nodeAt is the node of a path; nil if the definition has none.
func (x *execution) nodeAt(path string) *node { return x.def.nodes[path] }

// nextCall is the index of the first task with a hook, or their number.
func nextCall(tasks []task) int {
	if i := slices.IndexFunc(tasks, task.written); i >= 0 {
		return i
	}
	return len(tasks)
}

// rollback calls the hooks that are left, one after another, each stored as it
// ends; the last one's save ends the run.
func (x *execution) rollback(ctx context.Context) ending {
	tasks := x.tasks()
	for i := nextCall(tasks); i < len(tasks); i = nextCall(tasks) {
		if end, stop := x.hookBoundary(); stop {
			return end
		}
		if end, stop := x.hook(ctx, tasks, i); stop {
			return end
		}
		tasks = tasks[i+1:]
	}
	return x.endWithout(ctx, tasks)
}

// endWithout ends a rollback that has no hook left to call.
func (x *execution) endWithout(ctx context.Context, tasks []task) ending {
	c := Changes{Status: x.endOfRollback()}
	for _, t := range tasks {
		c.Nodes = x.withHook(c.Nodes, t, HookSkipped, nil)
	}
	err := x.save(c)
	if err == nil {
		x.unwritten = tasks
		x.tellUnwritten(ctx)
	}
	return x.saved(err)
}

func (x *execution) endOfRollback() Status {
	if x.rec.Rollback == ByUndo {
		return Cancelled
	}
	return Failed
}

// hookBoundary is what is looked at before a hook. The end of the caller's
// context does not stop a rollback.
func (x *execution) hookBoundary() (ending, bool) {
	switch {
	case x.hasLapsed():
		return ending{way: lapsed}, true
	case x.mustStop():
		return x.giveBack(), true
	}
	return ending{}, false
}

func (x *execution) giveBack() ending {
	if err := x.save(Changes{Release: true, Due: true, WakeReason: "handed back"}); err != nil {
		return x.saved(err)
	}
	return ending{way: handedBack}
}

// hook calls the hook of tasks[i]; those before it have none. With the last
// call of a rollback the run ends in the same save.
func (x *execution) hook(ctx context.Context, tasks []task, i int) (end ending, stop bool) {
	t := tasks[i]
	started := x.nodeEvent("reactor."+t.kind+".started", t.row, t.kind, x.hookFields(t))
	_ = x.e.span(ctx, started, func(ctx context.Context) error {
		failure, cut := x.call(ctx, t)
		if cut != nil {
			end, stop = x.cutHook(cut), true
			return cut
		}
		if failure != nil {
			x.causes[t.kind+" "+t.row.Path] = failure.Err
		}
		c, skipped := x.hookChanges(tasks, i, failure)
		if err := x.save(c); err != nil {
			end, stop = x.saved(err), true
			return err
		}
		x.hookEvent(ctx, t, failure)
		x.unwritten = skipped
		end, stop = ending{way: ended}, x.rec.Status.Final()
		if failure != nil {
			return failure.Err
		}
		return nil
	})
	x.tellUnwritten(ctx)
	return end, stop
}

// cutHook ends an execution whose hook was interrupted; the next owner calls it
// again.
func (x *execution) cutHook(cause error) ending {
	if errors.Is(cause, ErrLeaseLost) {
		return ending{way: lapsed}
	}
	return x.giveBack()
}

// hookChanges is what the end of a hook makes true.
func (x *execution) hookChanges(tasks []task, i int, failure *RollbackError) (c Changes, skipped []task) {
	skipped = slices.Clone(tasks[:i])
	for _, t := range skipped {
		c.Nodes = x.withHook(c.Nodes, t, HookSkipped, nil)
	}
	state := HookCompleted
	if failure != nil {
		state = HookFailed
	}
	c.Nodes = x.withHook(c.Nodes, tasks[i], state, failure)
	if rest := tasks[i+1:]; nextCall(rest) == len(rest) {
		for _, t := range rest {
			c.Nodes = x.withHook(c.Nodes, t, HookSkipped, nil)
		}
		skipped = append(skipped, rest...)
		c.Status = x.endOfRollback()
	}
	return c, skipped
}

// withHook adds the end of a hook to the node changes of a save.
func (x *execution) withHook(nodes []NodeChange, t task, state HookState, failure *RollbackError) []NodeChange {
	i := slices.IndexFunc(nodes, func(n NodeChange) bool { return n.Path == t.row.Path })
	if i < 0 {
		i = len(nodes)
		nodes = append(nodes, NodeChange{NodeRow: *t.row, Keep: true})
	}
	x.seq++
	row := &nodes[i].NodeRow
	row.Hook, row.HookState, row.HookSeq, row.HookRecoveries = t.kind, state, x.seq, 0
	if failure != nil {
		row.HookFailure = x.sealHook(*failure, t)
	}
	return nodes
}

func (x *execution) sealHook(f RollbackError, t task) []byte {
	var secrets []string
	if t.n != nil {
		secrets = x.secretsOf(t)
	}
	sealed, err := x.e.seal(f.stored(x.e.config.Limits.ErrorText, secrets))
	if err != nil {
		sealed = RollbackError{Kind: f.Kind, Reason: f.Reason, At: f.At, Err: errors.New("the codec refused the failure")}.stored(1<<10, nil)
	}
	return sealed
}

func (x *execution) secretsOf(t task) []string {
	in, errIn := x.e.unseal(t.row.Input)
	out, errOut := x.e.unseal(t.row.Output)
	var secrets []string
	if errIn == nil {
		secrets = redactionOf(t.n.in).secrets(in)
	}
	if errOut == nil {
		secrets = append(secrets, redactionOf(t.n.out).secrets(out)...)
	}
	return secrets
}

// call calls one hook. It returns why it is a rollback failure, or what cut it
// off.
func (x *execution) call(ctx context.Context, t task) (failure *RollbackError, cut error) {
	failed := func(reason string, err error) *RollbackError {
		return &RollbackError{Node: t.row.Path, Kind: t.kind, Reason: reason, Err: err, At: x.now()}
	}
	if t.n == nil {
		return failed("no_undo_code", fmt.Errorf("no undo code for step %s in the definition at hand", t.row.Path)), nil
	}
	if limit := x.e.config.Recoveries; limit != Unlimited && t.row.HookRecoveries >= limit {
		return failed("crashed", lostTooOften{t.row.HookRecoveries}), nil
	}
	run, err := x.bind(t)
	if err != nil {
		return failed("not_decodable", err), nil
	}
	ctx, stop := x.hookContext(ctx, t)
	defer stop()
	if err = x.watched(ctx, t.row.Path, func() error { return run(ctx) }); err == nil || succeeded(err) {
		return nil, nil
	}
	reason := "returned_error"
	switch cause := context.Cause(ctx); {
	case cause == ErrTimeout:
		reason, err = "timed_out", &timedOut{path: t.row.Path, limit: x.hookLimit(t), err: err}
	case cause != nil:
		return nil, cause
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		reason = "panicked"
	}
	return failed(reason, err), nil
}

// succeeded reports whether a hook's error is none: Skip, or a Halt, which
// changes nothing in a rollback. A panic with one of them is a panic.
func succeeded(err error) bool {
	_, panicked := errors.AsType[*PanicError](err)
	_, skipped := errors.AsType[*skip](err)
	_, halted := errors.AsType[*halt](err)
	return !panicked && (skipped || halted)
}

// bind decodes what the hook gets.
func (x *execution) bind(t task) (func(context.Context) error, error) {
	in, err := x.unsealInto(t.row.Input, t.n.decodeIn)
	if err != nil {
		return nil, fmt.Errorf("its stored input: %w", err)
	}
	if t.kind == "compensate" {
		cause := x.causeOf(t)
		return func(ctx context.Context) error { return t.n.compensate(ctx, in, cause) }, nil
	}
	out, err := x.unsealInto(t.row.Output, t.n.decodeOut)
	if err != nil {
		return nil, fmt.Errorf("its stored result: %w", err)
	}
	return func(ctx context.Context) error { return t.n.undo(ctx, in, out) }, nil
}

func (x *execution) unsealInto(sealed []byte, decode func([]byte) (any, error)) (any, error) {
	plain, err := x.e.unseal(sealed)
	if err != nil {
		return nil, err
	}
	return decode(plain)
}

// causeOf is the body's own error in the process that ran it, else what is
// stored of it.
func (x *execution) causeOf(t task) error {
	if live := x.causes[t.row.Path]; live != nil {
		return live
	}
	if t.row.Failure == nil {
		return errors.New("the body was cut off")
	}
	return x.readFailure(t.row.Failure).Err
}

// hookContext lives although the caller's context or the step's has ended.
func (x *execution) hookContext(ctx context.Context, t task) (context.Context, func()) {
	info := x.info(t.row.Path, max(t.row.Attempt, 1), t.row.HookRecoveries)
	info.Phase = t.kind
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	life := x.life
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	ctx, done := context.WithTimeoutCause(withInfo(ctx, info), x.hookLimit(t), ErrTimeout)
	return ctx, func() { done(); stop(); cancel(nil) }
}

func (x *execution) hookLimit(t task) time.Duration {
	if t.n.timeout > 0 {
		return t.n.timeout
	}
	return x.e.config.HookTimeout
}

// recoverHook counts a take-over on the hook that the dead owner may have been
// in.
func (x *execution) recoverHook() (ending, bool) {
	tasks := x.tasks()
	i := nextCall(tasks)
	if i == len(tasks) {
		return ending{}, false
	}
	row := *tasks[i].row
	row.Hook, row.HookState = tasks[i].kind, HookRunning
	row.HookRecoveries++
	row.Recovered++
	err := x.save(Changes{Nodes: []NodeChange{{NodeRow: row, Keep: true}}})
	return x.saved(err), err != nil
}

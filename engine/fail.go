package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// failed stores a failed attempt: to be retried, or as the failure of the run.
func (x *execution) failed(ctx context.Context, n *node, row *NodeRow, v verdict) (ending, bool) {
	x.causes[row.Path] = v.cause()
	if !x.mayRetry(n, row, v) {
		if !v.begun {
			row.Reason = notCalled
		}
		err := x.fail(n, row, v)
		if err == nil {
			x.point(ctx, "reactor.step.failed", row, "body", map[string]any{"error": x.failure.text, "will_retry": false})
		}
		return x.saved(err), true
	}
	delay := x.pause(n, row, v)
	r := x.nodeFailure(n, row, v)
	row.State, row.Failure, row.Recoveries = NodeWaiting, x.sealFailure(r), 0
	c := Changes{Nodes: []NodeChange{{NodeRow: *row, Took: v.took, DueIn: delay}}}
	parks := !x.inPlace && delay > 0
	if parks {
		c.Release, c.Due, c.DueIn, c.WakeReason = true, true, x.bounded(delay), "retry of "+row.Path
	}
	if err := x.save(c); err != nil {
		return x.saved(err), true
	}
	x.point(ctx, "reactor.step.failed", row, "body", map[string]any{"error": r.text, "will_retry": true})
	x.point(ctx, "reactor.step.retry", row, "body", map[string]any{"next_attempt": row.Attempt + 1, "delay": delay, "error": r.text})
	x.logRetry(row, delay, r.text)
	if parks {
		x.logWait(row.Path, c.DueIn)
		x.e.alarm(x.rec.ID, c.DueIn)
		return ending{way: parked}, true
	}
	return ending{}, false
}

// cause is the body's own error, or what failed around it.
func (v verdict) cause() error {
	if v.raw != nil {
		return v.raw
	}
	return v.err
}

// mayRetry applies the policy to a failed attempt.
func (x *execution) mayRetry(n *node, row *NodeRow, v verdict) bool {
	if v.final || row.Attempt >= n.attempts || isPermanent(v.err) {
		return false
	}
	if n.retryIf == nil {
		return true
	}
	again := false
	if err := protect(func() error { again = n.retryIf(v.cause()); return nil }); err != nil {
		x.log(slog.LevelError, "reactor.retry_if.panicked", "RetryIf panicked; the step is not retried", "path", row.Path, "error", x.shownOf(n, row, err))
		return false
	}
	return again
}

// pause asks the backoff for the time until the next attempt. One that panics
// is replaced by the default.
func (x *execution) pause(n *node, row *NodeRow, v verdict) (delay time.Duration) {
	longest := x.e.config.BackoffCap
	if err := protect(func() error { delay = n.backoff.pause(row.Attempt, v.cause(), longest); return nil }); err != nil {
		x.log(slog.LevelError, "reactor.backoff.panicked", "a backoff panicked; the default takes its place", "path", row.Path, "error", x.shownOf(n, row, err))
		delay = Backoff(nil).pause(row.Attempt, nil, longest)
	}
	return delay
}

// notCalled is kept with a node whose last attempt did not come to its body.
const notCalled = "its body was not called"

// fail makes the failure of a node that of the run, in the save that begins the
// rollback.
func (x *execution) fail(n *node, row *NodeRow, v verdict) error {
	row.Begun = row.Begun || v.begun
	row.Attempt = max(row.Attempt, 1)
	r := x.nodeFailure(n, row, v)
	failing := *row
	failing.State, failing.Seq, failing.Recoveries, failing.Failure = NodeFailed, x.seq+1, 0, x.sealFailure(r)
	x.seq++
	if x.causes[row.Path] == nil {
		x.causes[row.Path] = v.cause()
	}
	err := x.beginRollback(r, []NodeChange{{NodeRow: failing, Took: v.took}})
	if err == nil {
		x.logFailure(row, r)
	}
	return err
}

// shownOf is an error of a node's code as people may read it.
func (x *execution) shownOf(n *node, row *NodeRow, err error) string {
	return shown(textOf(err), x.e.config.Limits.ErrorText, x.secretsOf(task{row: row, n: n}))
}

// beginRollback stores why a run fails, together with the nodes that have just
// settled. A run with no hook to call is over with this save.
func (x *execution) beginRollback(r *RunError, nodes []NodeChange) error {
	for i := range nodes {
		x.nodes[nodes[i].Path] = &nodes[i].NodeRow
	}
	x.failure = r
	c := Changes{Status: RollingBack, Rollback: ByFailure, Failure: x.sealFailure(r), Nodes: nodes}
	tasks := x.tasks()
	if nextCall(tasks) == len(tasks) {
		c.Status = Failed
		for _, t := range tasks {
			c.Nodes = x.withHook(c.Nodes, t, HookSkipped, nil)
		}
	}
	err := x.save(c)
	if err == nil && c.Status == Failed {
		x.unwritten = tasks
	}
	return err
}

// nodeFailure is the RunError of a failed attempt.
func (x *execution) nodeFailure(n *node, row *NodeRow, v verdict) *RunError {
	r := &RunError{
		Reactor: x.rec.Reactor, RunID: x.rec.ID, Node: row.Path, NodeKind: n.kind,
		Attempt: row.Attempt, Attempts: n.attempts, Permanent: v.final && !v.guard,
	}
	var secrets []string
	if row.Input != nil {
		if plain, err := x.e.unseal(row.Input); err == nil {
			redact := redactionOf(n.in)
			r.Input, secrets = redact.apply(plain), redact.secrets(plain)
		}
	}
	if e := valueError(v.err); e != nil && e.Node == "" {
		e.Node = row.Path
	}
	r.describe(v.err, x.e.config.Limits.ErrorText, secrets)
	r.secrets = secrets
	return r
}

// sealFailure is a failure in its stored form.
func (x *execution) sealFailure(r *RunError) json.RawMessage {
	raw := r.stored(x.e.config.Limits.ErrorText, r.secrets)
	sealed, err := x.e.seal(raw)
	if err != nil {
		x.log(slog.LevelError, "reactor.codec.refused", "the codec refused a failure; only that is stored", "path", r.Node, "error", textOf(err))
		sealed, _ = json.Marshal(storedFailure{Node: r.Node, NodeKind: r.NodeKind, Code: codeValue, Text: "the codec refused the failure"})
	}
	return sealed
}

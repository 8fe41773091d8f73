package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Why says in words what a run waits for, since when, and what would move it;
// of a final run how it ended. ErrRunNotFound if there is none.
func (e *Engine) Why(ctx context.Context, runID string) (string, error) {
	if ctx == nil {
		return "", errNilContext
	}
	rec, err := e.load(ctx, runID)
	if err != nil {
		return "", err
	}
	why := fmt.Sprintf("run %s of reactor %s v%d is %s", rec.ID, rec.Reactor, rec.Definition, rec.Status)
	switch {
	case rec.Status.Final():
		return why + e.whyFinal(rec), nil
	case rec.Owner != "" && rec.Lease.After(rec.Now):
		return why + whyOwned(rec), nil
	case rec.Owner != "":
		return e.whyNobody(ctx, rec, why+whyDead(rec)+"; a sweep of any process queues its take-over, within a second")
	case rec.Blocked != "":
		return why + " and blocked: " + rec.Blocked + ". It goes on when a process whose definition fits starts.", nil
	case rec.Suspended != "":
		return why + " and suspended by an operator: " + rec.Suspended + ".", nil
	case rec.Due.IsZero():
		return why + ". Nothing explains why it waits: it has no owner, no due time and no reason. That should never be; run reactorctl doctor and report it.", nil
	case rec.Due.After(rec.Now):
		return why + e.whyLater(rec), nil
	}
	return e.whyNobody(ctx, rec, fmt.Sprintf("%s and has been due since %s (%s)", why, clockTime(rec.Due), span(rec.Now.Sub(rec.Due))))
}

func (e *Engine) whyFinal(rec *Record) string {
	s := fmt.Sprintf(" since %s (%s ago)", clockTime(rec.Ended), span(rec.Now.Sub(rec.Ended)))
	switch rec.Status {
	case Failed:
		f := e.failureOf(rec, nil)
		s += ": " + f.Error() + "."
		if len(f.Rollback) > 0 {
			s += " What is listed could not be rolled back and waits for an operator."
		}
		return s
	case Halted:
		return s + fmt.Sprintf(": step %s halted it: %s. Nothing was undone.", rec.ReasonPath, rec.Reason)
	case Cancelled, Aborted:
		s += ": " + rec.Reason + "."
		if left := toUndo(rec); len(left) > 0 {
			s += " Left to undo: " + strings.Join(left, ", ") + "."
		}
		return s
	}
	return s + "."
}

func whyOwned(rec *Record) string {
	at := "between two steps"
	for i := range rec.Nodes {
		row := &rec.Nodes[i]
		switch {
		case row.HookState == HookRunning:
			at = row.Hook + " of " + row.Path
		case row.State == NodeWaiting && row.Due.After(rec.Now):
			at = fmt.Sprintf("waiting for attempt %d of %s at %s (%s)", row.Attempt+1, row.Path, clockTime(row.Due), "in "+span(row.Due.Sub(rec.Now)))
		}
	}
	if next := rec.atWork(); at == "between two steps" && next != "" {
		at = "after " + next
	}
	return fmt.Sprintf(" and at work in process %s on %s, %s; that process was heard of %s ago.", rec.Process, rec.Host, at, span(rec.Now.Sub(rec.Beat)))
}

func whyDead(rec *Record) string {
	if rec.Lease.IsZero() {
		return fmt.Sprintf(" and owned by process %s, which is gone", rec.Process)
	}
	return fmt.Sprintf(" and owned by process %s on %s, whose lease ended %s ago", rec.Process, rec.Host, span(rec.Now.Sub(rec.Lease)))
}

// atWork is the last node that has settled; what comes after it is at work.
func (r *Record) atWork() (path string) {
	last := int64(0)
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Seq > last {
			path, last = n.Path, n.Seq
		}
	}
	return path
}

func (e *Engine) whyLater(rec *Record) string {
	reason := rec.WakeReason
	if reason == "" && rec.Status == Pending {
		reason = "its start time"
	}
	s := fmt.Sprintf(" and waits for %s at %s (in %s)", reason, clockTime(rec.Due), span(rec.Due.Sub(rec.Now)))
	for i := range rec.Nodes {
		row := &rec.Nodes[i]
		if row.State != NodeWaiting || row.Failure == nil {
			continue
		}
		if raw, err := e.unseal(row.Failure); err == nil {
			s += fmt.Sprintf("; attempt %d of %s failed: %s", row.Attempt, row.Path, readFailure(raw, "", "").text)
		}
	}
	return s + "."
}

// whyNobody explains a run that could be driven now and is not.
func (e *Engine) whyNobody(ctx context.Context, rec *Record, why string) (string, error) {
	health, err := e.config.Store.Health(ctx)
	if err != nil {
		return "", err
	}
	works, knows := false, false
	for _, p := range health.Processes {
		if !p.Lease.After(health.Clock) {
			continue
		}
		works = works || contains(p.Queues, rec.Queue)
		knows = knows || contains(p.Queues, rec.Queue) && contains(p.Knows, Knows(rec.Reactor, rec.Definition))
	}
	switch {
	case !works:
		return why + fmt.Sprintf(": no process works queue %q. Start a worker (reactorriver.Attach(config, eng) before river.NewClient).", rec.Queue), nil
	case !knows:
		return why + fmt.Sprintf(": reactor %s v%d is not registered on any worker of queue %q. Start one that gives it to engine.New.", rec.Reactor, rec.Definition, rec.Queue), nil
	}
	return why + fmt.Sprintf(": it waits for a free worker of queue %q.", rec.Queue), nil
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// span rounds a duration to what a reader needs.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

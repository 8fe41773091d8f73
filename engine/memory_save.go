package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Save changes a run as c says, all or nothing, if the fence still holds.
func (m *memory) Save(ctx context.Context, f Fence, c Changes) (version int64, err error) {
	err = m.change(ctx, func(now time.Time) (p memoryChange, err error) {
		r := m.runs[f.Run]
		if r != nil && c.WriteID != "" && r.writeID == c.WriteID {
			version = r.Version // it had landed
			return p, nil
		}
		if err := m.fence(now, f); err != nil {
			return p, err
		}
		if err := c.storable(f.Run, r.Status); err != nil {
			return p, err
		}
		if c.wakes() {
			p.wakes = memoryWakes([]*memoryRun{r})
		}
		p.apply = func() { version = m.save(now, r, c) }
		return p, nil
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// fence judges token and lease before the version.
func (m *memory) fence(now time.Time, f Fence) error {
	r := m.runs[f.Run]
	switch {
	case r == nil, r.Owner == "", r.Owner != f.Token, !m.alive(r.Process, now):
		return m.fenceError(f, true)
	case r.Version != f.Version:
		return m.fenceError(f, false)
	}
	return nil
}

// fenceError is a refusal, with the run as it is now.
func (m *memory) fenceError(f Fence, lost bool) error {
	e := &FenceError{Run: f.Run, Lost: lost, Expected: f.Version}
	if r := m.runs[f.Run]; r != nil {
		e.Found, e.Owner, e.Process, e.Status = r.Version, r.Owner, r.Process, r.Status
	}
	return e
}

func (c *Changes) releases() bool { return c.Release || c.Status.Final() }

// wakes reports whether the save makes the run due at once.
func (c *Changes) wakes() bool { return c.Release && c.Due && c.DueIn <= 0 && !c.Status.Final() }

// save applies changes that were accepted.
func (m *memory) save(now time.Time, r *memoryRun, c Changes) int64 {
	r.Version++
	r.writeID = c.WriteID
	r.header(c)
	if v := copied(c.Output); v != nil {
		r.Output = v
	}
	if v := copied(c.Failure); v != nil {
		r.Failure = v
	}
	for _, n := range c.Nodes {
		r.nodes[n.Path] = n.kept(r.nodes[n.Path], now)
	}
	if c.releases() {
		r.release(now, c)
	}
	if r.Status.Final() {
		r.Ended = now
		delete(m.unfinished, r.ID)
	}
	return r.Version
}

// header changes what the zero value leaves as it is.
func (r *memoryRun) header(c Changes) {
	memorySet(&r.Status, c.Status)
	memorySet(&r.Rollback, c.Rollback)
	memorySet(&r.Reason, c.Reason)
	memorySet(&r.ReasonPath, c.ReasonPath)
	memorySet(&r.WakeReason, c.WakeReason)
	memorySet(&r.Fingerprint, c.Fingerprint)
	if c.Blocked != nil {
		r.Blocked = *c.Blocked
	}
}

// memorySet sets a field, unless v is the zero value.
func memorySet[T ~string](field *T, v T) {
	if v != "" {
		*field = v
	}
}

// release gives the run up; a final one is never due again.
func (r *memoryRun) release(now time.Time, c Changes) {
	r.Owner, r.Process = "", ""
	r.notDue()
	if c.Due && !r.Status.Final() {
		r.dueAt(now.Add(c.DueIn))
	}
	if c.wakes() {
		r.woken(now)
	}
}

// kept is the node as it is stored over what was there.
func (n NodeChange) kept(old NodeRow, now time.Time) NodeRow {
	row := n.NodeRow.copied()
	if n.Keep {
		row.Input, row.Output = old.Input, old.Output
	}
	row.Started, row.Ended, row.HookEnded, row.Due = old.Started, time.Time{}, time.Time{}, time.Time{}
	if row.Started.IsZero() {
		row.Started = now.Add(-n.Took).Truncate(time.Microsecond)
	}
	if row.State == NodeWaiting {
		row.Due = now.Add(n.DueIn)
	}
	if row.State.ended() {
		row.Ended = old.Ended
		if row.Ended.IsZero() {
			row.Ended = now
		}
	}
	if row.HookState.ended() {
		row.HookEnded = old.HookEnded
		if row.HookState != old.HookState || row.HookSeq != old.HookSeq {
			row.HookEnded = now
		}
	}
	return row
}

func (s NodeState) ended() bool {
	return slices.Contains([]NodeState{NodeDone, NodeSkipped, NodeFailed, NodeHalted, NodeOpen}, s)
}

func (s HookState) ended() bool {
	return slices.Contains([]HookState{HookCompleted, HookFailed, HookSkipped}, s)
}

// storable refuses what the tables would refuse, and what C-194..C-204 leave out.
func (c *Changes) storable(run string, from Status) error {
	what := "save run " + run
	if c.Status != "" && c.Status != from && !slices.Contains(memoryNext[from], c.Status) {
		return refusedValue(fmt.Sprintf("%s: status %s can't follow %s", what, c.Status, from))
	}
	texts := []string{c.Reason, c.ReasonPath, c.WakeReason}
	if c.Blocked != nil {
		texts = append(texts, *c.Blocked)
	}
	if err := storableJSON(what, c.Output, c.Failure); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := storableJSON(what+", node "+n.Path, n.Input, n.Output, n.Failure, n.HookFailure); err != nil {
			return err
		}
		texts = append(texts, n.Path, n.Reason)
	}
	return storableText(what, texts...)
}

// memoryNext is what may follow a status under an owner.
var memoryNext = map[Status][]Status{
	Pending:     {Running, RollingBack, Cancelled},
	Running:     {Paused, RollingBack, Completed, Halted, Failed, Cancelled, Aborted},
	Paused:      {Running, RollingBack, Failed, Cancelled},
	RollingBack: {Failed, Cancelled},
}

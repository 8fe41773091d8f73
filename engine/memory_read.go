package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Get loads one run as it is; ErrRunNotFound if there is none.
func (m *memory) Get(ctx context.Context, run string) (found *Record, err error) {
	err = m.look(ctx, func(now time.Time) {
		if r := m.runs[run]; r != nil {
			found = m.load(r, now)
		}
	})
	if err == nil && found == nil {
		err = ErrRunNotFound
	}
	return found, err
}

// load is a copy of the whole run.
func (m *memory) load(r *memoryRun, now time.Time) *Record {
	rec := m.head(r, now)
	rec.Input, rec.Output = copied(r.Input), copied(r.Output)
	for _, n := range r.nodes {
		rec.Nodes = append(rec.Nodes, n.copied())
	}
	return &rec
}

// head is a copy without input, output and nodes.
func (m *memory) head(r *memoryRun, now time.Time) Record {
	rec := r.Record
	rec.Input, rec.Output = nil, nil
	rec.Failure, rec.Tags, rec.Now = copied(r.Failure), slices.Clone(r.Tags), now
	if p := m.processes[r.Process]; p != nil && r.Owner != "" {
		rec.Lease, rec.Beat, rec.Host = p.lease, p.beat, p.Host
	}
	return rec
}

// copied is a row that shares no bytes with n.
func (n NodeRow) copied() NodeRow {
	n.Input, n.Output, n.Failure, n.HookFailure = copied(n.Input), copied(n.Output), copied(n.Failure), copied(n.HookFailure)
	return n
}

// Statuses gives the status of each of the runs that exist.
func (m *memory) Statuses(ctx context.Context, runs []string) (map[string]Status, error) {
	found := map[string]Status{}
	err := m.look(ctx, func(time.Time) {
		for _, id := range runs {
			if r := m.runs[id]; r != nil {
				found[id] = r.Status
			}
		}
	})
	return found, err
}

// Health counts runs and processes; there is no server and no schema.
func (m *memory) Health(ctx context.Context) (*Health, error) {
	h := &Health{Server: "memory", Counts: map[Status]int{}}
	err := m.look(ctx, func(now time.Time) {
		h.Clock, h.Unworked = now, m.unworked(now)
		owned := map[string]int{}
		for _, r := range m.unfinished {
			h.Counts[r.Status]++
			owned[r.Process]++
			if why := m.stuck(r, now); why != "" {
				why += m.unknown(r, now)
				h.Stuck = append(h.Stuck, Stuck{Run: r.ID, Reactor: r.Reactor, Status: r.Status, Reason: why})
			}
		}
		for id, p := range m.processes {
			h.Processes = append(h.Processes, p.health(owned[id]))
		}
	})
	slices.SortFunc(h.Stuck, func(a, b Stuck) int { return strings.Compare(a.Run, b.Run) })
	slices.SortFunc(h.Processes, func(a, b ProcessHealth) int { return strings.Compare(a.ID, b.ID) })
	return h, err
}

func (p *memoryProcess) health(owned int) ProcessHealth {
	return ProcessHealth{
		ID: p.ID, Host: p.Host, PID: p.PID,
		Started: p.started, Beat: p.beat, Lease: p.lease,
		Knows: slices.Clone(p.Knows), Queues: slices.Clone(p.Queues),
		Owned: owned,
	}
}

// stuck says why nothing wakes the run, or nothing has for long; "" if it is well.
func (m *memory) stuck(r *memoryRun, now time.Time) string {
	switch since := r.Due.Format(time.RFC3339); {
	case !m.wakeable(r, now) || r.Status == Paused || r.Blocked != "":
		return ""
	case r.Due.IsZero() && r.Owner == "":
		return "no owner and no due time: nothing will wake it"
	case r.isDue(now.Add(-memoryUnworked)) && r.Owner != "":
		return "its owner died, and nobody has claimed it since " + since
	case r.isDue(now.Add(-memoryUnworked)):
		return "due since " + since + " and not claimed"
	}
	return ""
}

// unknown says that no live process that works the queue of r knows its reactor.
func (m *memory) unknown(r *memoryRun, now time.Time) string {
	if !m.worked(r.Queue, now) {
		return ""
	}
	for id, p := range m.processes {
		if m.alive(id, now) && slices.Contains(p.Queues, r.Queue) && slices.Contains(p.Knows, r.knownAs()) {
			return ""
		}
	}
	return fmt.Sprintf(": reactor %s v%d is not registered on any worker of queue %q", r.Reactor, r.Definition, r.Queue)
}

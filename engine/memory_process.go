package engine

import (
	"context"
	"slices"
	"time"
)

// memoryProcess is the row of a process.
type memoryProcess struct {
	Process
	started, beat, lease time.Time
}

// Register adds the process, or renews it, keeps its graphs, and makes the
// blocked runs of the definitions that it can drive due.
func (m *memory) Register(ctx context.Context, p Process, lease time.Duration) error {
	return m.look(ctx, func(now time.Time) {
		row := &memoryProcess{Process: p, started: now, beat: now, lease: now.Add(lease)}
		row.Knows, row.Queues, row.Graphs = slices.Clone(p.Knows), slices.Clone(p.Queues), nil
		if old := m.processes[p.ID]; old != nil {
			row.started = old.started
		}
		m.processes[p.ID] = row
		for _, g := range p.Graphs {
			m.keepGraph(g)
		}
		m.unblock(now, p.Knows)
	})
}

// keepGraph stores a graph that is not there yet: a fingerprint stands for one graph.
func (m *memory) keepGraph(g StoredGraph) {
	if _, ok := m.graphs[g.Fingerprint]; !ok {
		g.Form = copied(g.Form)
		m.graphs[g.Fingerprint] = g
	}
}

// unblock makes the blocked runs of these definitions due: the process that
// knows them may have the one that fits.
func (m *memory) unblock(now time.Time, knows []string) {
	for _, r := range m.unfinished {
		if r.Blocked != "" && r.Owner == "" && r.Due.IsZero() && slices.Contains(knows, r.knownAs()) {
			r.dueAt(now)
		}
	}
}

// Beat renews the lease of a process.
func (m *memory) Beat(ctx context.Context, process string, lease time.Duration) (known bool, err error) {
	err = m.look(ctx, func(now time.Time) {
		p := m.processes[process]
		if known = p != nil; known {
			p.beat, p.lease = now, now.Add(lease)
		}
	})
	return known, err
}

// Unregister removes the row of a process.
func (m *memory) Unregister(ctx context.Context, process string) error {
	return m.look(ctx, func(time.Time) { delete(m.processes, process) })
}

// Graph loads a stored graph; nil if there is none.
func (m *memory) Graph(ctx context.Context, fingerprint string) (found *StoredGraph, err error) {
	err = m.look(ctx, func(time.Time) {
		if g, ok := m.graphs[fingerprint]; ok {
			g.Form = copied(g.Form)
			found = &g
		}
	})
	return found, err
}

// alive reports whether the process has a lease that is not over.
func (m *memory) alive(process string, now time.Time) bool {
	p := m.processes[process]
	return p != nil && p.lease.After(now)
}

// worked reports whether a live process works the queue.
func (m *memory) worked(queue string, now time.Time) bool {
	for id, p := range m.processes {
		if slices.Contains(p.Queues, queue) && m.alive(id, now) {
			return true
		}
	}
	return false
}

func (r *memoryRun) knownAs() string { return Knows(r.Reactor, r.Definition) }

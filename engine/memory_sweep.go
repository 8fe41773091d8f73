package engine

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	// memoryGone is how long after its lease the row of a process stays.
	memoryGone = time.Hour
	// memoryUnworked is how long runs are due before their queue counts as unworked.
	memoryUnworked = 30 * time.Second
)

// Wake queues the wake-ups of those of the runs that are due and have no live
// owner.
func (m *memory) Wake(ctx context.Context, runs []string) error {
	return m.change(ctx, func(now time.Time) (memoryChange, error) {
		var due []*memoryRun
		for _, id := range runs {
			if r := m.runs[id]; r != nil && r.isDue(now) && m.wakeable(r, now) && !slices.Contains(due, r) {
				due = append(due, r)
			}
		}
		return memoryWaking(due, now), nil
	})
}

// wakeable reports whether a worker could claim r once it is due; a final run
// never is.
func (m *memory) wakeable(r *memoryRun, now time.Time) bool {
	return r.Suspended == "" && (r.Owner == "" || !m.alive(r.Process, now))
}

// memoryWaking is the change that queues the wake-ups of runs.
func memoryWaking(runs []*memoryRun, now time.Time) memoryChange {
	return memoryChange{wakes: memoryWakes(runs), apply: func() {
		for _, r := range runs {
			if r.Due.IsZero() { // its owner died
				r.Due = now
			}
			r.woken(now)
		}
	}}
}

// Sweep runs one pass, unless one began within the interval.
func (m *memory) Sweep(ctx context.Context, s SweepPass) (result SweepResult, err error) {
	if err := m.look(ctx, func(now time.Time) {
		result.Ran = s.Interval <= 0 || !now.Before(m.swept.Add(s.Interval))
		if result.Ran {
			m.swept = now
		}
	}); err != nil || !result.Ran {
		return result, err
	}
	result.Found = map[string]int{}
	for _, step := range []struct {
		name string
		once func(context.Context, int) (int, error)
	}{{SweepDead, m.sweepDead}, {SweepDue, m.sweepDue}, {SweepLeftovers, m.sweepLeftovers}} {
		for full := true; full; {
			n, err := step.once(ctx, s.Limit)
			if err != nil {
				return result, err
			}
			result.Found[step.name] += n
			full = s.Limit > 0 && n == s.Limit
		}
	}
	err = m.look(ctx, func(now time.Time) { result.Unworked = m.unworked(now) })
	return result, err
}

// sweepDead wakes runs of processes without a live lease.
func (m *memory) sweepDead(ctx context.Context, limit int) (int, error) {
	return m.sweepRuns(ctx, limit, func(r *memoryRun, _ time.Time) bool { return r.Owner != "" })
}

// sweepDue wakes due runs that nobody owns.
func (m *memory) sweepDue(ctx context.Context, limit int) (int, error) {
	return m.sweepRuns(ctx, limit, func(r *memoryRun, now time.Time) bool { return r.Owner == "" && r.isDue(now) })
}

// sweepRuns wakes the runs that pick chooses and that no wake-up is on its way
// for, oldest due first.
func (m *memory) sweepRuns(ctx context.Context, limit int, pick func(*memoryRun, time.Time) bool) (found int, err error) {
	err = m.change(ctx, func(now time.Time) (memoryChange, error) {
		var runs []*memoryRun
		for _, r := range m.unfinished {
			if pick(r, now) && m.wakeable(r, now) && !r.wakeAt.After(now) {
				runs = append(runs, r)
			}
		}
		slices.SortFunc(runs, func(a, b *memoryRun) int {
			if c := a.Due.Compare(b.Due); c != 0 {
				return c
			}
			return strings.Compare(a.ID, b.ID)
		})
		if limit > 0 && len(runs) > limit {
			runs = runs[:limit]
		}
		found = len(runs)
		return memoryWaking(runs, now), nil
	})
	return found, err
}

// sweepLeftovers removes the rows of processes that are long gone and that no
// run names.
func (m *memory) sweepLeftovers(ctx context.Context, limit int) (found int, err error) {
	err = m.look(ctx, func(now time.Time) {
		named := map[string]bool{}
		for _, r := range m.unfinished {
			named[r.Process] = true
		}
		for id, p := range m.processes {
			if (limit <= 0 || found < limit) && !named[id] && p.lease.Add(memoryGone).Before(now) {
				delete(m.processes, id)
				found++
			}
		}
	})
	return found, err
}

// unworked lists queues with runs that are due for long and that nobody works.
func (m *memory) unworked(now time.Time) []Unworked {
	counts := map[string]int{}
	for _, r := range m.unfinished {
		if r.isDue(now.Add(-memoryUnworked)) && m.wakeable(r, now) && !m.worked(r.Queue, now) {
			counts[r.Queue]++
		}
	}
	out := make([]Unworked, 0, len(counts))
	for queue, runs := range counts {
		out = append(out, Unworked{Queue: queue, Runs: runs})
	}
	slices.SortFunc(out, func(a, b Unworked) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

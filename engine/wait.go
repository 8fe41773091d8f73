package engine

import (
	"context"
	"slices"
	"time"
)

// pollEvery is how often the waits of this process look at their runs.
const pollEvery = 100 * time.Millisecond

// await blocks until a run is final or paused. Runs that end in this process
// say so at once; for all others one goroutine of the process looks.
func (e *Engine) await(ctx context.Context, run string) error {
	for {
		changed := e.waitFor(run)
		defer e.stopWaiting(run, changed)
		statuses, err := e.config.Store.Statuses(ctx, []string{run})
		if err == nil {
			status, found := statuses[run]
			if !found {
				return notFound(run)
			}
			if status.Final() || status == Paused {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return callerGone(ctx)
		}
	}
}

// waitFor is a channel that is closed when a run has ended or paused.
func (e *Engine) waitFor(run string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := make(chan struct{})
	e.waiting[run] = append(e.waiting[run], changed)
	if !e.polling {
		e.polling = true
		go e.poll()
	}
	return changed
}

// stopWaiting forgets a wait, so that nobody looks for it any more.
func (e *Engine) stopWaiting(run string, changed chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[run] = slices.DeleteFunc(e.waiting[run], func(c chan struct{}) bool { return c == changed })
	if len(e.waiting[run]) == 0 {
		delete(e.waiting, run)
	}
}

// announce wakes those who wait for a run.
func (e *Engine) announce(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, changed := range e.waiting[run] {
		close(changed)
	}
	delete(e.waiting, run)
}

// poll looks at all awaited runs in one query, as long as there are any.
func (e *Engine) poll() {
	for {
		<-time.After(pollEvery)
		runs := e.awaited()
		if runs == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		statuses, err := e.config.Store.Statuses(ctx, runs)
		cancel()
		for _, run := range runs {
			if status, found := statuses[run]; err == nil && (!found || status.Final() || status == Paused) {
				e.announce(run)
			}
		}
	}
}

// awaited are the runs that somebody waits for.
func (e *Engine) awaited() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 {
		e.polling = false
		return nil
	}
	runs := make([]string, 0, len(e.waiting))
	for run := range e.waiting {
		runs = append(runs, run)
	}
	return runs
}

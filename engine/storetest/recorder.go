package storetest

import (
	"context"
	"slices"
	"sync"

	"github.com/pgreactor/reactor/engine"
)

// recorder is a Dispatcher that keeps what it was told, in order.
type recorder struct {
	mu     sync.Mutex
	events []event
	broken error // what Wake answers instead of queueing
}

// event is one call: of Wake, or of Ring if it has no wakes.
type event struct {
	wakes  []engine.Wake
	notify bool
	rung   []string
}

func (r *recorder) Wake(_ context.Context, _ engine.Tx, wakes []engine.Wake, notify bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	e := event{notify: notify}
	for _, w := range wakes {
		w.Runs = slices.Clone(w.Runs)
		e.wakes = append(e.wakes, w)
	}
	r.events = append(r.events, e)
	return nil
}

func (r *recorder) Ring(queues ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{rung: slices.Clone(queues)})
}

func (r *recorder) Validate() error { return nil }

// breakWith makes Wake fail from now on; nil mends it.
func (r *recorder) breakWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

// since returns the events from the mark on; a mark is what mark returned.
func (r *recorder) since(mark int) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[mark:])
}

func (r *recorder) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// wakes returns all wake-ups since the mark.
func (r *recorder) wakes(mark int) []engine.Wake {
	var all []engine.Wake
	for _, e := range r.since(mark) {
		all = append(all, e.wakes...)
	}
	return all
}

// counts says how often each run was woken since the mark.
func (r *recorder) counts(mark int) map[string]int {
	n := map[string]int{}
	for _, w := range r.wakes(mark) {
		for _, run := range w.Runs {
			n[run]++
		}
	}
	return n
}

// rungAfterWake reports whether, since the mark, the queue was rung after the
// last wake-up for it.
func (r *recorder) rungAfterWake(mark int, queue string) bool {
	rung := false
	for _, e := range r.since(mark) {
		for _, w := range e.wakes {
			rung = rung && w.Queue != queue
		}
		rung = rung || slices.Contains(e.rung, queue)
	}
	return rung
}

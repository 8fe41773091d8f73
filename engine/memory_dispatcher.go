package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// memoryDispatcher is the Dispatcher of InMemory: a queue in this process.
type memoryDispatcher struct {
	mu    sync.Mutex
	wakes []Wake
	some  chan struct{} // has room for one: something was queued since it was read
}

func newMemoryDispatcher() *memoryDispatcher {
	return &memoryDispatcher{some: make(chan struct{}, 1)}
}

var _ Dispatcher = (*memoryDispatcher)(nil)

// Wake queues the wake-ups and says so, whatever notify is. What takes them
// meets the store's lock and so comes after the change that queued them.
func (d *memoryDispatcher) Wake(ctx context.Context, tx Tx, wakes []Wake, notify bool) error {
	if tx != nil {
		return errors.New("wake runs: a dispatcher in memory takes part in no transaction")
	}
	d.mu.Lock()
	for _, w := range wakes {
		w.Runs = slices.Clone(w.Runs)
		d.wakes = append(d.wakes, w)
	}
	d.mu.Unlock()
	d.Ring()
	return nil
}

// Ring says that there may be something to take.
func (d *memoryDispatcher) Ring(...string) {
	select {
	case d.some <- struct{}{}:
	default: // said already
	}
}

// Validate finds nothing wrong: there are no options.
func (d *memoryDispatcher) Validate() error { return nil }

// queued is readable once something was queued.
func (d *memoryDispatcher) queued() <-chan struct{} { return d.some }

// take empties the queue and returns what was in it, oldest first.
func (d *memoryDispatcher) take() []Wake {
	d.mu.Lock()
	defer d.mu.Unlock()
	wakes := d.wakes
	d.wakes = nil
	return wakes
}

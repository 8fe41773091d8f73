package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// memory is the Store of InMemory: the same tokens, versions, leases and
// refusals as on a database, in maps under one lock. Its values end with the
// process. One clock is both that of the process and that of the "database".
type memory struct {
	clock func() time.Time

	mu         sync.Mutex // held while the dispatcher queues, never while it rings
	attached   bool
	dispatcher Dispatcher
	runs       map[string]*memoryRun
	unfinished map[string]*memoryRun
	keys       map[memoryKey]*memoryRun
	processes  map[string]*memoryProcess
	graphs     map[string]StoredGraph
	swept      time.Time // when the last pass began
}

// newMemory returns an empty store that takes the time from clock.
func newMemory(clock func() time.Time) *memory {
	return &memory{
		clock:      clock,
		runs:       map[string]*memoryRun{},
		unfinished: map[string]*memoryRun{},
		keys:       map[memoryKey]*memoryRun{},
		processes:  map[string]*memoryProcess{},
		graphs:     map[string]StoredGraph{},
	}
}

var _ Store = (*memory)(nil)

// memoryKey is a start key, which is unique within a reactor.
type memoryKey struct{ reactor, key string }

// memoryRun is a run as it is kept. Of the Record only what is stored is set:
// Nodes, Lease, Beat, Host and Now are made when the run is loaded.
type memoryRun struct {
	Record
	fields map[string]string
	nodes  map[string]NodeRow

	createID string // write id of the creation
	writeID  string // of the last accepted write
	wakeAt   time.Time
	wakes    int // wake-ups queued since the run was last claimed

	takenFrom, takenFromProcess string // by the present owner
}

// memoryChange is what an operation will do: the wake-ups that go with it, and
// the doing, which can't fail.
type memoryChange struct {
	wakes []Wake
	apply func()
}

// change asks plan for a change and makes it, with its wake-ups or not at all;
// the bell is rung once the lock is free.
func (m *memory) change(ctx context.Context, plan func(now time.Time) (memoryChange, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	queues, err := m.locked(ctx, plan)
	if len(queues) > 0 {
		m.dispatcher.Ring(queues...)
	}
	return err
}

func (m *memory) locked(ctx context.Context, plan func(now time.Time) (memoryChange, error)) (queues []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := plan(m.now())
	if err != nil {
		return nil, err
	}
	if m.dispatcher != nil && len(c.wakes) > 0 {
		if err := m.dispatcher.Wake(ctx, nil, c.wakes, false); err != nil {
			return nil, err
		}
		queues = memoryQueues(c.wakes)
	}
	if c.apply != nil {
		c.apply()
	}
	return queues, nil
}

// look runs f under the lock.
func (m *memory) look(ctx context.Context, f func(now time.Time)) error {
	return m.change(ctx, func(now time.Time) (memoryChange, error) {
		return memoryChange{apply: func() { f(now) }}, nil
	})
}

// now has the precision that Postgres keeps.
func (m *memory) now() time.Time { return m.clock().Truncate(time.Microsecond).UTC() }

// Attach binds the store to the dispatcher; a second call is an error.
func (m *memory) Attach(d Dispatcher) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached {
		return errors.New("the store in memory serves an engine already: give each engine a store of its own")
	}
	m.attached, m.dispatcher = true, d
	return nil
}

// Check has nothing to compare: there is no schema.
func (m *memory) Check(ctx context.Context) error { return ctx.Err() }

// memoryWakes groups runs into wake-ups of one queue and priority, at most
// MaxWake runs each, in the order of the runs.
func memoryWakes(runs []*memoryRun) []Wake {
	type group struct {
		queue    string
		priority int
	}
	var wakes []Wake
	at := map[group]int{} // the wake-up of the group that has room
	for _, r := range runs {
		g := group{r.Queue, r.Priority}
		i, ok := at[g]
		if !ok || len(wakes[i].Runs) == MaxWake {
			i = len(wakes)
			at[g] = i
			wakes = append(wakes, Wake{Queue: r.Queue, Priority: r.Priority})
		}
		wakes[i].Runs = append(wakes[i].Runs, r.ID)
	}
	return wakes
}

func memoryQueues(wakes []Wake) []string {
	names := map[string]bool{}
	for _, w := range wakes {
		names[w.Queue] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// woken notes that a wake-up of r was queued: the sweep leaves r alone for a
// pause that grows from 1 s to 1 min.
func (r *memoryRun) woken(now time.Time) {
	r.wakes++
	r.wakeAt = now.Add(min(time.Second<<min(r.wakes-1, 6), time.Minute))
}

// dueAt makes r due at a time; the sweep wakes it then.
func (r *memoryRun) dueAt(at time.Time) { r.Due, r.wakeAt, r.wakes = at, at, 0 }

// notDue takes the due time away.
func (r *memoryRun) notDue() { r.dueAt(time.Time{}) }

// refusedValue is the error of a write that no repetition makes acceptable.
type refusedValue string

func (e refusedValue) Error() string        { return string(e) }
func (e refusedValue) Is(target error) bool { return target == ErrUnstorable }

// copied is a value that shares no bytes with v; nil stays nil, and empty is as
// good as absent.
func copied(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return nil
	}
	return slices.Clone(v)
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// An Engine drives runs of the reactors it was given. It is one process of the
// system: it has a lease of its own, and what it drives is its own as long as
// that lives. Its methods may be called from any goroutine.
type Engine struct {
	config     Config
	middleware Next
	memory     *memoryDispatcher // nil but for InMemory

	mu       sync.Mutex
	known    map[string]*definition // by name and version, see Knows
	newest   map[string]*definition // by name
	queues   []string               // worked in this process
	seats    *seats                 // for runs driven by workers
	work     map[string]*execution  // at work in this process, by token
	idle     chan struct{}          // closed when work is empty after Close
	waiting  map[string][]chan struct{}
	polling  bool
	quiet    map[string]time.Time // what was logged at a bounded rate, and when
	checked  bool
	started  bool
	closing  bool
	process  string
	stopping chan struct{} // closed by Close: nothing more begins
	starting sync.Mutex
	lease    *lease
	life     context.Context // of heartbeat, sweeper and timers
	end      context.CancelFunc
	loops    sync.WaitGroup
}

// New returns an engine for the given reactors; the error names every bad field
// and every reactor that needs what config lacks. A definition is known by its
// value: Run and Start on another value of the same name and version return
// ErrNotRegistered. New does no I/O: the schema is checked, and heartbeat and
// sweeper begin, at the first use or when workers are attached.
func New(config Config, reactors ...Definition) (*Engine, error) {
	config = config.withDefaults()
	problems := config.problems()
	e := newEngine(config)
	for _, r := range reactors {
		if err := e.register(r); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 {
		if err := config.Store.Attach(config.Dispatcher); err != nil {
			problems = append(problems, err)
		}
	}
	if err := join(problems); err != nil {
		e.end()
		return nil, err
	}
	return e, nil
}

// InMemory returns an engine for tests and for runs that may be lost with the
// process. It knows each reactor from its first run on, and what would be
// handed to workers is driven before the call returns.
func InMemory() *Engine {
	dispatcher := newMemoryDispatcher()
	config := Config{Lease: 1 << 20 * time.Hour, Dispatcher: dispatcher}.withDefaults()
	config.Store = newMemory(config.Clock.Now)
	e := newEngine(config)
	e.memory = dispatcher
	if err := config.Store.Attach(dispatcher); err != nil { // a new store has no other engine
		panic(err)
	}
	return e
}

func newEngine(config Config) *Engine {
	e := &Engine{
		config: config, middleware: chain(config.Middleware, config.Logger),
		known: map[string]*definition{}, newest: map[string]*definition{},
		work: map[string]*execution{}, waiting: map[string][]chan struct{}{}, quiet: map[string]time.Time{},
		seats: newSeats(64), stopping: make(chan struct{}), idle: make(chan struct{}),
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.lease = newLease(config.Lease, func() { e.interrupt(ErrLeaseLost) })
	return e
}

func (e *Engine) register(r Definition) error {
	if r == nil || r.definition() == nil {
		return errors.New("a reactor is nil")
	}
	def := r.definition()
	name := Knows(def.name, def.version)
	if other := e.known[name]; other != nil {
		return fmt.Errorf("reactor %s v%d is registered twice (%s and %s)", def.name, def.version, other.pos, def.pos)
	}
	e.learn(name, def)
	return nil
}

func (e *Engine) learn(name string, def *definition) {
	e.known[name] = def
	if newest := e.newest[def.name]; newest == nil || newest.version < def.version {
		e.newest[def.name] = def
	}
}

// knows checks that def is the value that New was given.
func (e *Engine) knows(def *definition) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := Knows(def.name, def.version)
	known := e.known[name]
	switch {
	case known == def:
		return nil
	case known != nil:
		return refuse(ErrNotRegistered, "reactor %s v%d: another definition of it is registered (%s): keep the value that engine.New was given", def.name, def.version, known.pos)
	case e.memory == nil:
		return refuse(ErrNotRegistered, "reactor %s v%d is not registered: give it to engine.New", def.name, def.version)
	}
	e.learn(name, def)
	return nil
}

func (e *Engine) definitionOf(reactor string, version int) *definition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[Knows(reactor, version)]
}

// self is this process as others see it.
func (e *Engine) self(id string) Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	host, _ := os.Hostname()
	p := Process{ID: id, Host: host, PID: os.Getpid(), Queues: append([]string(nil), e.queues...)}
	for name, def := range e.known {
		p.Knows = append(p.Knows, name)
		p.Graphs = append(p.Graphs, def.stored)
	}
	return p
}

// names are the definitions that this process can drive.
func (e *Engine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.known))
	for name := range e.known {
		names = append(names, name)
	}
	return names
}

// check makes sure, once, that the schema is the one this release needs.
func (e *Engine) check(ctx context.Context) error {
	e.mu.Lock()
	checked := e.checked
	e.mu.Unlock()
	if checked {
		return nil
	}
	if err := e.config.Store.Check(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	e.checked = true
	e.mu.Unlock()
	return nil
}

// start makes this process one that may own runs: it checks the schema,
// registers the process, and begins heartbeat and sweeper. It is called before
// every use and does its work once.
func (e *Engine) start(ctx context.Context) error {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.isClosing() {
		return errClosed
	}
	if e.started {
		return nil
	}
	if err := e.check(ctx); err != nil {
		return err
	}
	if err := e.enrol(ctx); err != nil {
		return err
	}
	e.started = true
	if e.memory == nil {
		e.loops.Go(e.heartbeat)
	}
	if e.memory == nil && e.config.Dispatcher != nil && !e.config.NoSweep {
		e.loops.Go(e.sweeper)
	}
	return nil
}

var errClosed = fmt.Errorf("engine is closed: %w", ErrShutdown)

func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// enrol registers the process under a fresh id.
func (e *Engine) enrol(ctx context.Context) error {
	id, sent := NewUUID(), time.Now()
	if err := e.config.Store.Register(ctx, e.self(id), e.config.Lease); err != nil {
		return fmt.Errorf("register the process: %w", err)
	}
	e.mu.Lock()
	e.process = id
	e.mu.Unlock()
	e.lease.confirm(sent)
	return nil
}

func (e *Engine) processID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process
}

// Close ends heartbeat and sweeper once the bodies at work have returned, and
// gives back the runs it owns. A context that is over means: do not wait; then
// the contexts of bodies at work end with ErrShutdown, and the lease is kept
// for those that have still not returned.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.closing {
		e.closing = true
		close(e.stopping)
		if len(e.work) == 0 {
			close(e.idle)
		}
		go e.finish()
	}
	e.mu.Unlock()
	select {
	case <-e.idle:
	case <-ctx.Done():
		e.interrupt(ErrShutdown)
		select {
		case <-e.idle:
		case <-time.After(handBackTime):
			return fmt.Errorf("close engine: %d run(s) have a body that has not returned: %w", e.atWork(), context.Cause(ctx))
		}
	}
	e.loops.Wait()
	return nil
}

// handBackTime is what a Close that must not wait leaves to bodies that heed
// their context, so that their runs can be given back.
const handBackTime = 500 * time.Millisecond

func (e *Engine) atWork() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.work)
}

// finish leaves the system once nothing is at work any more. Until then the
// heartbeat goes on.
func (e *Engine) finish() {
	<-e.idle
	e.end()
	e.loops.Wait()
	e.lease.stop()
	if process := e.processID(); process != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := e.config.Store.Unregister(ctx, process); err != nil {
			e.config.Logger.Warn("the row of this process stays until its lease is over", "process", process, "error", err)
		}
	}
}

// enter notes an execution, so that it can be interrupted; false if the engine
// is closing.
func (e *Engine) enter(x *execution) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	e.work[x.fence.Token] = x
	return true
}

func (e *Engine) leave(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.work, x.fence.Token)
	if e.closing && len(e.work) == 0 {
		close(e.idle)
	}
}

// interrupt ends the contexts of everything at work.
func (e *Engine) interrupt(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.work {
		x.cancel(cause)
	}
}

// seldom reports whether what is named was not logged within the last minute.
func (e *Engine) seldom(what string, every time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.quiet[what]) < every {
		return false
	}
	e.quiet[what] = time.Now()
	return true
}

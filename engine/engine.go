package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

	mu        sync.Mutex
	known     map[string]*definition // by name and version, see Knows
	newest    map[string]*definition // by name
	queues    []string               // worked in this process
	told      int                    // how many of them the row of this process names
	seats     *seats                 // for runs driven by workers
	holds     int                    // calls that may own runs
	work      map[string]*execution  // at work in this process, by token
	idle      chan struct{}          // closed once nothing holds a closing engine
	waiting   map[string][]chan struct{}
	polling   bool
	questions []question // about writes whose replies were lost
	asking    bool
	quiet     map[string]time.Time // what was logged at a bounded rate, and when
	checked   bool
	started   bool
	closing   bool
	process   string
	stopping  chan struct{} // closed by Close: nothing more begins
	finished  chan struct{} // closed once this process has left the system
	starting  chan struct{} // has room for the one who is at it
	lease     *lease
	life      context.Context // of heartbeat, sweeper and timers
	end       context.CancelFunc
	loops     sync.WaitGroup
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
// handed to workers is driven before the call returns. It logs warnings and
// errors only.
func InMemory() *Engine {
	dispatcher := newMemoryDispatcher()
	quiet := slog.New(warnings{slog.Default().Handler()})
	config := Config{Lease: 1 << 20 * time.Hour, Dispatcher: dispatcher, Logger: quiet}.withDefaults()
	config.Store = newMemory(config.Clock.Now)
	e := newEngine(config)
	e.memory = dispatcher
	e.seats.limit(math.MaxInt)                              // a body may start runs, which are driven before it returns
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
		seats: newSeats(64), idle: make(chan struct{}),
		stopping: make(chan struct{}), finished: make(chan struct{}), starting: make(chan struct{}, 1),
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

// Dispatcher is that of Config, nil if there is none.
func (e *Engine) Dispatcher() Dispatcher { return e.config.Dispatcher }

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
	if e.isStarted() {
		return nil
	}
	select {
	case e.starting <- struct{}{}:
	case <-ctx.Done():
		return callerGone(ctx)
	}
	defer func() { <-e.starting }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)() // nobody waits for a start of a closed engine
	switch {
	case e.isClosing():
		return errClosed
	case e.isStarted():
		return nil
	}
	err := e.check(ctx)
	if err == nil {
		err = e.begins(ctx)
	}
	if err != nil && e.isClosing() {
		return errClosed
	}
	return err
}

// isStarted reports whether there is nothing left to start.
func (e *Engine) isStarted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started && !e.closing && e.told == len(e.queues)
}

// begins registers the process and starts its loops. Workers that were attached
// later are told of by registering once more.
func (e *Engine) begins(ctx context.Context) error {
	e.mu.Lock()
	id, again := e.process, e.started
	e.mu.Unlock()
	if !again {
		id = NewUUID()
	}
	if err := e.enrol(ctx, id); err != nil || again {
		return err
	}
	e.mu.Lock()
	e.started = true
	e.mu.Unlock()
	if e.memory == nil {
		e.loops.Go(e.heartbeat)
	}
	if e.memory == nil && e.config.Dispatcher != nil && !e.config.NoSweep {
		e.loops.Go(e.sweeper)
	}
	return nil
}

var errClosed = fmt.Errorf("engine is closed: %w", ErrShutdown)

// enrol registers the process under an id.
func (e *Engine) enrol(ctx context.Context, id string) error {
	self, sent := e.self(id), time.Now()
	if err := e.config.Store.Register(ctx, self, e.config.Lease); err != nil {
		return fmt.Errorf("register the process: %w", err)
	}
	e.mu.Lock()
	e.process, e.told = id, len(self.Queues)
	e.mu.Unlock()
	e.lease.confirm(sent)
	return nil
}

func (e *Engine) processID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process
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

// mayComplain is seldom for lines that say that the database can't be asked:
// however many runs try, there is one of them a second.
func (e *Engine) mayComplain(what string, every time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	const any = "the database"
	if time.Since(e.quiet[what]) < every || time.Since(e.quiet[any]) < time.Second {
		return false
	}
	e.quiet[what], e.quiet[any] = time.Now(), time.Now()
	return true
}

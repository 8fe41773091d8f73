package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/examples/checkout"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// The settings of the workers. They are much shorter than the defaults, so that
// a take-over is seen soon.
const (
	lease     = 2 * time.Second
	heartbeat = 500 * time.Millisecond
	sweep     = 250 * time.Millisecond
	queue     = "demo"
)

// A site is where the demo plays: what a worker must know. It has a password, so
// it goes to workers through a pipe and not as an argument.
type site struct {
	Database    string
	Schema      string
	RiverSchema string
}

// engine is an engine that knows the checkout of a shop on the site's ledger.
func (s site) engine(pool *pgxpool.Pool, c engine.Config) (*engine.Engine, *engine.Reactor[checkout.Order, checkout.Label], error) {
	reactor := services{newLedger(pool, s.Schema)}.shop().Reactor()
	c.Store = pgstore.New(pool, pgstore.Options{Schema: s.Schema})
	c.Dispatcher = reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: s.RiverSchema})
	c.Queue = queue
	c.Logger = slog.New(slog.DiscardHandler)
	eng, err := engine.New(c, reactor)
	return eng, reactor, err
}

// The kinds of events that a worker tells beside those of the engine.
const (
	ready  = "ready"  // it works the queue
	broken = "broken" // it could not begin, or not end
	gone   = "gone"   // the process has ended; told by the parent
)

// An event is one line that a worker tells.
type event struct {
	Kind      string
	Run       string `json:",omitempty"`
	Path      string `json:",omitempty"`
	Key       string `json:",omitempty"` // the idempotency key of the step
	Recovery  int    `json:",omitempty"`
	TakenOver bool   `json:",omitempty"`
	State     string `json:",omitempty"` // of a step or run that ended
	Skipped   bool   `json:",omitempty"` // a hook that nobody wrote
	Error     string `json:",omitempty"`

	worker *worker // that told it
}

// Work is the life of a worker: it reads its site from in, drives runs, and tells
// what happens on out, until in or ctx ends.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var s site
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read where to work: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is that of the parent
		cancel()
	}()
	t := &teller{out: json.NewEncoder(out)}
	err := s.work(ctx, t)
	if err != nil {
		t.tell(event{Kind: broken, Error: err.Error()})
	}
	return err
}

func (s site) work(ctx context.Context, t *teller) error {
	pool, err := pgxpool.New(ctx, s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	eng, _, err := s.engine(pool, engine.Config{
		Lease: lease, Heartbeat: heartbeat, Sweep: sweep, Middleware: []func(engine.Next) engine.Next{t.middleware},
	})
	if err != nil {
		return err
	}
	client, err := s.client(pool, eng)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, eng.Close(ctx))
	}
	t.tell(event{Kind: ready})
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(client.Stop(ctx), eng.Close(ctx))
}

func (s site) client(pool *pgxpool.Pool, eng *engine.Engine) (*river.Client[pgx.Tx], error) {
	config := &river.Config{
		ID:                fmt.Sprintf("demo-%d", os.Getpid()),
		Schema:            s.RiverSchema,
		Logger:            eng.Logger(),
		FetchPollInterval: 250 * time.Millisecond,
		SoftStopTimeout:   500 * time.Millisecond,
	}
	if err := reactorriver.Attach(config, eng); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool), config)
}

// A teller tells events, one a line.
type teller struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (t *teller) tell(ev event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.out.Encode(ev) // without a parent nobody listens
}

// middleware tells the engine's events.
func (t *teller) middleware(next engine.Next) engine.Next {
	return func(ctx context.Context, ev engine.Event) error {
		t.tell(told(ev))
		return next(ctx, ev)
	}
}

func told(ev engine.Event) event {
	e := event{Kind: ev.Kind, Run: ev.RunID, Path: ev.Path, Recovery: ev.Recovery}
	if ev.Path != "" {
		e.Key = short(ev.IdempotencyKey())
	}
	e.TakenOver, _ = ev.Fields["taken_over"].(bool)
	if e.State, _ = ev.Fields["state"].(string); e.State == "" {
		e.State, _ = ev.Fields["status"].(string)
	}
	e.Skipped, _ = ev.Fields["skipped"].(bool)
	e.Error, _ = ev.Fields["error"].(string)
	return e
}

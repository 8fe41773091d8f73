package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

// fixture is a test with a store on a database of its own.
type fixture struct {
	*testing.T
	pool  *pgxpool.Pool
	store *pgstore.Store
	queue *queue
}

func setup(t *testing.T) *fixture { return on(t, pgtest.Pool(t)) }

// on is a fixture on a pool.
func on(t *testing.T, pool *pgxpool.Pool, opts ...pgstore.Options) *fixture {
	t.Helper()
	f := &fixture{T: t, pool: pool, store: pgstore.New(pool, opts...), queue: &queue{}}
	f.must(f.store.Attach(f.queue))
	return f
}

// through is a fixture whose one connection goes through a proxy, and a pool
// that goes around it.
func through(t *testing.T) (f *fixture, p *pgproxy.Proxy, around *pgxpool.Pool) {
	t.Helper()
	server := pgtest.URL(t)
	p, url, err := pgproxy.Before(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return on(t, open(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })), p, open(t, server, nil)
}

func open(t *testing.T, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// queue is a Dispatcher that keeps what it is given. A test may stand in its
// way, while the transaction is open.
type queue struct {
	mu    sync.Mutex
	wakes []engine.Wake
	rings []string
	hold  func(ctx context.Context, tx engine.Tx) error
}

func (q *queue) Wake(ctx context.Context, tx engine.Tx, wakes []engine.Wake, notify bool) error {
	q.mu.Lock()
	hold := q.hold
	q.wakes = append(q.wakes, wakes...)
	q.mu.Unlock()
	if hold != nil {
		return hold(ctx, tx)
	}
	return nil
}

func (q *queue) Ring(queues ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rings = append(q.rings, queues...)
}

func (q *queue) Validate() error { return nil }

// standing sets what Wake does once it was told; nil is nothing.
func (q *queue) standing(hold func(ctx context.Context, tx engine.Tx) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold = hold
}

// woken is the runs that were woken so far, in order.
func (q *queue) woken() (runs []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.wakes {
		runs = append(runs, w.Runs...)
	}
	return runs
}

func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakes, q.rings = nil, nil
}

// wokenOnce wants exactly these runs to have been woken, once each.
func (f *fixture) wokenOnce(runs ...string) {
	f.Helper()
	got, want := f.queue.woken(), slices.Clone(runs)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("woken: %q, want %q", got, want)
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newRun is a pending root of checkout@1 that is due now.
func newRun() engine.NewRun {
	id := newID()
	return engine.NewRun{
		Header: engine.Header{
			ID: id, Root: id, Kind: engine.Root, Reactor: "checkout", Definition: 1, Fingerprint: "f1",
			Status: engine.Pending, Queue: "reactor", Priority: 2,
		},
		WriteID: newID(),
		Input:   json.RawMessage(`{"order":"o-17"}`),
	}
}

// ownedRun is one that is created owned by the process.
func ownedRun(process string) engine.NewRun {
	r := newRun()
	r.Status, r.Fence = engine.Running, engine.Fence{Run: r.ID, Token: newID(), Process: process, Version: 1}
	return r
}

func (f *fixture) create(runs ...engine.NewRun) []engine.Created {
	f.Helper()
	created, err := f.store.Create(f.Context(), nil, runs)
	f.must(err)
	return created
}

// process registers a process that knows checkout@1.
func (f *fixture) process(lease time.Duration) string {
	f.Helper()
	id := newID()
	f.must(f.store.Register(f.Context(), engine.Process{
		ID: id, Host: "host-1", PID: 4711, Knows: []string{"checkout@1"}, Queues: []string{"reactor"},
	}, lease))
	return id
}

// owned creates a run of a process that lives long.
func (f *fixture) owned() engine.Fence {
	f.Helper()
	r := ownedRun(f.process(time.Hour))
	f.create(r)
	return r.Fence
}

func claimOf(process string, runs ...string) engine.Claim {
	c := engine.Claim{Process: process, Knows: []string{"checkout@1"}}
	for _, id := range runs {
		c.Wants = append(c.Wants, engine.Want{Run: id, Token: newID(), WriteID: newID()})
	}
	return c
}

// own claims one run.
func (f *fixture) own(process, run string) (engine.Claimed, engine.Fence) {
	f.Helper()
	claims, err := f.store.Claim(f.Context(), claimOf(process, run))
	f.must(err)
	if len(claims.Claimed) != 1 {
		f.Fatalf("claim of run %s refused: %s", run, claims.Refused[0].Why)
	}
	c := claims.Claimed[0]
	return c, engine.Fence{Run: run, Token: c.Owner, Process: process, Version: c.Version}
}

// done is a step that is done.
func done(path string, seq int64) engine.NodeChange {
	return engine.NodeChange{NodeRow: engine.NodeRow{
		Path: path, Kind: "step", State: engine.NodeDone, Seq: seq, Attempt: 1, Begun: true,
		Input: json.RawMessage(`1`), Output: json.RawMessage(`2`),
	}}
}

// step is the changes of a save of one done node.
func step(path string, seq int64) engine.Changes {
	return engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{done(path, seq)}}
}

func (f *fixture) save(fence *engine.Fence, c engine.Changes) {
	f.Helper()
	version, err := f.store.Save(f.Context(), *fence, c)
	f.must(err)
	fence.Version = version
}

// complete ends a run, so that the invariants hold of it.
func (f *fixture) complete(fence engine.Fence) {
	f.Helper()
	f.save(&fence, engine.Changes{WriteID: newID(), Status: engine.Completed})
}

func (f *fixture) get(run string) *engine.Record {
	f.Helper()
	r, err := f.store.Get(f.Context(), run)
	f.must(err)
	return r
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	_, err := f.pool.Exec(f.Context(), sql, args...)
	f.must(err)
}

// number runs a query that gives one.
func (f *fixture) number(sql string, args ...any) (n int64) {
	f.Helper()
	f.must(f.pool.QueryRow(f.Context(), sql, args...).Scan(&n))
	return n
}

// refusal is the FenceError in err.
func (f *fixture) refusal(err error) *engine.FenceError {
	f.Helper()
	e, ok := errors.AsType[*engine.FenceError](err)
	if !ok {
		f.Fatalf("error %v, want a *FenceError", err)
	}
	return e
}

// eventually looks until ok says yes.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			f.Fatalf("%s: not within 30 s", what)
		}
	}
}

// waitsForLock looks until a session of the database waits for a lock.
func (f *fixture) waitsForLock() {
	f.Helper()
	f.eventually("a session that waits for a lock", func() bool {
		return f.number(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
	})
}

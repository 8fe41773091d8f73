package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// An application's tables; that an order's item is there is checked at the
// commit.
const shopTables = `
create table items (id int primary key);
create table orders (id int primary key, item int not null references items deferrable initially deferred);
insert into items values (1)`

// orders reads its order, which must be there.
func orders(pool *pgxpool.Pool, calls *atomic.Int32) *engine.Reactor[int, int] {
	return engine.MustDefine("orders", func(b *engine.Builder, id engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "read", id, func(ctx context.Context, id int) (item int, err error) {
			calls.Add(1)
			err = pool.QueryRow(ctx, `select item from orders where id = $1`, id).Scan(&item)
			return item, err
		})
	})
}

// A logBook is a logger's output that may be read at any time.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the book.
func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A run that is started in a transaction exists if and only if that commits:
// rolled back, refused at its commit, committed, and with a savepoint between
// two starts.
//
// spec: C-812, C-813
func TestStartInATransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, pgtest.Expecting(url))
	if _, err := pool.Exec(t.Context(), shopTables); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	book := &logBook{}
	r := orders(pool, &calls)
	p := newPeer(t, url, engine.Config{Logger: slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))}, r)
	start := func(tx pgx.Tx, id, item int) (*engine.Handle[int], error) {
		if _, err := tx.Exec(t.Context(), `insert into orders values ($1, $2)`, id, item); err != nil {
			return nil, err
		}
		return r.StartTx(t.Context(), p.Engine, pgstore.Tx(tx), id, engine.StartOptions{Key: fmt.Sprint("order:", id)})
	}

	changed := errors.New("changed my mind")
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := start(tx, 1, 1)
		return errors.Join(err, changed)
	}); !errors.Is(err, changed) || err.Error() != changed.Error() {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := start(tx, 2, 99) // no such item, which the commit finds out
		return err
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != pgerrcode.ForeignKeyViolation {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `select count(*) from reactor.runs`); n != 0 {
		t.Errorf("%d runs of transactions that did not commit", n)
	}

	var handles []*engine.Handle[int]
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		h, err := start(tx, 3, 1)
		handles = append(handles, h)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		h, err := start(tx, 4, 1)
		if err != nil {
			return err
		}
		handles = append(handles, h)
		err = pgx.BeginFunc(t.Context(), tx, func(inner pgx.Tx) error {
			_, err := start(inner, 5, 1)
			return errors.Join(err, changed)
		})
		if err.Error() != changed.Error() {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, h := range handles {
		if res, err := h.Wait(t.Context()); err != nil || res.Value != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	onlyTwoAreThere(t, pool, &calls, book)
	free, err := r.Start(t.Context(), p.Engine, 1, engine.StartOptions{Key: "order:1"})
	if err != nil || free.Existing {
		t.Errorf("the key of a start that was rolled back: %+v, %v", free, err)
	}
	final(t, p.Engine, free.ID)
}

// onlyTwoAreThere looks for what transactions that did not commit have left.
func onlyTwoAreThere(t *testing.T, pool *pgxpool.Pool, calls *atomic.Int32, book *logBook) {
	t.Helper()
	if n := one[int](t, pool, `select count(*) from reactor.runs`); n != 2 || calls.Load() != 2 {
		t.Errorf("%d runs and %d calls, want 2 of each", n, calls.Load())
	}
	const orphans = `
		select count(*) from river_job j, jsonb_array_elements_text(j.args -> 'runs') r
		 where not exists (select from reactor.runs where id = r.value::uuid)`
	if n := one[int](t, pool, orphans); n != 0 {
		t.Errorf("%d wake-ups of runs that are not there", n)
	}
	if strings.Contains(book.String(), "not found") {
		t.Errorf("a worker looked for a run that is not there:\n%s", book)
	}
}

// Fifty callers in two processes start one run.
//
// spec: C-814, C-815
func TestStartKeyInManyProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var calls atomic.Int32
	define := func(name string) *engine.Reactor[job, int] {
		return engine.MustDefine(name, func(b *engine.Builder, in engine.Ref[job]) engine.Ref[int] {
			return engine.Step(b, "a", in, func(_ context.Context, j job) (int, error) { calls.Add(1); return len(j.Fail), nil })
		})
	}
	r, other := define("keyed"), define("other")
	peers := []*peer{newPeer(t, url, engine.Config{}, r, other), newPeer(t, url, engine.Config{}, r, other)}
	key := engine.StartOptions{Key: "order:7"}
	handles := make([]*engine.Handle[int], 50)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range handles {
		all.Go(func() {
			<-begin
			h, err := r.Start(t.Context(), peers[i%2].Engine, job{Fail: "xyz"}, key)
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h
		})
	}
	close(begin)
	all.Wait()
	if t.Failed() {
		return
	}
	created := 0
	for _, h := range handles {
		if h.ID != handles[0].ID {
			t.Errorf("runs %s and %s", h.ID, handles[0].ID)
		}
		if !h.Existing {
			created++
		}
		if res, err := h.Wait(t.Context()); err != nil || res.Value != 3 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if n := calls.Load(); created != 1 || n != 1 {
		t.Errorf("%d callers created it, and its body was called %d times", created, n)
	}
	if late, err := r.Start(t.Context(), peers[1].Engine, job{Fail: "xyz"}, key); err != nil || late.ID != handles[0].ID || !late.Existing {
		t.Errorf("after its end: %+v, %v", late, err)
	}
	_, err := r.Start(t.Context(), peers[0].Engine, job{Fail: "xy"}, key)
	if want := `key "order:7" has started run ` + handles[0].ID + " on another input"; !errors.Is(err, engine.ErrKeyConflict) || !strings.Contains(err.Error(), want) {
		t.Errorf("another input: %v", err)
	}
	apart, err := other.Start(t.Context(), peers[0].Engine, job{Fail: "x"}, key)
	if err != nil || apart.Existing {
		t.Fatalf("another reactor: %+v, %v", apart, err)
	}
	if res, err := apart.Wait(t.Context()); err != nil || res.Value != 1 || calls.Load() != 2 {
		t.Errorf("%+v, %v, %d calls", res, err, calls.Load())
	}
}

// A run that is due later begins then, or when there is a process again.
//
// spec: C-816
func TestStartLater(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]bool{"with workers": true, "while every process is down": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			pool := poolOn(t, url)
			r := ofSteps(1)
			eng := starter(t, pool, r)
			if alive {
				newPeer(t, url, engine.Config{}, r)
			}
			at := one[time.Time](t, pool, `select clock_timestamp() + interval '1500 milliseconds'`)
			h, err := r.Start(t.Context(), eng, 1, engine.StartOptions{At: at})
			if err != nil {
				t.Fatal(err)
			}
			early := one[string](t, pool, `select status from reactor.runs where id = $1 and clock_timestamp() < due`, h.ID)
			if jobs := one[int](t, pool, `select count(*) from river_job`); early != "pending" || jobs != 0 && !alive {
				t.Errorf("before its time: %s, with %d jobs", early, jobs)
			}
			if !alive {
				eventually(t, "its time has passed", func() bool { return one[bool](t, pool, `select clock_timestamp() > $1`, at.Add(100*time.Millisecond)) })
				if v, err := eng.Get(t.Context(), h.ID); err != nil || v.Status != engine.Pending {
					t.Errorf("without a process: %s, %v", v.Status, err)
				}
				newPeer(t, url, engine.Config{}, r)
			}
			if res, err := h.Wait(t.Context()); err != nil || res.Value != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			if n := one[int](t, pool, `select count(*) from reactor.runs where started_at >= $1`, at); n != 1 {
				t.Error("it began before its time")
			}
		})
	}
}

// spec: C-80
func TestRunHereAndStartForWorkers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	var calls atomic.Int32
	r := engine.MustDefine("placed", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) {
			calls.Add(1)
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n + 1, nil
		})
	})
	eng := starter(t, pool, r)
	if res, err := r.Run(t.Context(), eng, 1); err != nil || res.Value != 2 || calls.Load() != 1 {
		t.Errorf("here: %+v, %v, %d calls", res, err, calls.Load())
	}
	_, here := r.Run(t.Context(), eng, -1)
	good, err := r.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := r.Start(t.Context(), eng, -1)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := eng.Get(t.Context(), good.ID); err != nil || v.Status != engine.Pending || calls.Load() != 2 {
		t.Errorf("before a worker came: %s, %v, %d calls", v.Status, err, calls.Load())
	}
	newPeer(t, url, engine.Config{}, r)
	if res, err := good.Wait(t.Context()); err != nil || res.Status != engine.Completed || res.Value != 2 {
		t.Errorf("by a worker: %+v, %v", res, err)
	}
	res, err := bad.Wait(t.Context())
	var failure, failureHere *engine.RunError
	if !errors.As(err, &failure) || !errors.As(here, &failureHere) || res.Status != engine.Failed ||
		strings.ReplaceAll(failure.Error(), failure.RunID, "") != strings.ReplaceAll(failureHere.Error(), failureHere.RunID, "") {
		t.Errorf("by a worker: %+v, %v; here: %v", res, err, here)
	}
}

// A thousand runs take as many round trips as ten.
//
// spec: C-1143
func TestStartManyInFewRoundTrips(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	proxy, through, err := pgproxy.Before(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	config, err := pgxpool.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1 // another one would begin with round trips of its own
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := ofSteps(1)
	eng, err := engine.New(engine.Config{
		Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool),
		Lease: 6 * time.Hour, Heartbeat: time.Hour, NoSweep: true, Logger: slog.New(slog.DiscardHandler),
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	later := engine.StartOptions{At: time.Now().Add(time.Hour)} // no bell, which would be counted too
	trips := func(n int, o engine.StartOptions) int {
		before := proxy.Count(pgproxy.ToClient, pgproxy.Ready)
		handles, err := r.StartMany(t.Context(), eng, make([]int, n), o)
		if err != nil || len(handles) != n {
			t.Fatalf("%d handles, %v", len(handles), err)
		}
		return proxy.Count(pgproxy.ToClient, pgproxy.Ready) - before
	}
	trips(1, later) // warms the connection up
	if few, many := trips(10, later), trips(1000, later); few != many || many > 2 {
		t.Errorf("%d round trips for 10 runs, %d for 1000", few, many)
	}
	trips(1, engine.StartOptions{})
	if many := trips(1000, engine.StartOptions{}); many > 10 { // the bell may ring meanwhile
		t.Errorf("%d round trips for 1000 runs that are due", many)
	}
}

// spec: C-1143, C-813
func TestStartManyInATransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	r := engine.MustDefine("many", func(b *engine.Builder, in engine.Ref[pickyMany]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, p pickyMany) (int, error) { return p.N, nil })
	})
	p := newPeer(t, url, engine.Config{}, r)
	ins := make([]pickyMany, 100)
	for i := range ins {
		ins[i].N = i + 1
	}
	leave := errors.New("leave")
	for name, c := range map[string]struct {
		ins []pickyMany
		end error
	}{"rolled back": {ins, leave}, "an invalid input": {[]pickyMany{{1}, {2}, {0}}, nil}} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := r.StartManyTx(t.Context(), p.Engine, pgstore.Tx(tx), c.ins)
			return errors.Join(err, c.end)
		})
		if c.end == nil && (err == nil || !strings.HasPrefix(err.Error(), "input 2: reactor many: input is invalid: ")) || c.end != nil && err.Error() != c.end.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := one[int](t, pool, `select count(*) from reactor.runs`); n != 0 {
		t.Errorf("%d runs", n)
	}
	var handles []*engine.Handle[int]
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		handles, err = r.StartManyTx(t.Context(), p.Engine, pgstore.Tx(tx), ins)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, h := range handles {
		if res, err := h.Wait(t.Context()); err != nil || res.Value != i+1 {
			t.Errorf("handle %d: %+v, %v", i, res, err)
		}
	}
}

// pickyMany has a contract.
type pickyMany struct{ N int }

// Validate wants a number above 0.
func (p pickyMany) Validate() error {
	if p.N > 0 {
		return nil
	}
	return engine.FieldErrors{"N": "must be above 0"}
}

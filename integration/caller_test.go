package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// A caller process is this test binary with this variable set: it calls Run on
// abc, has no workers, and says on stderr what it was answered. Its context ends
// with SIGINT. Two words make it a worker process of another kind.
const callerRole = "REACTOR_TEST_CALLER"

// What becomes of a caller while its run is at b.
const (
	callerWaits   = "waits"   // the body waits at its barrier, for a signal to the process
	callerExits   = "exits"   // b ends the process by os.Exit
	callerCancels = "cancels" // the context ends between b and c
)

// call is the main function of a caller process.
func call() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	if err := callFor(ctx, stop, os.Getenv(callerRole)); err != nil {
		fmt.Fprintln(os.Stderr, "caller:", err)
		os.Exit(1)
	}
}

func callFor(ctx context.Context, stop context.CancelFunc, what string) error {
	pool, err := pgxpool.New(ctx, os.Getenv(workerURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	l := &ledger{pool: pool, worker: os.Getenv(workerRole)}
	if what == loneWorker || what == sweeplessWorker {
		return workFor(ctx, pool, l, what)
	}
	config := short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: true,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	in := job{}
	switch what {
	case callerWaits:
		in.Block = "body:b"
	case callerExits:
		config.Validator = exitInB()
	case callerCancels:
		config.Middleware = append(config.Middleware, cancelAfterB(stop))
	}
	r := abc(l)
	eng, err := engine.New(config, r)
	if err != nil {
		return err
	}
	defer func() { _ = eng.Close(context.Background()) }()
	fmt.Println("ready")
	res, err := r.Run(ctx, eng, in)
	_, failed := errors.AsType[*engine.RunError](err)
	fmt.Fprintf(os.Stderr, "answer: %s, canceled %t, a failure %t: %v\n", res.Status, errors.Is(err, context.Canceled), failed, err)
	return nil
}

// The other kinds of workers, which know the reactors of the tests beside this.
const (
	loneWorker      = "works alone"         // one job and one run at a time
	sweeplessWorker = "works without sweep" // a lost wake-up stays lost
)

// workFor works until SIGINT.
func workFor(ctx context.Context, pool *pgxpool.Pool, l *ledger, what string) error {
	c := short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: what == sweeplessWorker})
	eng, err := engine.New(c, abc(l), fragile(l), diamond(l))
	if err != nil {
		return err
	}
	config := &river.Config{SoftStopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler), TestOnly: true}
	seats := reactorriver.AttachOptions{}
	if what == loneWorker {
		seats.Seats = 1
		config.Queues = map[string]river.QueueConfig{"reactor": {MaxWorkers: 1, FetchCooldown: 5 * time.Millisecond}}
	}
	if err := reactorriver.Attach(config, eng, seats); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	<-client.Stopped()
	return eng.Close(context.Background())
}

// exitInB ends the process when it is asked for the result of b.
func exitInB() func(any) error {
	asked := 0
	return func(any) error {
		if asked++; asked == 5 { // the run's input, input and result of a, input and result of b
			os.Exit(3)
		}
		return nil
	}
}

func cancelAfterB(stop func()) func(engine.Next) engine.Next {
	return func(next engine.Next) engine.Next {
		return func(ctx context.Context, ev engine.Event) error {
			if ev.Kind == "reactor.step.completed" && ev.Path == "b" {
				stop()
			}
			return next(ctx, ev)
		}
	}
}

// callingProcess starts a caller process, and returns it and its run once b is
// at work, or has been.
func (b *bench) callingProcess(t *testing.T, what string) (p *process, run string) {
	t.Helper()
	change(t, b.pool, `insert into qa_barrier (name) values ('body:b') on conflict (name) do update set reached = 0, open = false`)
	before := one[int](t, b.pool, `select count(*) from reactor.runs`)
	p = startWorker(t, "caller", b.url, callerRole+"="+what)
	eventually(t, "b is at work", func() bool {
		return one[int](t, b.pool, `select count(*) from qa_effect where step = 'b' and phase = 'do' and run = (select max(id::text)::uuid from reactor.runs)`) > 0 &&
			one[int](t, b.pool, `select count(*) from reactor.runs`) > before
	})
	return p, one[string](t, b.pool, `select max(id::text) from reactor.runs`)
}

// awaitSweeps blocks until so many passes of a sweep have begun.
func awaitSweeps(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	last := ""
	eventually(t, fmt.Sprintf("%d passes of a sweep", n), func() bool {
		if began := one[string](t, pool, `select began_at::text from reactor.sweeps`); began != last {
			last = began
			n--
		}
		return n < 0
	})
}

var callerKills = flag.Int("caller-kills", 3, "how often TestCallerDies kills a caller")

// The process that called Run dies in b: a worker takes its run over and
// finishes it, each time.
// spec: C-631, C-177, K-302, K-349
func TestCallerDies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	startWorker(t, "w", b.url)
	kill := func(p *process) { p.kill() }
	ways := []func(*process){nil} // by itself
	for range *callerKills {
		ways = append(ways, kill)
	}
	for i, die := range ways {
		what := callerWaits
		if die == nil {
			what = callerExits
		}
		caller, run := b.callingProcess(t, what)
		if die != nil {
			awaitBarrier(t, b.pool, "body:b", 1)
			die(caller)
		}
		if code := caller.wait(t); die == nil && code != 3 {
			t.Fatalf("the caller ended with %d: %s", code, caller.log())
		}
		openBarrier(t, b.pool, "body:b")
		if v := final(t, b.eng, run); v.Status != engine.Completed || nodeOf(v, "b").Recovered != 1 {
			t.Errorf("caller %d: %s, b recovered %d times", i, v.Status, nodeOf(v, "b").Recovered)
		}
		if got, want := effects(t, b.pool, run), "do a#1, do b#1, do b#1, do c#1"; got != want {
			t.Errorf("caller %d: effects %s\nwant    %s", i, got, want)
		}
		if n := keysOf(t, b.pool, run, "b", "do"); n != 1 {
			t.Errorf("caller %d: b was called with %d idempotency keys", i, n)
		}
	}
}

// nodeOf is a node in a view.
func nodeOf(v engine.View, path string) engine.NodeView {
	for _, n := range v.Nodes {
		if n.Path == path {
			return n
		}
	}
	return engine.NodeView{}
}

// The caller is interrupted: it gets its own error, its run is aborted at once
// with what was cut off, and nobody ever goes on with it. While it lives nobody
// touches its run.
// spec: C-188, C-197, C-206, C-317, C-318
// spec: C-321, C-5, C-630
func TestCallerIsInterrupted(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		left, trace string
		states      string
	}{
		callerWaits:   {"b a", "run a, run b", "done open pending"},
		callerCancels: {"b a", "run a, run b", "done done pending"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			startWorker(t, "w", b.url)
			caller, run := b.callingProcess(t, what)
			if what == callerWaits {
				before := stored(t, b.pool, run)
				awaitSweeps(t, b.pool, 10) // two leases
				if after := stored(t, b.pool, run); after != before {
					t.Errorf("the run of a living caller changed:\n%s\n%s", before, after)
				}
				caller.signal(syscall.SIGINT)
			}
			if code := caller.wait(t); code != 0 {
				t.Fatalf("the caller ended with %d: %s", code, caller.log())
			}
			if !strings.Contains(caller.log(), "answer: aborted, canceled true, a failure false") {
				t.Errorf("the caller got: %s", caller.log())
			}
			aborted := stored(t, b.pool, run)
			v := b.view(t, run)
			if v.Status != engine.Aborted || strings.Join(v.ToUndo, " ") != c.left || strings.Join(v.Trace, ", ") != c.trace || v.Owner != "" {
				t.Errorf("%s, left to undo %v, trace %v, owner %q", v.Status, v.ToUndo, v.Trace, v.Owner)
			}
			if states := nodeOf(v, "a").State + " " + nodeOf(v, "b").State + " " + nodeOf(v, "c").State; states != c.states {
				t.Errorf("nodes are %s, want %s", states, c.states)
			}
			insertWakeUp(t, b.pool, run)
			awaitSweeps(t, b.pool, 10)
			if after := stored(t, b.pool, run); after != aborted {
				t.Errorf("the aborted run changed:\n%s\n%s", aborted, after)
			}
			if got := effects(t, b.pool, run); got != "do a#1, do b#1" {
				t.Errorf("effects %s", got)
			}
			h, err := b.abc.Find(t.Context(), b.eng, run)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Wait(t.Context()); !errors.Is(err, engine.ErrAborted) {
				t.Errorf("Wait: %v", err)
			}
		})
	}
}

// insertWakeUp queues a fresh job for a run, and blocks until it is worked. It
// ends as done, at its first attempt.
func insertWakeUp(t *testing.T, pool *pgxpool.Pool, run string) {
	t.Helper()
	id := one[int64](t, pool, `insert into river_job (kind, args, queue, max_attempts, state)
		values ('reactor_drive', jsonb_build_object('runs', jsonb_build_array($1::text)), 'reactor', 10, 'available') returning id`, run)
	eventually(t, "the job is worked", func() bool {
		return one[bool](t, pool, `select finalized_at is not null from river_job where id = $1`, id)
	})
	if state := one[string](t, pool, `select state::text || ' at attempt ' || attempt || coalesce(' ' || errors::text, '') from river_job where id = $1`, id); state != "completed at attempt 1" {
		t.Errorf("the job is %s", state)
	}
}

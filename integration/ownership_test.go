package integration

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// held is a -> b -> c, where b waits for the test.
type held struct {
	r     *engine.Reactor[int, int]
	in    chan context.Context
	goOn  chan struct{}
	mu    sync.Mutex
	calls []string
}

func newHeld() *held {
	h := &held{in: make(chan context.Context, 10), goOn: make(chan struct{})}
	h.r = engine.MustDefine("held", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		last := engine.Ref[int](in)
		for _, name := range []string{"a", "b", "c"} {
			last = engine.Step(b, name, last, func(ctx context.Context, n int) (int, error) {
				h.note(name)
				if name == "b" {
					h.in <- ctx
					select {
					case <-h.goOn:
					case <-ctx.Done():
						return 0, context.Cause(ctx)
					}
				}
				return n + 1, nil
			}).Undo(func(context.Context, int, int) error { h.note("undo " + name); return nil }).
				Compensate(func(context.Context, int, error) error { h.note("compensate " + name); return nil })
		}
		return last
	})
	return h
}

func (h *held) note(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

func (h *held) want(t *testing.T, want string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.calls, " "); got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// logs is a logger whose lines a test may read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

func change(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	tag, err := pool.Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %s, %v", sql, tag, err)
	}
}

type returned struct {
	res engine.Result[int]
	err error
}

// runHere calls Run in the background and returns when b is at work.
func (h *held) runHere(t *testing.T, eng *engine.Engine) (run string, done chan returned) {
	t.Helper()
	done = make(chan returned, 1)
	go func() {
		res, err := h.r.Run(t.Context(), eng, 1)
		done <- returned{res, err}
	}()
	return engine.RunFrom(<-h.in).RunID, done
}

// Another execution takes the run while a body works: the first one's save is
// refused, and it stops at once.
// spec: C-81, C-981, K-331, K-375, K-378, K-379
// spec: C-975, C-621, K-353, K-350
func TestRunIsTakenOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	h, l := newHeld(), &logs{}
	eng, _ := open(t, pool, engine.Config{Logger: l.logger(slog.LevelWarn)}, h.r)
	run, done := h.runHere(t, eng)
	token := engine.NewUUID()
	change(t, pool, `update reactor.runs set owner = $2, version = version + 1, write_id = $2 where id = $1`, run, token)
	close(h.goOn)
	got := <-done
	if !errors.Is(got.err, engine.ErrLeaseLost) || !strings.Contains(got.err.Error(), run) {
		t.Errorf("Run returned %+v, %v", got.res, got.err)
	}
	h.want(t, "a b")
	for _, part := range []string{"reactor.run.ownership_lost", "run=" + run, "expected=2", "found=3", "owner=" + token} {
		if !strings.Contains(l.String(), part) {
			t.Errorf("%q is not in the log: %s", part, l.String())
		}
	}
	var version int
	if err := pool.QueryRow(t.Context(), `select version from reactor.runs where id = $1 and owner = $2 and status = 'running'`, run, token).Scan(&version); err != nil || version != 3 {
		t.Errorf("version %d, %v", version, err)
	}
	change(t, pool, `update reactor.runs set owner = null, process = null, due = now(), wake_at = now() where id = $1`, run)
	eventually(t, "workers finish it", func() bool { v, _ := eng.Get(t.Context(), run); return v.Status == engine.Completed })
	h.want(t, "a b b c")
}

// Somebody with a right to do so changes the header under the owner: the save
// is repeated on the new version, and the body is not called again.
// spec: C-982, K-407, K-810
func TestStaleSaveIsRepeated(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	h := newHeld()
	eng, _ := open(t, pool, engine.Config{}, h.r)
	run, done := h.runHere(t, eng)
	change(t, pool, `update reactor.runs set version = version + 1, wake_reason = 'a label' where id = $1`, run)
	close(h.goOn)
	if got := <-done; got.err != nil || got.res.Value != 4 {
		t.Errorf("%+v, %v", got.res, got.err)
	}
	h.want(t, "a b c")
	var reason string
	if err := pool.QueryRow(t.Context(), `select wake_reason from reactor.runs where id = $1`, run).Scan(&reason); err != nil || reason != "a label" {
		t.Errorf("the other change is %q, %v", reason, err)
	}
}

// The row of the process is gone: it goes on under a new id, and what it owned
// is lost to it and taken over.
// spec: K-804, K-813, C-902, C-977, K-381
func TestProcessRowIsGone(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	h := newHeld()
	eng, _ := open(t, pool, engine.Config{}, h.r)
	handle, err := h.r.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	first := <-h.in
	var before string
	if err := pool.QueryRow(t.Context(), `delete from reactor.processes returning id`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	if cause := context.Cause(first); !errors.Is(cause, engine.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
	second := engine.RunFrom(<-h.in)
	if was := engine.RunFrom(first); second.Recovery != 1 || second.Attempt != 1 || second.IdempotencyKey() != was.IdempotencyKey() {
		t.Errorf("the second call is %+v", second)
	}
	close(h.goOn)
	if res, err := handle.Wait(t.Context()); err != nil || res.Value != 4 {
		t.Errorf("%+v, %v", res, err)
	}
	h.want(t, "a b b c")
	var after string
	if err := pool.QueryRow(t.Context(), `select id from reactor.processes`).Scan(&after); err != nil || after == before {
		t.Errorf("process %s after %s, %v", after, before, err)
	}
}

// A run has one owner, however many wake-ups there are.
// spec: K-178, K-346, K-811, C-211, C-624, C-629
// spec: K-248, K-249
func TestManyWakeUpsOfOneRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	h := newHeld()
	eng, _ := open(t, pool, engine.Config{}, h.r)
	other, _ := open(t, pool, engine.Config{}, h.r)
	handle, err := h.r.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	var wakes sync.WaitGroup
	for range 20 {
		for _, e := range []*engine.Engine{eng, other} {
			wakes.Go(func() {
				if err := e.Drive(t.Context(), engine.Wake{Runs: []string{handle.ID, engine.NewUUID()}, Queue: "reactor", Priority: 1}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	<-h.in
	close(h.goOn)
	wakes.Wait()
	if res, err := handle.Wait(t.Context()); err != nil || res.Value != 4 {
		t.Errorf("%+v, %v", res, err)
	}
	h.want(t, "a b c")
}

// A body that does not return keeps its run, and its lease, beyond a stop that
// can't wait.
// spec: C-994, C-998, K-905, C-902
func TestCloseThatCannotWait(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	at, goOn := make(chan context.Context, 1), make(chan struct{})
	r := engine.MustDefine("stubborn", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) { at <- ctx; <-goOn; return n + 1, nil })
		return engine.Step(b, "b", a, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	eng, _ := open(t, pool, engine.Config{}, r)
	other, _ := open(t, pool, engine.Config{}, r)
	done := make(chan returned, 1)
	go func() {
		res, err := r.Run(t.Context(), eng, 1)
		done <- returned{res, err}
	}()
	ctx := <-at
	run := engine.RunFrom(ctx).RunID
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := eng.Close(over); err == nil || !strings.Contains(err.Error(), "1 run(s)") {
		t.Errorf("Close: %v", err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, engine.ErrShutdown) {
		t.Errorf("the cause is %v", cause)
	}
	owner := ""
	until := time.Now().Add(2500 * time.Millisecond) // more than two leases
	for time.Now().Before(until) {
		v, err := other.Get(t.Context(), run)
		if err != nil || v.Owner == "" || owner != "" && v.Owner != owner {
			t.Fatalf("the run of a body at work has owner %q after %q, %v", v.Owner, owner, err)
		}
		owner = v.Owner
	}
	close(goOn)
	if got := <-done; got.err != nil || got.res.Status != engine.Running {
		t.Errorf("Run returned %+v, %v", got.res, got.err)
	}
	eventually(t, "another process finishes it", func() bool { v, _ := other.Get(t.Context(), run); return v.Status == engine.Completed })
}

// What a dead owner may have been running counts as begun: a guard hook that
// refuses it afterwards fails a step that has to be compensated.
// spec: C-983
func TestRefusedAfterATakeOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	at, compensated := make(chan context.Context, 1), make(chan int, 1)
	r := engine.MustDefine("refused", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			at <- ctx
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}).Guard(func(ctx context.Context, _ int) error {
			if engine.RunFrom(ctx).Recovery > 0 {
				return errors.New("not a second time")
			}
			return nil
		}).Compensate(func(_ context.Context, in int, _ error) error { compensated <- in; return nil })
	})
	eng, _ := open(t, pool, engine.Config{}, r)
	h, err := r.Start(t.Context(), eng, 7)
	if err != nil {
		t.Fatal(err)
	}
	<-at
	change(t, pool, `delete from reactor.processes`)
	if _, err := h.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "not a second time") {
		t.Fatal(err)
	}
	select {
	case in := <-compensated:
		if in != 7 {
			t.Errorf("compensated with %d", in)
		}
	default:
		t.Error("the body that was cut off is not compensated")
	}
}

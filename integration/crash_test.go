package integration

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// bench is a database with a ledger, and an engine of the test that starts and
// reads runs but works none.
type bench struct {
	url  string
	pool *pgxpool.Pool
	eng  *engine.Engine
	abc  *engine.Reactor[job, job]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	makeLedger(t, pool)
	b := &bench{url: url, pool: pool, abc: abc(&ledger{pool: pool, worker: "test"})}
	b.eng, err = engine.New(short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: true}), b.abc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.eng.Close(context.Background()) })
	return b
}

func (b *bench) start(t *testing.T, j job) *engine.Handle[job] {
	t.Helper()
	h, err := b.abc.Start(t.Context(), b.eng, j)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (b *bench) view(t *testing.T, run string) engine.View {
	t.Helper()
	v, err := b.eng.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// takeOver is how soon a killed worker's run must be at work again.
const takeOver = 10 * time.Second

// spec: C-177, C-628, C-819, C-820, C-887, C-978, C-983, C-984
// spec: K-301, K-321, K-801, K-818
func TestWorkerKilledInsideABody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Block: "body:b"})
	awaitBarrier(t, b.pool, "body:b", 1)
	before := storedNode(t, b.pool, h.ID, "a")
	first.kill()
	killed := time.Now()
	startWorker(t, "w2", b.url)
	awaitBarrier(t, b.pool, "body:b", 2)
	if took := time.Since(killed); took > takeOver {
		t.Errorf("taken over after %s", took)
	}
	openBarrier(t, b.pool, "body:b")
	res, err := h.Wait(t.Context())
	if err != nil || res.Status != engine.Completed {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do c#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
	if n := keysOf(t, b.pool, h.ID, "b", "do"); n != 1 {
		t.Errorf("b was called with %d idempotency keys", n)
	}
	var recoveries []int32
	if err := b.pool.QueryRow(t.Context(), `select array_agg(recovery order by id) from qa_effect where run = $1 and step = 'b'`, h.ID).Scan(&recoveries); err != nil {
		t.Fatal(err)
	}
	if len(recoveries) != 2 || recoveries[0] != 0 || recoveries[1] != 1 {
		t.Errorf("recovery counts %v, want 0 and 1", recoveries)
	}
	if after := storedNode(t, b.pool, h.ID, "a"); after != before {
		t.Errorf("the row of a changed:\n%s\n%s", before, after)
	}
}

func storedNode(t *testing.T, pool *pgxpool.Pool, run, path string) (row string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select n::text from reactor.nodes n where run_id = $1 and path = $2`, run, path).Scan(&row); err != nil {
		t.Fatal(err)
	}
	return row
}

// spec: C-177, K-321
func TestWorkerKilledBetweenBodyAndSave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Block: "after:b"})
	awaitBarrier(t, b.pool, "after:b", 1)
	first.kill()
	startWorker(t, "w2", b.url)
	openBarrier(t, b.pool, "after:b")
	if res, err := h.Wait(t.Context()); err != nil || res.Status != engine.Completed {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do c#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
	if n := keysOf(t, b.pool, h.ID, "b", "do"); n != 1 {
		t.Errorf("b was called with %d idempotency keys", n)
	}
}

// spec: C-892, C-270, C-279, C-322, K-324
func TestWorkerKilledInsideAnUndo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Fail: "c", Block: "undo:a"})
	awaitBarrier(t, b.pool, "undo:a", 1)
	if v := b.view(t, h.ID); v.Status != engine.RollingBack {
		t.Errorf("status %s inside the rollback", v.Status)
	}
	first.kill()
	startWorker(t, "w2", b.url)
	awaitBarrier(t, b.pool, "undo:a", 2)
	openBarrier(t, b.pool, "undo:a")
	_, err := h.Wait(t.Context())
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "c" || len(failure.Rollback) > 0 {
		t.Fatal(err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do c#1, compensate c#1, undo b#1, undo a#1, undo a#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
	if n := keysOf(t, b.pool, h.ID, "a", "undo"); n != 1 {
		t.Errorf("undo of a was called with %d idempotency keys", n)
	}
}

// In another process a compensate gets the stored failure: the same text and
// code.
// spec: C-278, C-613, C-901, C-272
func TestWorkerKilledInsideACompensate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Fail: "c", Block: "comp:c"})
	awaitBarrier(t, b.pool, "comp:c", 1)
	first.kill()
	startWorker(t, "w2", b.url)
	awaitBarrier(t, b.pool, "comp:c", 2)
	openBarrier(t, b.pool, "comp:c")
	_, err := h.Wait(t.Context())
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "c" || failure.Code != "scripted" || failure.Err.Error() != errScripted.Error() {
		t.Fatal(err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do c#1, compensate c#1, compensate c#1, undo b#1, undo a#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
	var causes []string
	if err := b.pool.QueryRow(t.Context(), `select array_agg(cause order by id) from qa_effect where run = $1 and phase = 'compensate'`, h.ID).Scan(&causes); err != nil {
		t.Fatal(err)
	}
	if want := []string{"as the job says [scripted] true", "as the job says [scripted] false"}; !slices.Equal(causes, want) {
		t.Errorf("causes %q, want %q", causes, want)
	}
}

// spec: K-333, K-375, K-377, K-405
func TestStoppedWorkerThatWakesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Block: "body:b"})
	awaitBarrier(t, b.pool, "body:b", 1)
	first.signal(syscall.SIGSTOP)
	startWorker(t, "w2", b.url)
	awaitBarrier(t, b.pool, "body:b", 2)
	openBarrier(t, b.pool, "body:b")
	if res, err := h.Wait(t.Context()); err != nil || res.Status != engine.Completed {
		t.Fatalf("%+v, %v", res, err)
	}
	var before, after string
	row := `select (select r::text from reactor.runs r where id = $1) || (select string_agg(n::text, '' order by path) from reactor.nodes n where run_id = $1)`
	if err := b.pool.QueryRow(t.Context(), row, h.ID).Scan(&before); err != nil {
		t.Fatal(err)
	}
	first.signal(syscall.SIGCONT)
	eventually(t, "the stopped worker says that it lost the run", func() bool {
		return contains(first.log(), "ownership_lost") || contains(first.log(), "goes on under a new id")
	})
	if err := b.pool.QueryRow(t.Context(), row, h.ID).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Errorf("the run changed:\n%s\n%s", before, after)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do c#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
}

// spec: C-993, C-320, K-812, K-905, D33
func TestSoftStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	h := b.start(t, job{Block: "body:b"})
	awaitBarrier(t, b.pool, "body:b", 1)
	first.signal(syscall.SIGTERM)
	if code := first.wait(t); code != 0 {
		t.Errorf("the worker ended with %d: %s", code, first.log())
	}
	if v := b.view(t, h.ID); v.Status != engine.Running || v.Owner != "" || v.Waiting != "a worker" {
		t.Errorf("after the stop: %s, owner %q, waits for %q", v.Status, v.Owner, v.Waiting)
	}
	startWorker(t, "w2", b.url)
	awaitBarrier(t, b.pool, "body:b", 2)
	openBarrier(t, b.pool, "body:b")
	if res, err := h.Wait(t.Context()); err != nil || res.Status != engine.Completed {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, want := effects(t, b.pool, h.ID), "do a#1, do b#1, do b#1, do c#1"; got != want {
		t.Errorf("effects %s\nwant    %s", got, want)
	}
}

// spec: C-1140
func TestStartJobWhoseWorkerIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := startWorker(t, "w1", b.url)
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := picky(&ledger{pool: b.pool})
	inserted, err := client.Insert(t.Context(), reactorriver.StartJob(r, pickyInput{Block: "creation"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	awaitBarrier(t, b.pool, "creation", 1) // before the run is created
	first.kill()
	second := startWorker(t, "w2", b.url)
	rescue(t, b.pool, inserted.Job.ID)
	openBarrier(t, b.pool, "creation")
	eventually(t, "the run exists", func() bool { return runsOf(t, b.pool, "picky") > 0 })
	second.kill() // after it
	startWorker(t, "w3", b.url)
	rescue(t, b.pool, inserted.Job.ID)
	eventually(t, "the start job is done", func() bool {
		job, err := client.JobGet(t.Context(), inserted.Job.ID)
		return err == nil && job.FinalizedAt != nil
	})
	eventually(t, "the run is done", func() bool {
		page, err := b.eng.List(t.Context(), engine.Query{Reactor: "picky"})
		return err == nil && len(page.Runs) == 1 && page.Runs[0].Status == engine.Completed
	})
	if n := runsOf(t, b.pool, "picky"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// rescue does at once what River's rescuer does with the job of a dead worker
// after an hour.
func rescue(t *testing.T, pool *pgxpool.Pool, jobID int64) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `update river_job set state = 'available', scheduled_at = now() where id = $1 and state = 'running'`, jobID); err != nil {
		t.Fatal(err)
	}
}

func runsOf(t *testing.T, pool *pgxpool.Pool, reactor string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select count(*) from reactor.runs where reactor = $1`, reactor).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

package river_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	reactorriver "github.com/pgreactor/reactor/river"
)

const (
	run1 = "019a0000-0000-7000-8000-000000000001"
	run2 = "019a0000-0000-7000-8000-000000000002"
	run3 = "019a0000-0000-7000-8000-000000000003"
)

// spec: K-851, K-853
func TestWakeInsertsJobsOfIDs(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool)
	wakes := []engine.Wake{
		{Runs: []string{run1, run2}, Queue: "reactor", Priority: 1},
		{Runs: []string{run3}, Queue: "billing", Priority: 4},
	}
	within(t, pool, func(in pgx.Tx) error { return d.Wake(t.Context(), tx{in}, wakes, false) })
	want := []jobRow{
		{Kind: "reactor_drive", Queue: "reactor", Priority: 1, State: "available", Args: []byte(`{"runs": ["` + run1 + `", "` + run2 + `"]}`)},
		{Kind: "reactor_drive", Queue: "billing", Priority: 4, State: "available", Args: []byte(`{"runs": ["` + run3 + `"]}`)},
	}
	got := jobsIn(t, pool)
	for i := range got {
		if got[i].MaxAttempts < 100 {
			t.Errorf("job %d has %d attempts", i, got[i].MaxAttempts)
		}
		got[i].ID, got[i].MaxAttempts, got[i].Metadata = 0, 0, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestWakeIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool)
	undo := errors.New("roll back")
	for _, notify := range []bool{false, true} {
		err := pgx.BeginFunc(t.Context(), pool, func(in pgx.Tx) error {
			if err := d.Wake(t.Context(), tx{in}, []engine.Wake{{Runs: []string{run1}}}, notify); err != nil {
				return err
			}
			if n := len(jobsIn(t, pool)); n != 0 {
				t.Errorf("%d jobs are seen before the commit", n)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
	}
	if jobs := jobsIn(t, pool); len(jobs) != 0 {
		t.Errorf("jobs of transactions that were rolled back: %+v", jobs)
	}
}

// spec: K-855
func TestNoticesOfTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool)
	conn := notices(t, pool)
	wake := func(queue string, notify bool) {
		within(t, pool, func(in pgx.Tx) error {
			return d.Wake(t.Context(), tx{in}, []engine.Wake{{Runs: []string{run1}, Queue: queue}}, notify)
		})
	}
	wake("engine", false)
	_ = queuesUntil(t, conn, pool) // River's own first notice, the only one in the life of a process
	for begin := time.Now(); time.Since(begin) < 3*river.FetchCooldownDefault; {
		wake("engine", false)
	}
	if got := queuesUntil(t, conn, pool); len(got) != 0 {
		t.Errorf("transactions of the engine sent notices of %q", got)
	}
	wake("caller", true)
	if diff := cmp.Diff([]string{"caller"}, queuesUntil(t, conn, pool)); diff != "" {
		t.Errorf("a transaction of a caller: -want +got\n%s", diff)
	}
}

// spec: K-855
func TestRingIsCoalesced(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool)
	conn := notices(t, pool)
	begin := time.Now()
	d.Ring("a")
	if got := nextNotice(t, conn); got != "a" {
		t.Errorf("notice of %q", got)
	}
	for range 10_000 {
		d.Ring("a")
	}
	rung := time.Since(begin)
	if got := nextNotice(t, conn); got != "a" {
		t.Errorf("notice of %q", got)
	}
	d.Ring("b")
	count := 2
	for nextNotice(t, conn) != "b" {
		count++
	}
	if most := int(rung/(10*time.Millisecond)) + 2; count > most {
		t.Errorf("%d notices for 10001 rings within %s, want at most %d", count, rung, most)
	}
}

// wokenArgs are a job of a queue that nothing but notices can wake.
type wokenArgs struct{}

func (wokenArgs) Kind() string { return "woken" }

// River's notices are its own affair: this test fails if their form changes.
//
// spec: K-853
func TestRingWakesClientsBetweenPolls(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "public"} {
		t.Run("schema "+schema, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			worked := make(chan int64, 1)
			workers := river.NewWorkers()
			river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[wokenArgs]) error {
				worked <- job.ID
				return nil
			}))
			client := startClient(t, pool, &river.Config{
				Workers: workers,
				Queues:  map[string]river.QueueConfig{"woken": {MaxWorkers: 1, FetchCooldown: 5 * time.Millisecond, FetchPollInterval: noPoll}},
			})
			d := reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: schema})
			insert(t, pool, client) // the first one may be found by the poll at the start
			ringUntil(t, d, worked)
			insert(t, pool, client)
			ringUntil(t, d, worked)
		})
	}
}

// insert adds a job without a notice.
func insert(t *testing.T, pool *pgxpool.Pool, client *river.Client[pgx.Tx]) {
	t.Helper()
	soon := time.Now().Add(time.Hour) // a scheduled job has none
	res, err := client.Insert(t.Context(), wokenArgs{}, &river.InsertOpts{Queue: "woken", ScheduledAt: soon})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `update river_job set state = 'available', scheduled_at = now() where id = $1`, res.Job.ID); err != nil {
		t.Fatal(err)
	}
}

// ringUntil rings, and again as long as the client may not listen yet.
func ringUntil(t *testing.T, d *reactorriver.Dispatcher, worked <-chan int64) {
	t.Helper()
	deadline := time.After(patience)
	for {
		d.Ring("woken")
		select {
		case <-worked:
			return
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("the client was not woken")
		}
	}
}

func TestNewDispatcherIsChecked(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for want, d := range map[string]*reactorriver.Dispatcher{
		"nil pool":                 reactorriver.NewDispatcher(nil),
		"2 Options; it takes one":  reactorriver.NewDispatcher(pool, reactorriver.Options{}, reactorriver.Options{}),
		`Options.Schema "a-b"`:     reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: "a-b"}),
		"less than or equal to 46": reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: strings.Repeat("a", 47)}),
	} {
		err := d.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: %v, want %q in it", err, want)
		}
		if got := d.Wake(t.Context(), tx{}, []engine.Wake{{Runs: []string{run1}}}, false); !errors.Is(got, err) {
			t.Errorf("Wake: %v, want %v", got, err)
		}
		d.Ring("reactor")
	}
	if err := reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: strings.Repeat("a", 46)}).Validate(); err != nil {
		t.Errorf("a good schema: %v", err)
	}
}

// foreign is a transaction of another store.
type foreign struct{}

func (foreign) EngineTx() {}

func TestWakeRefusesForeignTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool)
	for want, bad := range map[string]engine.Tx{
		"it is nil":                 nil,
		"foreign is no transaction": foreign{},
		"pgx transaction is nil":    tx{},
	} {
		err := d.Wake(t.Context(), bad, []engine.Wake{{Runs: []string{run1}}}, false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q in it", bad, err, want)
		}
	}
	if err := d.Wake(t.Context(), nil, nil, false); err != nil {
		t.Errorf("nothing to wake: %v", err)
	}
}

func TestWakeSaysThatRiversTablesAreMissing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d := reactorriver.NewDispatcher(pool, reactorriver.Options{Schema: "elsewhere"})
	err := pgx.BeginFunc(t.Context(), pool, func(in pgx.Tx) error {
		return d.Wake(t.Context(), tx{in}, []engine.Wake{{Runs: []string{run1}}}, false)
	})
	if want := "the tables of River are missing in schema elsewhere: run reactorctl migrate, or call migrations.Up"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// A dispatcher that can't reach its database delays nothing and leaves nothing
// behind.
func TestRingWithoutDatabase(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("postgres://nobody@127.0.0.1:%d/none", 1))
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	reactorriver.NewDispatcher(pool).Ring("reactor")
}

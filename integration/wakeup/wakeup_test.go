package wakeup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

var sells = []engine.Definition{sell}

// warm makes sure that the client of a process listens: a run that is started
// before may be found by the poll of its start.
func (p *process) warm(t *testing.T) *process {
	t.Helper()
	h, err := sell.Start(t.Context(), p.engine, order{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first run is worked", func() bool {
		p.dispatcher.Ring(p.engine.Queue())
		v, err := p.engine.Get(t.Context(), h.ID)
		return err == nil && v.Status == engine.Completed
	})
	return p
}

// spec: K-853
func TestStartedRunIsWorkedWithoutAPoll(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), listening(), sells).begin(t).warm(t)
	for i := range 10 {
		h, err := sell.Start(t.Context(), p.engine, order{Number: i})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := wait(t, h); err != nil || res.Value != 2*i {
			t.Fatalf("%+v, %v", res, err)
		}
	}
}

// spec: C-813
func TestStartTxIsWorkedAfterItsCommit(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), listening(), sells).begin(t).warm(t)
	var h *engine.Handle[int]
	err := pgx.BeginFunc(t.Context(), p.pool, func(tx pgx.Tx) (err error) {
		if h, err = sell.StartTx(t.Context(), p.engine, pgstore.Tx(tx), order{Number: 4}); err != nil {
			return err
		}
		if n := one[int](t, p.pool, `select count(*) from reactor.runs where id = $1`, h.ID); n != 0 {
			t.Error("others see the run before the commit")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, h); err != nil || res.Value != 8 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// spec: C-813
func TestStartTxThatRollsBackLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	undo := errors.New("roll back")
	for _, savepoint := range []bool{false, true} {
		err := pgx.BeginFunc(t.Context(), p.pool, func(outer pgx.Tx) error {
			start := func(tx pgx.Tx) error {
				_, err := sell.StartTx(t.Context(), p.engine, pgstore.Tx(tx), order{Number: 4}, engine.StartOptions{Key: "k"})
				return errors.Join(err, undo)
			}
			if !savepoint {
				return start(outer)
			}
			if err := pgx.BeginFunc(t.Context(), outer, start); !errors.Is(err, undo) {
				return err
			}
			return nil
		})
		if savepoint != (err == nil) || err != nil && err.Error() != undo.Error() {
			t.Fatal(err)
		}
	}
	if runs, jobs := one[int](t, p.pool, `select count(*) from reactor.runs`), one[int](t, p.pool, `select count(*) from river_job`); runs+jobs != 0 {
		t.Errorf("%d runs and %d jobs", runs, jobs)
	}
	h, err := sell.Start(t.Context(), p.engine, order{Number: 5}, engine.StartOptions{Key: "k"}) // the key is free
	if err != nil || h.Existing {
		t.Fatal(h, err)
	}
	if _, err := wait(t, h); err != nil {
		t.Fatal(err)
	}
}

func TestStartWithoutRiversTables(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells)
	exec(t, p.pool, `alter table river_job rename to river_job_gone`)
	_, err := sell.Start(t.Context(), p.engine, order{})
	if err == nil || !strings.Contains(err.Error(), "run reactorctl migrate") || strings.Contains(err.Error(), "SQLSTATE") {
		t.Errorf("%v", err)
	}
	if n := one[int](t, p.pool, `select count(*) from reactor.runs`); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// Behind a pooler in transaction mode nothing arrives but what is polled, and
// pgx has no named prepared statements.
func TestPollOnlyInEveryModeOfThePool(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			client := polling()
			client.PollOnly = true
			p := newProcess(t, poolIn(t, mode), client, sells, sweeping).begin(t)
			h, err := sell.Start(t.Context(), p.engine, order{Number: 3})
			if err != nil {
				t.Fatal(err)
			}
			if res, err := wait(t, h); err != nil || res.Value != 6 {
				t.Fatalf("%+v, %v", res, err)
			}
			if n := one[int](t, p.pool, `select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`); n != 0 {
				t.Errorf("%d connections listen", n)
			}
		})
	}
}

func poolIn(t *testing.T, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestKilledListenerIsReplacedByPolling(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t).warm(t)
	const kill = `select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`
	eventually(t, "a connection listens, and is killed", func() bool { return one[int](t, p.pool, kill) > 0 })
	for i := range 5 {
		h, err := sell.Start(t.Context(), p.engine, order{Number: i})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := wait(t, h); err != nil || res.Value != 2*i {
			t.Fatalf("%+v, %v", res, err)
		}
	}
}

// spec: K-852, K-59
func TestJobsOfFinalRunsAreDone(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	for want, status := range map[string]engine.Status{"": engine.Completed, "retry": engine.Completed, "fail": engine.Failed, "halt": engine.Halted} {
		h, err := sell.Start(t.Context(), p.engine, order{Want: want})
		if err != nil {
			t.Fatal(err)
		}
		if res, _ := wait(t, h); res.Status != status {
			t.Fatalf("%+v", res)
		}
		before := stored(t, p.pool, h.ID)
		job := one[int64](t, p.pool, `
insert into river_job (args, kind, max_attempts, queue, state)
values (json_build_object('runs', array[$1::text]), 'reactor_drive', 25, 'reactor', 'available') returning id`, h.ID)
		if row := p.awaitJob(t, job, rivertype.JobStateCompleted); len(row.Errors) > 0 || row.Attempt != 1 {
			t.Errorf("%s: attempt %d, errors %+v", status, row.Attempt, row.Errors)
		}
		if after := stored(t, p.pool, h.ID); after != before {
			t.Errorf("%s: the run changed from\n%s\nto\n%s", status, before, after)
		}
	}
	if n := one[int](t, p.pool, `select count(*) from river_job where cardinality(errors) > 0 or attempt <> 1`); n != 0 {
		t.Errorf("%d jobs have errors or further attempts", n)
	}
}

// stored is everything that is stored of a run.
func stored(t *testing.T, pool *pgxpool.Pool, run string) string {
	t.Helper()
	return one[string](t, pool, `
select concat(r, p, (select string_agg(n::text, ',' order by path) from reactor.nodes n where n.run_id = r.id))
  from reactor.runs r join reactor.run_payloads p on p.run_id = r.id where r.id = $1`, run)
}

// spec: K-851
func TestManyRunsAndFewSeats(t *testing.T) {
	t.Parallel()
	const seats = 2
	var now, most atomic.Int32
	var once sync.Once
	full := make(chan struct{}) // closed once all seats are taken at the same time
	r := engine.MustDefine("crowd", func(b *engine.Builder, in engine.Ref[order]) engine.Ref[int] {
		return engine.Step(b, "enter", in, func(_ context.Context, o order) (int, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if n == seats {
				once.Do(func() { close(full) })
			}
			<-full
			return o.Number * 2, nil
		})
	})
	p := newProcessOf(t, pgtest.Pool(t), polling(), []engine.Definition{r}, reactorriver.AttachOptions{Seats: seats})
	orders := make([]order, 40)
	for i := range orders {
		orders[i].Number = i
	}
	handles, err := r.StartMany(t.Context(), p.engine, orders)
	if err != nil {
		t.Fatal(err)
	}
	sizes := one[[]int](t, p.pool, `select array_agg(jsonb_array_length(args->'runs') order by id) from river_job`)
	if !slices.Equal(sizes, []int{16, 16, 8}) {
		t.Errorf("jobs of %v runs", sizes)
	}
	p.begin(t)
	for i, h := range handles {
		if res, err := wait(t, h); err != nil || res.Value != 2*i {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if n := most.Load(); n != seats {
		t.Errorf("%d runs were driven at once, with %d seats", n, seats)
	}
}

// Any queue of the client may be the Queue of StartOptions.
func TestOtherQueuesOfTheClient(t *testing.T) {
	t.Parallel()
	client := polling()
	client.Queues = map[string]river.QueueConfig{"billing": {MaxWorkers: 1}}
	p := newProcess(t, pgtest.Pool(t), client, sells).begin(t)
	h, err := sell.Start(t.Context(), p.engine, order{Number: 3}, engine.StartOptions{Queue: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, h); err != nil || res.Value != 6 {
		t.Fatalf("%+v, %v", res, err)
	}
	if queue := one[string](t, p.pool, `select string_agg(queue, ',') from river_job`); queue != "billing" {
		t.Errorf("jobs in %s", queue)
	}
	health, err := p.engine.Health(t.Context())
	if err != nil || len(health.Processes) != 1 {
		t.Fatalf("%+v, %v", health, err)
	}
	if got := health.Processes[0].Queues; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"billing", "reactor"}) {
		t.Errorf("the process works %q", got)
	}
}

// spec: K-245
func TestLostJobsAreQueuedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{
		"completed": `update river_job set state = 'completed', finalized_at = now()`,
		"deleted":   `delete from river_job`,
		"discarded": `update river_job set state = 'discarded', finalized_at = now()`,
		"cancelled": `update river_job set state = 'cancelled', finalized_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			p := newProcess(t, pool, polling(), sells)
			h, err := sell.Start(t.Context(), p.engine, order{Number: 3})
			if err != nil {
				t.Fatal(err)
			}
			exec(t, pool, lose)
			newProcess(t, pool, polling(), sells, sweeping).begin(t)
			if res, err := wait(t, h); err != nil || res.Value != 6 {
				t.Fatalf("%+v, %v", res, err)
			}
		})
	}
}

package wakeup

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	reactorriver "github.com/pgreactor/reactor/river"
)

// startedBy is the id of the run that a finished start job has started.
func startedBy(t *testing.T, job *rivertype.JobRow) string {
	t.Helper()
	var out struct{ Run string }
	if err := json.Unmarshal(job.Output(), &out); err != nil || out.Run == "" {
		t.Fatalf("output %s: %v", job.Output(), err)
	}
	return out.Run
}

// spec: C-1140
func TestStartJobStartsOneRun(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	id := p.insert(t, reactorriver.StartJob(sell, order{Number: 21}, engine.StartOptions{Tags: []string{"by job"}, Priority: 3}))
	job := p.awaitJob(t, id, rivertype.JobStateCompleted)
	run := startedBy(t, job)
	h, err := sell.Find(t.Context(), p.engine, run)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, h); err != nil || res.Value != 42 {
		t.Fatalf("%+v, %v", res, err)
	}
	if v, err := p.engine.Get(t.Context(), run); err != nil || len(v.Tags) != 1 || v.Tags[0] != "by job" || v.Priority != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := p.client.JobRetry(t.Context(), id); err != nil { // as if its end had not been stored
		t.Fatal(err)
	}
	eventually(t, "the job is worked again", func() bool {
		again, err := p.client.JobGet(t.Context(), id)
		return err == nil && again.State == rivertype.JobStateCompleted && again.Attempt == job.Attempt+1
	})
	exec(t, p.pool, `create table copy as select * from river_job where kind = 'reactor_start'`)
	exec(t, p.pool, `delete from river_job where id = $1`, id)
	exec(t, p.pool, `update copy set state = 'available', finalized_at = null`)
	exec(t, p.pool, `insert into river_job overriding system value select * from copy`)
	again := p.awaitJob(t, id, rivertype.JobStateCompleted)
	if got := startedBy(t, again); got != run {
		t.Errorf("run %s, then %s", run, got)
	}
	if n := one[int](t, p.pool, `select count(*) from reactor.runs`); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// spec: C-1140
func TestStartJobInTheApplicationsTransaction(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	undo := errors.New("roll back")
	for _, result := range []error{undo, nil} {
		err := pgx.BeginFunc(t.Context(), p.pool, func(tx pgx.Tx) error {
			_, err := p.client.InsertTx(t.Context(), tx, reactorriver.StartJob(sell, order{Number: 1}), nil)
			return errors.Join(err, result)
		})
		if !errors.Is(err, result) {
			t.Fatal(err)
		}
	}
	eventually(t, "a run is completed", func() bool {
		return one[int](t, p.pool, `select count(*) from reactor.runs where status = 'completed'`) > 0
	})
	if n := one[int](t, p.pool, `select count(*) from reactor.runs`); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// spec: C-1140
func TestStartJobOfAnUnknownReactorWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	old := newProcess(t, pool, polling(), nil).begin(t)
	id := old.insert(t, reactorriver.StartJob(sell, order{Number: 2}))
	var job *rivertype.JobRow
	eventually(t, "the job was tried", func() bool {
		job, _ = old.client.JobGet(t.Context(), id)
		return job.State == rivertype.JobStateAvailable && len(job.AttemptedBy) == 1
	})
	if !strings.Contains(string(job.Metadata), "reactor sell is not registered") || job.Attempt != 0 {
		t.Errorf("attempt %d, metadata %s", job.Attempt, job.Metadata)
	}
	old.stop(t)
	newProcess(t, pool, polling(), sells).begin(t)
	exec(t, pool, `update river_job set scheduled_at = now() where id = $1`, id) // spares 5 s
	eventually(t, "the run is completed", func() bool {
		return one[int](t, pool, `select count(*) from reactor.runs where status = 'completed'`) == 1
	})
}

// spec: C-1140
func TestStartJobWithoutOurTablesWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	exec(t, pool, `alter schema reactor rename to reactor_gone`)
	p := newProcess(t, pool, polling(), sells).begin(t)
	id := p.insert(t, reactorriver.StartJob(sell, order{Number: 2}))
	eventually(t, "the job was tried", func() bool {
		job, err := p.client.JobGet(t.Context(), id)
		return err == nil && job.State == rivertype.JobStateAvailable && len(job.AttemptedBy) == 1 && job.Attempt == 0
	})
	exec(t, pool, `alter schema reactor_gone rename to reactor`)
	exec(t, pool, `update river_job set scheduled_at = now() where id = $1`, id)
	eventually(t, "the run is completed", func() bool {
		return one[int](t, pool, `select count(*) from reactor.runs where status = 'completed'`) == 1
	})
}

// spec: C-1140, C-815
func TestStartJobWithAnotherInputIsCancelled(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	key := engine.StartOptions{Key: "order-1"}
	first := p.awaitJob(t, p.insert(t, reactorriver.StartJob(sell, order{Number: 1}, key)), rivertype.JobStateCompleted)
	same := p.awaitJob(t, p.insert(t, reactorriver.StartJob(sell, order{Number: 1}, key)), rivertype.JobStateCompleted)
	if a, b := startedBy(t, first), startedBy(t, same); a != b {
		t.Errorf("runs %s and %s under one key", a, b)
	}
	other := p.awaitJob(t, p.insert(t, reactorriver.StartJob(sell, order{Number: 2}, key)), rivertype.JobStateCancelled)
	if len(other.Errors) != 1 || !strings.Contains(other.Errors[0].Error, startedBy(t, first)) || !strings.Contains(other.Errors[0].Error, "order-1") {
		t.Errorf("errors %+v", other.Errors)
	}
	if n := one[int](t, p.pool, `select count(*) from reactor.runs`); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// spec: C-1140
func TestStartJobWithAnInvalidInputIsAFailedRun(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	job := p.awaitJob(t, p.insert(t, reactorriver.StartJob(sell, order{Number: -1})), rivertype.JobStateCompleted)
	h, err := sell.Find(t.Context(), p.engine, startedBy(t, job))
	if err != nil {
		t.Fatal(err)
	}
	_, err = wait(t, h)
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Code != "contract" || failure.Fields["Number"] != "must not be below 0" {
		t.Errorf("%v", err)
	}
}

func TestStartJobOfALaterRun(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	job := p.awaitJob(t, p.insert(t, reactorriver.StartJob(sell, order{Number: 1}, engine.StartOptions{At: at})), rivertype.JobStateCompleted)
	due := one[time.Time](t, p.pool, `select due from reactor.runs where id = $1 and status = 'pending'`, startedBy(t, job))
	if !due.Equal(at) {
		t.Errorf("due %s, want %s", due, at)
	}
}

// A program without the definition fills the arguments in.
func TestStartArgsFilledInByHand(t *testing.T) {
	t.Parallel()
	p := newProcess(t, pgtest.Pool(t), polling(), sells).begin(t)
	args := reactorriver.StartArgs{Reactor: "sell", Input: json.RawMessage(`{"Number": 4, "Want": "\u0000"}`)}
	job := p.awaitJob(t, p.insert(t, args), rivertype.JobStateCompleted)
	h, err := sell.Find(t.Context(), p.engine, startedBy(t, job))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, h); err != nil || res.Value != 8 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// An application without River gets a client that works our queue.
func TestNewClientWorks(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	p := newProcess(t, pool, polling(), sells)
	client, err := reactorriver.NewClient(pool, p.engine, 2)
	if err != nil {
		t.Fatal(err)
	}
	p.client = client
	p.begin(t)
	h, err := sell.Start(t.Context(), p.engine, order{Number: 4})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, h); err != nil || res.Value != 8 {
		t.Fatalf("%+v, %v", res, err)
	}
}

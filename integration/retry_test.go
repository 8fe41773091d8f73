package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// patient is a -> b, whose first attempts fail; it notes when each began.
func patient(pause time.Duration, began chan<- engine.Info, fails int) *engine.Reactor[int, int] {
	return engine.MustDefine("patient", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			began <- engine.RunFrom(ctx)
			return n, nil
		})
		return engine.Step(b, "b", a, func(ctx context.Context, n int) (int, error) {
			began <- engine.RunFrom(ctx)
			if engine.RunFrom(ctx).Attempt <= fails {
				return 0, errors.New("not yet")
			}
			return n, nil
		}).Retry(fails+1, engine.Fixed(pause))
	})
}

// A run that waits for its next attempt holds nothing, and neither a restart
// nor an early wake-up moves the time.
// spec: C-193, C-247, C-248, C-254, C-260, C-886
// spec: K-59, K-354, K-604, C-638, C-988
func TestRetryWaitSurvivesARestart(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	began := make(chan engine.Info, 10)
	r := patient(2*time.Second, began, 1)
	first, stopFirst := open(t, pool, engine.Config{}, r)
	h, err := r.Start(t.Context(), first, 5)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run waits for its retry", func() bool {
		v, err := first.Get(t.Context(), h.ID)
		return err == nil && strings.HasPrefix(v.Waiting, "retry of b at ")
	})
	due, owner, status := waiting(t, pool, h.ID)
	if owner != "" || status != "running" {
		t.Errorf("while it waits: owner %q, status %s", owner, status)
	}
	stopFirst()
	second, _ := open(t, pool, engine.Config{}, r)
	if _, err := pool.Exec(t.Context(), `insert into river_job (kind, args, queue, max_attempts, state, priority)
		select kind, args, queue, max_attempts, 'available', priority from river_job limit 1`); err != nil {
		t.Fatal(err) // a wake-up that comes too early
	}
	if again, _, _ := waiting(t, pool, h.ID); !again.Equal(due) {
		t.Errorf("the due time moved from %s to %s", due, again)
	}
	handle, err := r.Find(t.Context(), second, h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := handle.Wait(t.Context()); err != nil || res.Value != 5 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, want := range []string{"a", "b", "b"} {
		info := <-began
		if info.Path != want || i == 2 && info.Attempt != 2 || info.Recovery != 0 {
			t.Errorf("call %d was %+v, want %s", i, info, want)
		}
	}
	var early bool
	if err := pool.QueryRow(t.Context(), `select ended_at < $2 from reactor.nodes where run_id = $1 and path = 'b'`, h.ID, due).Scan(&early); err != nil || early {
		t.Errorf("the second attempt came before it was due: %v", err)
	}
	if len(began) > 0 {
		t.Errorf("%d calls too many", len(began))
	}
}

func waiting(t *testing.T, pool *pgxpool.Pool, run string) (due time.Time, owner, status string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `select n.due, coalesce(r.owner::text, ''), r.status from reactor.runs r join reactor.nodes n on n.run_id = r.id and n.path = 'b'
		where r.id = $1`, run).Scan(&due, &owner, &status)
	if err != nil {
		t.Fatal(err)
	}
	return due, owner, status
}

// Here the executor waits in place and keeps the run.
// spec: C-253, K-302
func TestRetryWaitsInPlaceHere(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	began := make(chan engine.Info, 10)
	r := patient(300*time.Millisecond, began, 1)
	eng, _ := open(t, pool, engine.Config{}, r)
	done := make(chan error, 1)
	go func() {
		res, err := r.Run(t.Context(), eng, 5)
		if err == nil && res.Value != 5 {
			err = errors.New("wrong value")
		}
		done <- err
	}()
	<-began
	run := (<-began).RunID
	eventually(t, "the attempt is stored", func() bool {
		var n int
		_ = pool.QueryRow(t.Context(), `select count(*) from reactor.nodes where run_id = $1 and path = 'b' and state = 'waiting'`, run).Scan(&n)
		return n == 1
	})
	_, owner, _ := waiting(t, pool, run)
	if owner == "" {
		t.Error("the run has no owner while its caller waits in place")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

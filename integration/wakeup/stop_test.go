package wakeup

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// long is a reactor whose step works until its context ends, or until it is let
// go.
func long(begun chan<- engine.Info, letGo <-chan struct{}, causes chan<- error) *engine.Reactor[order, string] {
	return engine.MustDefine("long", func(b *engine.Builder, in engine.Ref[order]) engine.Ref[string] {
		return engine.Step(b, "work", in, func(ctx context.Context, o order) (string, error) {
			begun <- engine.RunFrom(ctx)
			select {
			case <-letGo:
				return fmt.Sprint("order ", o.Number), nil
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return "", ctx.Err()
			}
		})
	})
}

// spec: C-993, K-905, K-812
func TestSoftStopHandsRunsBack(t *testing.T) {
	t.Parallel()
	begun, letGo, causes := make(chan engine.Info, 2), make(chan struct{}), make(chan error, 2)
	r := long(begun, letGo, causes)
	pool := pgtest.Pool(t)
	first := newProcess(t, pool, polling(), []engine.Definition{r}).begin(t)
	h, err := r.Start(t.Context(), first.engine, order{Number: 7})
	if err != nil {
		t.Fatal(err)
	}
	was := <-begun
	first.stop(t)
	if cause := <-causes; !errors.Is(cause, engine.ErrShutdown) {
		t.Errorf("cause %v", cause)
	}
	header := one[string](t, pool, `select concat(status, ' ', owner is null, ' ', due <= now()) from reactor.runs where id = $1`, h.ID)
	if header != "running t t" {
		t.Errorf("status, without owner, due: %s", header)
	}
	waiting := one[int](t, pool, `select count(*) from river_job where state = 'available' and args->'runs' ? $1`, h.ID)
	if bad := one[int](t, pool, `select count(*) from river_job where cardinality(errors) > 0 or attempt > 1`); waiting != 1 || bad != 0 {
		t.Errorf("%d jobs wait for the run, %d have spent an attempt", waiting, bad)
	}
	second := newProcess(t, pool, polling(), []engine.Definition{r}).begin(t)
	again := <-begun
	if again.Attempt != was.Attempt || again.IdempotencyKey() != was.IdempotencyKey() {
		t.Errorf("attempt %d key %s, before the stop %d %s", again.Attempt, again.IdempotencyKey(), was.Attempt, was.IdempotencyKey())
	}
	close(letGo)
	found, err := r.Find(t.Context(), second.engine, h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := wait(t, found); err != nil || res.Value != "order 7" {
		t.Fatalf("%+v, %v", res, err)
	}
}

// spec: K-248
func TestJobDeliveredWhileItIsWorked(t *testing.T) {
	t.Parallel()
	begun, letGo, causes := make(chan engine.Info, 2), make(chan struct{}), make(chan error, 2)
	r := long(begun, letGo, causes)
	p := newProcess(t, pgtest.Pool(t), polling(), []engine.Definition{r}).begin(t)
	h, err := r.Start(t.Context(), p.engine, order{Number: 7})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	id := one[int64](t, p.pool, `update river_job set state = 'available' where state = 'running' returning id`) // as River's rescuer does
	if job := p.awaitJob(t, id, rivertype.JobStateCompleted); len(job.Errors) != 0 {
		t.Errorf("errors %+v", job.Errors)
	}
	close(letGo)
	if res, err := wait(t, h); err != nil || res.Value != "order 7" {
		t.Fatalf("%+v, %v", res, err)
	}
	select {
	case <-begun:
		t.Error("the body was called twice")
	default:
	}
}

// A body that ends within the soft stop is let finish, and its run goes on
// elsewhere behind it.
//
// spec: C-993
func TestSoftStopLetsBodiesFinish(t *testing.T) {
	t.Parallel()
	begun, letGo, causes := make(chan engine.Info, 2), make(chan struct{}), make(chan error, 2)
	r := long(begun, letGo, causes)
	client := polling()
	client.SoftStopTimeout = patience
	p := newProcess(t, pgtest.Pool(t), client, []engine.Definition{r}).begin(t)
	h, err := r.Start(t.Context(), p.engine, order{Number: 7})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.stop(t) }()
	select {
	case <-stopped:
		t.Error("the stop did not wait for the body")
	case <-time.After(100 * time.Millisecond):
	}
	close(letGo)
	<-stopped
	v, err := p.engine.Get(t.Context(), h.ID)
	if err != nil || v.Status != engine.Completed {
		t.Errorf("%s, %v", v.Status, err)
	}
}

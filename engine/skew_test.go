package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// The clock of the process may be wrong by days, this way or that: start times,
// waits between attempts, deadlines and leases go by the clock of the store.
// spec: K-814
func TestClocksThatAreWrongByDays(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{
		"the database is ahead":  10 * 24 * time.Hour,
		"the database is behind": -10 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkSkew(t, ahead) })
		})
	}
}

// checkSkew starts a run that is due in a minute by the store's clock, waits an
// hour between its attempts, and is then cut off by its deadline of two hours
// while its process lives; afterwards the process dies.
func checkSkew(t *testing.T, ahead time.Duration) {
	clock := func() time.Time { return time.Now().Add(ahead) }
	var calls []time.Duration // after the start
	began := time.Now()
	r := pair(func(ctx context.Context, n int) (int, error) {
		calls = append(calls, time.Since(began))
		if engine.RunFrom(ctx).Attempt == 1 {
			return 0, errors.New("not yet")
		}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, func(d *engine.Builder, b *engine.StepNode[int, int]) {
		b.Retry(2, engine.Fixed(time.Hour))
		d.Deadline(2 * time.Hour)
	})
	config := engine.Config{Lease: time.Minute, Heartbeat: 10 * time.Second}
	config.Store, config.Dispatcher = &sharedStore{Store: engine.NewMemoryStoreAt(clock)}, &jobs{}
	h := openHost(t, config, r)
	run, err := r.Start(t.Context(), h.Engine, 1, engine.StartOptions{At: clock().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	for !h.view(t, run.ID).Status.Final() && time.Since(began) < 10*time.Hour {
		if _, err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.drive(t)
		<-time.After(time.Second)
	}
	v := h.view(t, run.ID)
	if v.Status != engine.Failed || v.Failure.Code != "deadline" || len(calls) != 2 {
		t.Fatalf("%s after calls at %v: %v", v.Status, calls, v.Failure)
	}
	within(t, "the first attempt", calls[0], time.Minute)
	within(t, "the second attempt", calls[1], time.Hour+time.Minute)
	within(t, "the end", v.Ended.Sub(began.Add(ahead)), 2*time.Hour+time.Minute)
	within(t, "the stored start", v.Started.Sub(began.Add(ahead)), time.Minute)
}

// within wants a moment, to a few seconds: the test looks once a second, and
// the pauses of a sweep grow.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+3*time.Second {
		t.Errorf("%s came after %s, want %s", what, got, want)
	}
}

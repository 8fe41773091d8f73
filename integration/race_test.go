package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// crossing is a -> b -> c; b waits for the test. Two processes share its ledger.
type crossing struct {
	at, goOn chan struct{}
	mu       sync.Mutex
	calls    map[string][]string // by run
}

func (c *crossing) reactor() *engine.Reactor[int, int] {
	return engine.MustDefine("crossing", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		last := in
		for _, name := range []string{"a", "b", "c"} {
			last = engine.Step(b, name, last, func(ctx context.Context, n int) (int, error) {
				c.note(ctx, name)
				if name == "b" {
					c.at <- struct{}{}
					<-c.goOn
				}
				return n, nil
			}).Undo(func(ctx context.Context, _, _ int) error { c.note(ctx, "undo "+name); return nil }).
				Compensate(func(ctx context.Context, _ int, _ error) error { c.note(ctx, "compensate "+name); return nil })
		}
		return last
	})
}

func (c *crossing) note(ctx context.Context, call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := engine.RunFrom(ctx).RunID
	c.calls[run] = append(c.calls[run], call)
}

// Results of bodies come back while another process takes the runs over again
// and again and ends them, because they were lost too often: each run is
// completed as if nothing had been, or failed and rolled back as a whole.
// spec: K-339, K-367, K-373, K-805, C-985, C-975
func TestLateResultsAgainstTakeovers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := poolOn(t, url)
	c := &crossing{at: make(chan struct{}, 100), goOn: make(chan struct{}), calls: map[string][]string{}}
	r := c.reactor()
	eng := starter(t, pool, r)
	newPeer(t, url, engine.Config{NoSweep: true}, r)
	runs, err := r.StartMany(t.Context(), eng, make([]int, 60))
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		<-c.at
	}
	process := one[string](t, pool, `select distinct process from reactor.runs where owner is not null`)
	newPeer(t, url, engine.Config{Recoveries: 1}, c.reactor())
	ended := func(status engine.Status) bool {
		return one[bool](t, pool, `select exists (select from reactor.runs where status = $1)`, status)
	}
	c.goOn <- struct{}{}
	eventually(t, "the first run completes", func() bool { return ended(engine.Completed) })
	for range runs[1:] {
		c.goOn <- struct{}{}
		eventually(t, "a run fails", func() bool {
			// The owner does not know that its lease is over, and renews it.
			change(t, pool, `update reactor.processes set lease_until = clock_timestamp() where id = $1`, process)
			return ended(engine.Failed)
		})
	}
	ends := map[engine.Status]int{}
	for _, h := range runs {
		v := final(t, eng, h.ID)
		ends[v.Status]++
		c.judge(t, v)
	}
	if len(ends) != 2 {
		t.Errorf("all runs ended the same way, %v: nothing raced", ends)
	}
}

// judge wants the calls of a run to fit its end: whatever it has begun and not
// finished was compensated, and what was done before was undone, once.
func (c *crossing) judge(t *testing.T, v engine.View) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := strings.Join(c.calls[v.RunID], ", ")
	switch {
	case v.Status == engine.Completed && calls == "a, b, c":
	case v.Status == engine.Failed && v.Failure.Code == "recovery":
		// A late body of the owner may still be noted behind its compensate.
		hooks := slices.DeleteFunc(slices.Clone(c.calls[v.RunID]), func(call string) bool { return len(call) == 1 })
		if want := map[string]string{"b": "compensate b, undo a", "c": "compensate c, undo b, undo a"}[v.Failure.Node]; strings.Join(hooks, ", ") != want {
			t.Errorf("failed at %s after %s", v.Failure.Node, calls)
		}
	default:
		t.Errorf("%s after %s: %v", v.Status, calls, v.Failure)
	}
}

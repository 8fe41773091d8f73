package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
)

// A cost is what an operation may send on a connection that has sent it before.
type cost struct {
	name       string
	trips      int
	statements int // with begin, settings and commit
	commits    int
	do         func() error
}

// spec: K-322, K-800, K-942
func TestCosts(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	for _, c := range f.costs() {
		f.must(c.do()) // prepares the statements
		trips, statements, commits := p.Count(pgproxy.ToClient, pgproxy.Ready), sent(p), p.Tagged("COMMIT")
		f.must(c.do())
		got := []int{
			p.Count(pgproxy.ToClient, pgproxy.Ready) - trips,
			sent(p) - statements,
			p.Tagged("COMMIT") - commits,
		}
		if want := []int{c.trips, c.statements, c.commits}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: round trips, statements and commits are %v, want %v", c.name, got, want)
		}
	}
}

// sent is how many statements went to the server.
func sent(p *pgproxy.Proxy) int {
	return p.Count(pgproxy.ToServer, pgproxy.Execute) + p.Count(pgproxy.ToServer, pgproxy.Query)
}

func (f *fixture) costs() []cost {
	process, fence, seq := f.process(time.Hour), f.owned(), int64(0)
	back, last := []engine.NewRun{ownedRun(process), ownedRun(process)}, []engine.NewRun{ownedRun(process), ownedRun(process)}
	f.create(append(back, last...)...)
	due := []engine.NewRun{newRun(), newRun()}
	f.create(due...)
	save := func(fence engine.Fence, c engine.Changes) error {
		_, err := f.store.Save(f.Context(), fence, c)
		return err
	}
	create := func(runs ...engine.NewRun) error {
		_, err := f.store.Create(f.Context(), nil, runs)
		return err
	}
	return []cost{
		{"save of a node", 1, 5, 1, func() error {
			seq++
			err := save(fence, step(fmt.Sprint("n", seq), seq))
			fence.Version++
			return err
		}},
		{"hand-back for later", 1, 5, 1, func() error {
			err := save(back[0].Fence, engine.Changes{WriteID: newID(), Release: true, Due: true, DueIn: time.Hour})
			back = back[1:]
			return err
		}},
		{"last save", 1, 5, 1, func() error {
			c := step("last", 1)
			c.Status, c.Output = engine.Completed, []byte(`1`)
			err := save(last[0].Fence, c)
			last = last[1:]
			return err
		}},
		{"refused save", 1, 5, 1, func() error {
			stale := fence
			stale.Version--
			if err := save(stale, step("x", 1)); f.refusal(err).Lost {
				return err
			}
			return nil
		}},
		{"creation of an owned run", 1, 5, 1, func() error { return create(ownedRun(process)) }},
		{"creation of 1000 runs for later", 1, 5, 1, func() error {
			runs := make([]engine.NewRun, 1000)
			for i := range runs {
				runs[i] = newRun()
				runs[i].DueIn = time.Hour
			}
			return create(runs...)
		}},
		{"creation of due runs, without what the queue sends", 2, 5, 1, func() error { return create(newRun(), newRun()) }},
		{"claim", 1, 7, 1, func() error {
			_, err := f.store.Claim(f.Context(), claimOf(process, due[0].ID))
			due = due[1:]
			return err
		}},
		{"heartbeat", 1, 1, 0, func() error {
			_, err := f.store.Beat(f.Context(), process, time.Hour)
			return err
		}},
		{"get", 1, 5, 1, func() error {
			_, err := f.store.Get(f.Context(), fence.Run)
			return err
		}},
		{"statuses", 1, 4, 1, func() error {
			_, err := f.store.Statuses(f.Context(), []string{fence.Run})
			return err
		}},
	}
}

// A pass that finds nothing to do is one statement, and one that comes within
// the interval of another too.
//
// spec: K-910
func TestCostOfASweepAtRest(t *testing.T) {
	t.Parallel()
	f, p, _ := through(t)
	fence := f.owned()
	later := newRun()
	later.DueIn = time.Hour
	f.create(later)
	for _, interval := range []time.Duration{0, time.Hour} {
		statements, trips := sent(p), p.Count(pgproxy.ToClient, pgproxy.Ready)
		result, err := f.store.Sweep(t.Context(), engine.SweepPass{Interval: interval, Limit: 1000})
		f.must(err)
		if result.Ran != (interval == 0) {
			t.Errorf("interval %s: ran is %t", interval, result.Ran)
		}
		if n, m := sent(p)-statements, p.Count(pgproxy.ToClient, pgproxy.Ready)-trips; n != 1 || m != 1 {
			t.Errorf("interval %s: %d statements in %d round trips, want one in one", interval, n, m)
		}
	}
	f.complete(fence)
}

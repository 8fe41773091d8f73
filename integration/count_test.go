package integration

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// ofSteps is a chain of n steps.
func ofSteps(n int) *engine.Reactor[int, int] {
	return engine.MustDefine(fmt.Sprintf("steps%d", n), func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		last := in
		for i := range n {
			last = engine.Step(b, fmt.Sprintf("s%d", i), last, func(_ context.Context, v int) (int, error) { return v + 1, nil })
		}
		return last
	})
}

// countedEngine talks to the database through a proxy, over one connection,
// and is left alone by its heartbeat and its sweeper.
func countedEngine(t *testing.T, url string, reactors ...engine.Definition) (*engine.Engine, *pgproxy.Proxy) {
	t.Helper()
	p, through, err := pgproxy.Before(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	config, err := pgxpool.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	eng, err := engine.New(engine.Config{Store: pgstore.New(pool), Lease: 6 * time.Hour, Heartbeat: time.Hour, NoSweep: true, Logger: slog.New(slog.DiscardHandler)}, reactors...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng, p
}

// A run of n steps costs n + 1 commits and n + 1 round trips: its creation and
// each step, the last of which is the end. By a worker the claim takes the place
// of the creation, which was somebody else's.
// spec: K-322, K-323, K-319, C-626, C-882
func TestRoundTripsAndCommits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 100} {
		t.Run(fmt.Sprintf("%d steps", n), func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			r := ofSteps(n)
			eng, p := countedEngine(t, url, r)
			here := func() {
				if res, err := r.Run(t.Context(), eng, 1); err != nil || res.Value != n+1 {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			here() // warms the connection up
			check(t, p, "here", n+1, here)

			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			starter, err := engine.New(short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: true}), r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = starter.Close(context.Background()) })
			byWorker := func() {
				h, err := r.Start(t.Context(), starter, 1)
				if err != nil {
					t.Fatal(err)
				}
				check(t, p, "by a worker", n+1, func() {
					if err := eng.Drive(t.Context(), engine.Wake{Runs: []string{h.ID}, Queue: "reactor", Priority: 1}); err != nil {
						t.Fatal(err)
					}
				})
			}
			h, err := r.Start(t.Context(), starter, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := eng.Drive(t.Context(), engine.Wake{Runs: []string{h.ID}, Queue: "reactor", Priority: 1}); err != nil {
				t.Fatal(err) // warms the claim up
			}
			byWorker()
		})
	}
}

// check counts the round trips and commits of what do sends.
func check(t *testing.T, p *pgproxy.Proxy, what string, want int, do func()) {
	t.Helper()
	trips, commits := p.Count(pgproxy.ToClient, pgproxy.Ready), p.Tagged("COMMIT")
	do()
	trips, commits = p.Count(pgproxy.ToClient, pgproxy.Ready)-trips, p.Tagged("COMMIT")-commits
	if trips != want || commits != want {
		t.Errorf("%s: %d round trips and %d commits, want %d of each", what, trips, commits, want)
	}
}

package integration

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// Runs and jobs are in one database, so that one transaction holds both: New
// refuses a store and a dispatcher of two, and names them without a password.
// spec: K-341
func TestSeamsOfTwoDatabases(t *testing.T) {
	t.Parallel()
	pool := func(database string) *pgxpool.Pool {
		u, err := url.Parse("postgres://app:topsecret@db.example:5432/" + database)
		if err != nil {
			t.Fatal(err)
		}
		return poolOn(t, u.String())
	}
	_, err := engine.New(engine.Config{Store: pgstore.New(pool("shop")), Dispatcher: reactorriver.NewDispatcher(pool("jobs"))})
	if err == nil {
		t.Fatal("two databases were taken")
	}
	for _, part := range []string{`Store is in database "shop" on db.example`, `Dispatcher in database "jobs"`, "a pool of the same database"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "topsecret") {
		t.Errorf("the password is in: %v", err)
	}
	for _, name := range []string{"shop", ""} { // without a name it is that of the user
		eng, err := engine.New(engine.Config{Store: pgstore.New(pool(name)), Dispatcher: reactorriver.NewDispatcher(pool(name))})
		if err != nil {
			t.Fatalf("one database, through two pools: %v", err)
		}
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A run and its job are there together or not at all: a start whose job can't
// be queued leaves no run.
// spec: K-341, C-637
func TestRunsAndJobsAreOneTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	r := newJourney(false).r
	eng := starter(t, pool, r)
	if _, err := r.Start(t.Context(), eng, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `alter table river_job add constraint no_more check (false) not valid`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), eng, ""); err == nil {
		t.Error("a start whose job was refused worked")
	}
	if runs, jobs := runsOf(t, pool, "journey"), one[int](t, pool, `select count(*) from river_job`); runs != 1 || jobs != 1 {
		t.Errorf("%d runs and %d jobs, want one of each", runs, jobs)
	}
}

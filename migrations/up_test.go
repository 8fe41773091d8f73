package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// spec: K-1074
func TestUpOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	if err := migrations.Up(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Error(err)
	}
	m := newMigrator(t, pool, migrations.Options{})
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := migrations.State{
		Schema: "reactor", Version: schema.Latest, Latest: schema.Latest, RiverTables: true, RiverVersioned: true,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	r, err := m.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(migrations.Report{Before: want, After: want}, r); diff != "" {
		t.Errorf("a second Up changed something (-want +got):\n%s", diff)
	}
}

// spec: C-1142
func TestUpTakesOneOptionsValue(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	err := migrations.Up(t.Context(), pool, migrations.Options{}, migrations.Options{Schema: "other"})
	if err == nil || !strings.Contains(err.Error(), "migrations.Up") {
		t.Errorf("error is %v, want one that names migrations.Up", err)
	}
	wantMissing(t, pool, schema.Default)
	wantMissing(t, pool, "other")
}

func wantMissing(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	err := schema.Check(t.Context(), pool, name)
	if _, ok := errors.AsType[*schema.MissingError](err); !ok {
		t.Errorf("check of schema %s: %v, want a MissingError", name, err)
	}
}

func TestNewRefusesBadNames(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	for _, o := range []migrations.Options{
		{Schema: "Upper"}, {Schema: `a"b`}, {Schema: strings.Repeat("a", 47)}, {Schema: "pg_reactor"},
		{RiverSchema: "a.b"}, {RiverSchema: `a"b`}, {RiverSchema: "1a"}, {RiverSchema: strings.Repeat("a", 47)},
	} {
		if _, err := migrations.New(pool, o); err == nil {
			t.Errorf("New took %+v", o)
		}
	}
	if _, err := migrations.New(nil, migrations.Options{}); err == nil {
		t.Error("New took a nil pool")
	}
}

func TestLatestIsTheHighestFile(t *testing.T) {
	t.Parallel()
	versions, err := migrations.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range versions {
		if v != int64(i+1) {
			t.Errorf("the versions are %v, want 1, 2, 3 and so on", versions)
		}
	}
	if last := versions[len(versions)-1]; last != schema.Latest {
		t.Errorf("schema.Latest is %d, the highest file is %d", schema.Latest, last)
	}
}

// spec: K-1074
func TestUpDownUpLeavesTheSameSchema(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	m := newMigrator(t, pool, migrations.Options{})
	mustUp(t, pool, migrations.Options{})
	golden(t, "schema.golden", dump(t, pool, "reactor"))
	river := dump(t, pool, "public")

	r, err := m.Down(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if r.Before.Version != schema.Latest || r.After.Version != 0 {
		t.Errorf("down went from %d to %d, want from %d to 0", r.Before.Version, r.After.Version, schema.Latest)
	}
	left := queryAll(t, pool, `select relname::text from pg_class where relnamespace = 'reactor'::regnamespace and relkind = 'r'`)
	if diff := cmp.Diff([]string{schema.VersionTable}, left); diff != "" {
		t.Errorf("tables left by down (-want +got):\n%s", diff)
	}
	wantMissing(t, pool, schema.Default)
	if diff := cmp.Diff(river, dump(t, pool, "public")); diff != "" {
		t.Errorf("down changed River's tables (-before +after):\n%s", diff)
	}

	mustUp(t, pool, migrations.Options{})
	if diff := cmp.Diff(goldenSchema(t, "reactor"), dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema after up, down, up (-want +got):\n%s", diff)
	}
	if got := queryOne(t, pool, `select count(*)::text from reactor.sweeps`); got != "1" {
		t.Errorf("sweeps has %s rows after up, down, up, want 1", got)
	}
}

// spec: K-1074
func TestUpInManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	const processes = 8
	url := pgtest.Empty(t)
	pools := make([]*pgxpool.Pool, processes)
	for i := range pools {
		pools[i] = open(t, url) // a pool of its own is what a process is to the database
	}
	errs := make([]error, processes)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, pool := range pools {
		all.Go(func() {
			<-start
			errs[i] = migrations.Up(t.Context(), pool, migrations.Options{RiverSchema: "jobs"})
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(goldenSchema(t, "reactor"), dump(t, pools[0], "reactor")); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	applied := queryAll(t, pools[0], `select version_id::text from reactor.schema_version order by id`)
	want := []string{"0"}
	for v := range schema.Latest {
		want = append(want, fmt.Sprint(v+1))
	}
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Errorf("versions applied (-want +got):\n%s", diff)
	}
	single := emptyPool(t)
	mustUp(t, single, migrations.Options{RiverSchema: "jobs"})
	if diff := cmp.Diff(dump(t, single, "jobs"), dump(t, pools[0], "jobs")); diff != "" {
		t.Errorf("River's schema (-by one process +by many):\n%s", diff)
	}
}

func TestUpWithAPoolOfOneConnection(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Empty(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	mustUp(t, pool, migrations.Options{})
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Error(err)
	}
}

// An application can create our schema for itself, at the same moment.
func TestUpWhileTheSchemaIsBeingCreated(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	tx := begin(t, pool)
	run(t, tx, "create schema reactor")
	up := make(chan error, 1)
	go func() { up <- migrations.Up(t.Context(), pool) }()
	until(t, "Up waits for the other transaction", func() bool {
		return queryOne(t, pool, `select count(*)::text from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`) == "1"
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

// spec: K-1074
func TestUpInOtherSchemas(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	for _, name := range []string{"billing", "order"} {
		mustUp(t, pool, migrations.Options{Schema: name, RiverSchema: "Jobs"})
		if err := schema.Check(t.Context(), pool, name); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(goldenSchema(t, "billing"), dump(t, pool, "billing")); diff != "" {
		t.Errorf("schema billing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(goldenSchema(t, `"order"`), dump(t, pool, "order")); diff != "" {
		t.Errorf("schema order (-want +got):\n%s", diff)
	}
	schemas := queryAll(t, pool, `select distinct n.nspname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname <> 'information_schema' and n.nspname not like 'pg\_%' order by 1`)
	if diff := cmp.Diff([]string{"Jobs", "billing", "order"}, schemas); diff != "" {
		t.Errorf("schemas with something in them (-want +got):\n%s", diff)
	}

	if _, err := newMigrator(t, pool, migrations.Options{Schema: "billing", RiverSchema: "Jobs"}).Down(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(t.Context(), pool, "order"); err != nil {
		t.Errorf("down of one schema changed the other: %v", err)
	}
}

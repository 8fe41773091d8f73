package migrations_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
)

// steps are migrations of a table that grows.
var steps = fstest.MapFS{
	"0001_first.sql": {Data: []byte(`-- What comes before the up part is a comment.

-- +goose Up
create table reactor.things (id int primary key);
insert into reactor.things values (1);
-- +goose Down
drop table reactor.things;
`)},
	"0002_second.sql": {Data: []byte(`-- +goose Up
alter table reactor.things add column name text;
-- +goose StatementBegin
create function reactor.one() returns int language plpgsql as $$ begin
	return 1;
end $$;
-- +goose StatementEnd
-- +goose Down
drop function reactor.one;
alter table reactor.things drop column name;
`)},
	"0003_third.sql": {Data: []byte(`-- +goose Up
create index things_name on reactor.things (name);
-- +goose Down
drop index reactor.things_name;
`)},
}

func firstSteps(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for name, f := range steps {
		if name < fmt.Sprintf("%04d", n+1) {
			files[name] = f
		}
	}
	return files
}

func migratorOf(t *testing.T, pool *pgxpool.Pool, files fstest.MapFS) *migrations.Migrator {
	t.Helper()
	m, err := migrations.NewWithFiles(pool, migrations.Options{}, files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func upWith(t *testing.T, pool *pgxpool.Pool, files fstest.MapFS) migrations.Report {
	t.Helper()
	r, err := migratorOf(t, pool, files).Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUpAppliesWhatIsMissing(t *testing.T) {
	t.Parallel()
	pool, direct := emptyPool(t), emptyPool(t)
	upWith(t, pool, firstSteps(1))
	r := upWith(t, pool, steps)
	if r.Before.Version != 1 || r.After.Version != 3 {
		t.Errorf("up went from %d to %d, want from 1 to 3", r.Before.Version, r.After.Version)
	}
	upWith(t, direct, steps)
	want := dump(t, direct, "reactor")
	if diff := cmp.Diff(want, dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema after two ups (-in one +in two):\n%s", diff)
	}

	r, err := migratorOf(t, pool, steps).Down(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if r.After.Version != 1 {
		t.Errorf("two steps down led to version %d, want 1", r.After.Version)
	}
	upWith(t, pool, steps)
	if diff := cmp.Diff(want, dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema after two steps down and up (-want +got):\n%s", diff)
	}
	if _, err := migratorOf(t, pool, steps).Down(t.Context(), 0); err == nil {
		t.Error("Down took 0 steps")
	}
}

func TestUpStopsAtAMigrationThatFails(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	files := firstSteps(2)
	files["0003_third.sql"] = &fstest.MapFile{Data: []byte(`-- +goose Up
create table reactor.half (id int);
create table reactor.things (id int);
-- +goose Down
drop table reactor.half;
`)}
	r, err := migratorOf(t, pool, files).Up(t.Context())
	const want = `migrate schema "reactor" to version 3: relation "things" already exists`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if r.After.Version != 2 {
		t.Errorf("the report ends at version %d, want 2", r.After.Version)
	}
	if got := queryOne(t, pool, `select (to_regclass('reactor.half') is null)::text`); got != "true" {
		t.Error("half of the migration stayed")
	}
	upWith(t, pool, steps)
}

// withIndex are steps with one that builds an index without keeping out writers.
func withIndex() fstest.MapFS {
	files := firstSteps(2)
	files["0003_third.sql"] = &fstest.MapFile{Data: []byte(`-- +goose NO TRANSACTION
-- +goose Up
create index concurrently things_name on reactor.things (name);
-- +goose Down
drop index concurrently reactor.things_name;
`)}
	return files
}

func TestUpOutsideATransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool, direct := open(t, url), emptyPool(t)
	upWith(t, direct, steps)
	want := dump(t, direct, "reactor")
	upWith(t, pool, withIndex())
	if diff := cmp.Diff(want, dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema (-with a plain index +got):\n%s", diff)
	}
	if r, err := migratorOf(t, pool, withIndex()).Down(t.Context(), 1); err != nil || r.After.Version != 2 {
		t.Errorf("down led to version %d (%v), want 2", r.After.Version, err)
	}

	psql(t, url, scriptOf(t, migrations.Script{After: 2}, withIndex()))
	if diff := cmp.Diff(want, dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema by psql (-with a plain index +got):\n%s", diff)
	}
	if _, err := gooseOf(t, emptyPool(t), scriptOf(t, migrations.Script{}, withIndex())).Up(t.Context()); err != nil {
		t.Errorf("goose: %v", err)
	}
}

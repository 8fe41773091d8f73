package migrations_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// riverUp migrates River's tables as an application does that has River.
func riverUp(t *testing.T, pool *pgxpool.Pool, schema string, version int) {
	t.Helper()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context(), rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{TargetVersion: version}); err != nil {
		t.Fatal(err)
	}
}

// riverOfToday is what River's own migrations make, as a dump of schema.
func riverOfToday(t *testing.T, schema string) string {
	t.Helper()
	pool := emptyPool(t)
	run(t, pool, "create schema if not exists "+schema)
	riverUp(t, pool, schema, 0)
	return dump(t, pool, schema)
}

// spec: K-1074
func TestUpMakesRiversTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "jobs"} {
		t.Run("schema "+name, func(t *testing.T) {
			t.Parallel()
			pool := emptyPool(t)
			mustUp(t, pool, migrations.Options{RiverSchema: name})
			where := name
			if where == "" {
				where = "public"
			}
			if diff := cmp.Diff(riverOfToday(t, where), dump(t, pool, where)); diff != "" {
				t.Errorf("River's tables (-by River +by Up):\n%s", diff)
			}
		})
	}
}

// spec: K-1074
func TestUpLeavesRiversTablesAlone(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	run(t, pool, "create schema jobs")
	riverUp(t, pool, "jobs", 6)
	before := dump(t, pool, "jobs")

	m := newMigrator(t, pool, migrations.Options{RiverSchema: "jobs"})
	r, err := m.Up(t.Context())
	behind, ok := errors.AsType[*migrations.RiverError](err)
	if !ok {
		t.Fatalf("error is %v, want a RiverError", err)
	}
	if behind.Schema != "jobs" || behind.Missing[0] != 7 {
		t.Errorf("error is of schema %q and misses %v, want jobs and 7 first", behind.Schema, behind.Missing)
	}
	for _, want := range []string{`"jobs"`, "version 7", `river migrate-up --database-url "$DATABASE_URL" --schema jobs`,
		"reactorctl migrate --river --river-schema jobs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	if diff := cmp.Diff(before, dump(t, pool, "jobs")); diff != "" {
		t.Errorf("River's tables (-before +after):\n%s", diff)
	}
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil || r.After.Version != schema.Latest {
		t.Errorf("our schema is not migrated: version %d, %v", r.After.Version, err)
	}

	again, err := m.Up(t.Context())
	if _, ok := errors.AsType[*migrations.RiverError](err); !ok {
		t.Errorf("the second error is %v, want a RiverError", err)
	}
	if diff := cmp.Diff(r.After, again.After); diff != "" {
		t.Errorf("a second Up changed something (-want +got):\n%s", diff)
	}
}

func TestRiverErrorOfTheSearchPath(t *testing.T) {
	t.Parallel()
	err := &migrations.RiverError{Missing: []int{7, 8}}
	const want = `River's tables lack version 7, 8: run river migrate-up --database-url "$DATABASE_URL", or reactorctl migrate --river`
	if err.Error() != want {
		t.Errorf("text is %s, want %s", err, want)
	}
}

// spec: K-1074
func TestUpRiverChangesThemAfterAll(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	riverUp(t, pool, "", 6)
	m := newMigrator(t, pool, migrations.Options{})
	r, err := m.UpRiver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Before.RiverMissing) == 0 || len(r.After.RiverMissing) != 0 {
		t.Errorf("versions missing before are %v, after %v", r.Before.RiverMissing, r.After.RiverMissing)
	}
	if diff := cmp.Diff(riverOfToday(t, "public"), dump(t, pool, "public")); diff != "" {
		t.Errorf("River's tables (-by River +by UpRiver):\n%s", diff)
	}
	wantMissing(t, pool, schema.Default)
	if _, err := m.Up(t.Context()); err != nil {
		t.Error(err)
	}
}

// Users of other migration tools have River's tables without its record.
func TestRiverWithoutItsRecord(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	riverUp(t, pool, "", 0)
	run(t, pool, "drop table river_migration")
	before := dump(t, pool, "public")
	m := newMigrator(t, pool, migrations.Options{})
	r, err := m.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.After.RiverTables || r.After.RiverVersioned {
		t.Errorf("the report says tables: %t, record: %t, want true and false", r.After.RiverTables, r.After.RiverVersioned)
	}
	if _, err := m.UpRiver(t.Context()); err == nil || !strings.Contains(err.Error(), "river_migration") {
		t.Errorf("UpRiver: error is %v, want one that names river_migration", err)
	}
	if diff := cmp.Diff(before, dump(t, pool, "public")); diff != "" {
		t.Errorf("River's tables (-before +after):\n%s", diff)
	}
}

// A process can die between two versions of River.
func TestUpFinishesRiversTablesThatItBegan(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]int{"before river_job": 1, "after it": 4, "before the mark goes": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := emptyPool(t)
			riverUp(t, pool, "", version)
			if version != 1 {
				run(t, pool, "comment on table river_job is '"+migrations.RiverMark+"'")
			}
			mustUp(t, pool, migrations.Options{})
			if diff := cmp.Diff(riverOfToday(t, "public"), dump(t, pool, "public")); diff != "" {
				t.Errorf("River's tables (-by River +by Up):\n%s", diff)
			}
		})
	}
}

func TestUpMarksRiversTablesUntilTheyAreFinished(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	// What River's version 7 is to make is there, so that version fails.
	run(t, pool, "create table river_notification ()")
	err := migrations.Up(t.Context(), pool)
	const want = `migrate River's tables to version 7: relation "river_notification" already exists`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if got := queryOne(t, pool, "select obj_description('river_job'::regclass, 'pg_class')"); got != migrations.RiverMark {
		t.Errorf("the comment on river_job is %q, want the mark", got)
	}
	run(t, pool, "drop table river_notification")
	mustUp(t, pool, migrations.Options{})
	if diff := cmp.Diff(riverOfToday(t, "public"), dump(t, pool, "public")); diff != "" {
		t.Errorf("River's tables (-by River +by Up):\n%s", diff)
	}
}

func TestUpWithoutASchemaForRiver(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Empty(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "" })
	err := migrations.Up(t.Context(), pool)
	if err == nil || !strings.Contains(err.Error(), "--river-schema") {
		t.Errorf("error is %v, want one that names --river-schema", err)
	}
	mustUp(t, pool, migrations.Options{RiverSchema: "jobs"})
}

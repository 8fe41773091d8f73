package migrations_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
)

// What the database and the role set for others must not matter, nor objects in
// the search path that stand in for those of PostgreSQL.
func TestUpUnderForeignSettings(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	before := open(t, url)
	run(t, before, `create function public.now() returns timestamptz language sql as 'select pg_catalog.now()'`)
	run(t, before, `create function public.same(text, text) returns boolean language sql as 'select $1 operator(pg_catalog.=) $2'`)
	run(t, before, `create operator public.= (function = public.same, leftarg = text, rightarg = text)`)
	for _, setting := range []string{
		"search_path = public, pg_catalog", "default_transaction_isolation = serializable",
		"default_transaction_read_only = on", "timezone = 'Asia/Kathmandu'", "lock_timeout = '1h'",
	} {
		run(t, before, `do $$ begin execute format('alter database %I set `+strings.ReplaceAll(setting, "'", "''")+`', current_database()); end $$`)
	}
	pool := open(t, url)
	if got := queryOne(t, pool, "show default_transaction_isolation"); got != "serializable" {
		t.Fatalf("the settings are not in force: isolation is %s", got)
	}

	mustUp(t, pool, migrations.Options{RiverSchema: "jobs"})
	if diff := cmp.Diff(goldenSchema(t, "reactor"), dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}

	seen := upWithSettings(t, pool)
	want := "read committed, off, pg_catalog, pg_temp, 4s, 0, 0"
	if seen != want {
		t.Errorf("a migration runs with settings %s, want %s", seen, want)
	}
}

// upWithSettings returns the settings that a migration runs under.
func upWithSettings(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	m, err := migrations.NewWithFiles(pool, migrations.Options{Schema: "settings", RiverSchema: "jobs"}, fstest.MapFS{
		"0001_settings.sql": {Data: []byte(`-- +goose Up
create table reactor.seen as select concat_ws(', ', current_setting('transaction_isolation'), current_setting('transaction_read_only'),
	current_setting('search_path'), current_setting('lock_timeout'), current_setting('statement_timeout'),
	current_setting('idle_in_transaction_session_timeout')) as settings;
-- +goose Down
drop table reactor.seen;
`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return queryOne(t, pool, `select settings from settings.seen`)
}

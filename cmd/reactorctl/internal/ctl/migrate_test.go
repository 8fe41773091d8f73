package ctl

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	for _, c := range []struct{ args, want string }{
		{"migrate status", "schema \"reactor\": missing; this program needs version 1\nRiver's tables: there are none\n"},
		{"migrate", "schema \"reactor\": from version 0 to 1\nRiver's tables: made\n"},
		{"migrate up", "schema \"reactor\": at version 1, nothing to do\nRiver's tables: were there, left alone\n"},
		{"migrate --river", "schema \"reactor\": at version 1, nothing to do\nRiver's tables: were there, left alone\n"},
		{"migrate status", "schema \"reactor\": at version 1, as this program needs\nRiver's tables: up to date\n"},
		{"migrate --schema other --river-schema rivers", "schema \"other\": from version 0 to 1\nRiver's tables in schema \"rivers\": made\n"},
		{"migrate down --yes", "schema \"reactor\": from version 1 to 0\nRiver's tables: were there, left alone\n"},
		{"migrate status --schema other", "schema \"other\": at version 1, as this program needs\nRiver's tables: up to date\n"},
	} {
		s := call(t, append(strings.Fields(c.args), "--database", url)...)
		s.want(t, codeOK, "")
		if diff := cmp.Diff(c.want, s.out); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.args, diff)
		}
	}
	call(t, "migrate", "down", "--yes", "--database", url).want(t, codeSchema, `schema "reactor" is missing: run reactorctl migrate`)
}

func TestMigrateJSON(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	var r migrations.Report
	s := call(t, "migrate", "-o", "json", "--database", url)
	if err := json.Unmarshal([]byte(s.out), &r); err != nil || r.Before.Version != 0 || r.After.Version != 1 {
		t.Errorf("got %+v, %v of %q", r, err, s.out)
	}
}

// River's tables that are behind stay as they are, until that is asked for.
func TestMigrateRiverThatIsBehind(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	takeBackRiver(t, l.url)
	behind := l.call("migrate")
	behind.want(t, codeSchema, "River's tables lack version ")
	if !strings.Contains(behind.err, "river migrate-up") || !strings.Contains(behind.err, "reactorctl migrate --river") || !strings.Contains(behind.out, "were there, left alone") {
		t.Errorf("got %q and %q", behind.out, behind.err)
	}
	if s := l.call("migrate", "status"); !strings.Contains(s.out, "River's tables: lack version ") {
		t.Errorf("got %q", s.out)
	}
	if s := l.call("migrate", "--river"); s.code != codeOK || !strings.Contains(s.out, "River's tables: brought up to date") {
		t.Errorf("got code %d, %q, %q", s.code, s.out, s.err)
	}
	if s := l.call("migrate", "status"); !strings.Contains(s.out, "River's tables: up to date") {
		t.Errorf("got %q", s.out)
	}
}

// takeBackRiver takes the last version of River's tables back.
func takeBackRiver(t *testing.T, url string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context(), rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
}

// Taking tables back says what will happen, asks, and without a terminal refuses.
func TestMigrateDownAsks(t *testing.T) {
	t.Parallel()
	l, _ := filled(t)
	refused := l.call("migrate", "down")
	refused.want(t, codeUsage, `This takes schema "reactor" from version 1 to 0. All runs are deleted, 2 of them not finished, and `+
		`1 process that is at work loses its tables. Nobody can be asked here: give --yes`)
	dry := l.call("migrate", "down", "--dry-run")
	dry.want(t, codeOK, "")
	if !strings.Contains(dry.out, "2 of them not finished") || !strings.Contains(dry.out, "Nothing was changed") {
		t.Errorf("got %q", dry.out)
	}
	l.call("migrate", "down", "--steps", "0", "--yes").want(t, codeUsage, "--steps 0: at least 1 is needed")
	if s := l.call("migrate", "status"); !strings.Contains(s.out, "at version 1") {
		t.Errorf("something was changed: %q", s.out)
	}
}

func TestMigrateSQL(t *testing.T) {
	t.Parallel()
	up := call(t, "migrate", "sql", "--schema", "orders")
	up.want(t, codeOK, "")
	if !strings.Contains(up.out, `create table "orders".runs`) {
		t.Errorf("got %.300q", up.out)
	}
	down := call(t, "migrate", "sql", "--down")
	down.want(t, codeOK, "")
	if !strings.Contains(down.out, "drop table reactor.runs") {
		t.Errorf("got %.300q", down.out)
	}
	call(t, "migrate", "sql", "--after", "99").want(t, codeUsage, "there is no migration after version 99")
	call(t, "migrate", "sideways").want(t, codeUsage, `reactorctl migrate has no command "sideways"`)
}

package migrations_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

func script(t *testing.T, s migrations.Script) string {
	t.Helper()
	var b bytes.Buffer
	if err := migrations.SQL(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func scriptOf(t *testing.T, s migrations.Script, files fstest.MapFS) string {
	t.Helper()
	s.Schema = schema.Default
	var b bytes.Buffer
	if err := migrations.SQLOfFiles(&b, s, files); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// psqlPath finds psql where its package puts it, if not in the path.
func psqlPath(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("psql"); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if err != nil || len(found) == 0 {
		t.Fatal("psql is missing: install the client programs of PostgreSQL")
	}
	return slices.Max(found)
}

// psql runs a script as the script's own comment says.
func psql(t *testing.T, url, script string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--no-psqlrc", "--dbname", url, "--quiet", "--set", "ON_ERROR_STOP=1", "--file", file}
	if !strings.Contains(script, "concurrently") {
		args = append(args, "--single-transaction")
	}
	out, err := exec.CommandContext(t.Context(), psqlPath(t), args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

// spec: K-1074
func TestPsqlTakesTheScript(t *testing.T) {
	t.Parallel()
	for name, golden := range map[string]string{"reactor": "reactor", "billing": "billing", "order": `"order"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Empty(t)
			pool := open(t, url)
			psql(t, url, script(t, migrations.Script{Schema: name}))
			if diff := cmp.Diff(goldenSchema(t, golden), dump(t, pool, name)); diff != "" {
				t.Errorf("schema by psql (-want +got):\n%s", diff)
			}
			if err := schema.Check(t.Context(), pool, name); err != nil {
				t.Error(err)
			}

			psql(t, url, script(t, migrations.Script{Schema: name, Down: true}))
			wantMissing(t, pool, name)
			mustUp(t, pool, migrations.Options{Schema: name, RiverSchema: "jobs"})
			if diff := cmp.Diff(goldenSchema(t, golden), dump(t, pool, name)); diff != "" {
				t.Errorf("schema by psql, then by Up (-want +got):\n%s", diff)
			}
		})
	}
}

// What a script has made, the migrator takes back.
func TestDownAfterAScript(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool := open(t, url)
	psql(t, url, script(t, migrations.Script{}))
	m := newMigrator(t, pool, migrations.Options{})
	if _, err := m.Down(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, pool, schema.Default)
	mustUp(t, pool, migrations.Options{})
}

// gooseOf is an application's goose that has a file of ours among its own.
func gooseOf(t *testing.T, pool *pgxpool.Pool, text string) *goose.Provider {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	files := fstest.MapFS{"00042_reactor.sql": {Data: []byte(text)}}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spec: K-1074
func TestGooseTakesTheScript(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	p := gooseOf(t, pool, script(t, migrations.Script{})+script(t, migrations.Script{Down: true}))
	for range 2 {
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(goldenSchema(t, "reactor"), dump(t, pool, "reactor")); diff != "" {
			t.Errorf("schema by goose (-want +got):\n%s", diff)
		}
		if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
			t.Error(err)
		}
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		wantMissing(t, pool, schema.Default)
	}
	upOnly := gooseOf(t, pool, script(t, migrations.Script{}))
	if _, err := upOnly.Up(t.Context()); err != nil {
		t.Errorf("the way up without the way back: %v", err)
	}
}

// spec: K-1074
func TestScriptFromAVersionOn(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool, direct := open(t, url), emptyPool(t)
	upWith(t, direct, steps)
	upWith(t, pool, firstSteps(1))
	psql(t, url, scriptOf(t, migrations.Script{After: 1}, steps))
	if diff := cmp.Diff(dump(t, direct, "reactor"), dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema by Up and psql (-by Up alone +got):\n%s", diff)
	}
	if r := upWith(t, pool, steps); r.Before.Version != 3 {
		t.Errorf("the version after the script is %d, want 3", r.Before.Version)
	}

	psql(t, url, scriptOf(t, migrations.Script{After: 1, Down: true}, steps))
	if r := upWith(t, pool, steps); r.Before.Version != 1 {
		t.Errorf("the version after the way back is %d, want 1", r.Before.Version)
	}

	p := gooseOf(t, emptyPool(t), scriptOf(t, migrations.Script{}, steps)+scriptOf(t, migrations.Script{Down: true}, steps))
	if _, err := p.Up(t.Context()); err != nil {
		t.Errorf("goose: %v", err)
	}
	if _, err := p.DownTo(t.Context(), 0); err != nil {
		t.Errorf("goose, way back: %v", err)
	}
}

func TestSQLRefuses(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]migrations.Script{
		"schema name":  {Schema: `a"; drop table x`},
		"no migration": {After: schema.Latest},
		"version -1":   {After: -1},
	} {
		var b bytes.Buffer
		if err := migrations.SQL(&b, s); err == nil || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("SQL of %+v: error %v and %d bytes, want an error with %q and nothing", s, err, b.Len(), want)
		}
	}
}

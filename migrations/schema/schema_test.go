package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// spec: K-424
func TestCheckOfAMissingSchema(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Empty(t))
	err := schema.Check(t.Context(), pool, "billing")
	if _, ok := errors.AsType[*schema.MissingError](err); !ok {
		t.Errorf("error is a %T, want a MissingError", err)
	}
	wantText(t, err, `schema "billing" is missing: run reactorctl migrate --schema billing`)

	exec(t, pool, "create schema reactor")
	err = schema.Check(t.Context(), pool, schema.Default)
	if _, ok := errors.AsType[*schema.MissingError](err); !ok {
		t.Errorf("error of an empty schema is a %T, want a MissingError", err)
	}
	wantText(t, err, `schema "reactor" is missing: run reactorctl migrate`)
}

// spec: K-424
func TestCheckOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.URL(t))
	v, err := schema.Current(t.Context(), pool, schema.Default)
	if err != nil {
		t.Fatal(err)
	}
	// What a release with one migration more says to the schema of this one.
	err = v.Fits(schema.Default, schema.Latest+1)
	older, ok := errors.AsType[*schema.OlderError](err)
	if !ok || older.Version != schema.Latest || older.Needs != schema.Latest+1 {
		t.Errorf("error is %#v, want an OlderError of %d and %d", err, schema.Latest, schema.Latest+1)
	}
	wantText(t, (&schema.OlderError{Schema: "reactor", Version: 1, Needs: 2}),
		`schema "reactor" is at version 1, this release needs 2: run reactorctl migrate`)
}

// spec: K-424
func TestCheckOfANewerSchema(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.URL(t))
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "insert into reactor.schema_version (version_id, is_applied) values ($1, true)", schema.Latest+8)
	err := schema.Check(t.Context(), pool, schema.Default)
	newer, ok := errors.AsType[*schema.NewerError](err)
	if !ok || newer.Version != schema.Latest+8 || newer.Knows != schema.Latest {
		t.Errorf("error is %#v, want a NewerError of %d and %d", err, schema.Latest+8, schema.Latest)
	}
	wantText(t, &schema.NewerError{Schema: "reactor", Version: 9, Knows: 2}, `schema "reactor" is at version 9, newer than `+
		`this release (2): use a newer release of the library (go get github.com/pgreactor/reactor@latest)`)

	m, err := migrations.New(pool, migrations.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, up := m.Up(t.Context())
	_, down := m.Down(t.Context(), 1)
	for _, err := range []error{up, down} {
		if _, ok := errors.AsType[*schema.NewerError](err); !ok {
			t.Errorf("a migrator's error is %v, want a NewerError", err)
		}
	}
	if v, err := schema.Current(t.Context(), pool, schema.Default); err != nil || v.Number != schema.Latest+8 {
		t.Errorf("the migrator left version %d (%v), want %d", v.Number, err, schema.Latest+8)
	}
}

// A later release can leave the schema usable for this one, so that the processes
// of both can run side by side.
func TestCheckOfANewerSchemaThatStillFits(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.URL(t))
	exec(t, pool, "insert into reactor.schema_version (version_id, is_applied, oldest) values ($1, true, $2)",
		schema.Latest+1, schema.Latest)
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Error(err)
	}
	if err := migrations.Up(t.Context(), pool); err != nil {
		t.Errorf("Up of the earlier release: %v", err)
	}
	m, err := migrations.New(pool, migrations.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Down(t.Context(), 1)
	if _, ok := errors.AsType[*schema.NewerError](err); !ok {
		t.Errorf("Down of a version that this release does not know: error is %v, want a NewerError", err)
	}
}

func TestCheckKeepsATransaction(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Empty(t))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := schema.Check(t.Context(), tx, schema.Default); err == nil {
		t.Fatal("an empty database passed the check")
	}
	if _, err := tx.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the transaction is aborted: %v", err)
	}
}

func TestCheckSaysWhyItCanNotTell(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Empty(t))
	exec(t, pool, "create schema reactor")
	exec(t, pool, "create table reactor.schema_version (id int)")
	err := schema.Check(t.Context(), pool, schema.Default)
	wantText(t, err, `read the version of schema "reactor": column "version_id" does not exist`)
}

func TestValidName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reactor", "_", "a1", "order", strings.Repeat("a", 46)} {
		if err := schema.ValidName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"":                      "must have only",
		"Reactor":               "must have only",
		"1a":                    "digit",
		"a.b":                   "must have only",
		`a"b`:                   "must have only",
		"a b":                   "must have only",
		"a\n":                   "must have only",
		"pg_x":                  "pg_",
		strings.Repeat("a", 47): "at most 46",
	} {
		if err := schema.ValidName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want one with %q", name, err, want)
		}
	}
}

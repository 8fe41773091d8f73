package migrations_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// appGoose is an application's own goose, with migrations that are registered for
// the whole process.
func appGoose(t *testing.T, pool *pgxpool.Pool, migrateOurs bool) *goose.Provider {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		t.Fatal(err)
	}
	options := []goose.ProviderOption{goose.WithSessionLocker(locker)}
	if migrateOurs {
		up := &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error { return migrations.Up(ctx, pool) }}
		options = append(options, goose.WithGoMigrations(goose.NewGoMigration(2, up, nil)))
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func init() {
	goose.AddNamedMigrationContext("00001_app.go",
		func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "create table public.app (id int)")
			return err
		},
		func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "drop table public.app")
			return err
		})
}

// spec: K-1074
func TestUpBesideTheApplicationsGoose(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	app := appGoose(t, pool, false)
	if _, err := app.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	const books = `select row(g.*)::text from public.goose_db_version g order by id`
	before := queryAll(t, pool, books)

	mustUp(t, pool, migrations.Options{})
	if diff := cmp.Diff(before, queryAll(t, pool, books)); diff != "" {
		t.Errorf("the application's versions (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(goldenSchema(t, "reactor"), dump(t, pool, "reactor")); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	if _, err := app.DownTo(t.Context(), 0); err != nil {
		t.Errorf("the application's way back: %v", err)
	}
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Errorf("after the application's way back: %v", err)
	}
}

// The application's goose holds the lock that all users of goose share.
func TestUpInsideTheApplicationsGoose(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	if _, err := appGoose(t, pool, true).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(t.Context(), pool, schema.Default); err != nil {
		t.Error(err)
	}
}

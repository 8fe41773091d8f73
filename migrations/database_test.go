package migrations_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations"
)

// With it run TestUpDownUpLeavesTheSameSchema alone: others read what it writes.
var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { pgtest.Main(m) }

// open returns a pool on url that is closed with the test.
func open(t *testing.T, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// emptyPool is a pool on an empty database of the test's own.
func emptyPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return open(t, pgtest.Empty(t))
}

func newMigrator(t *testing.T, pool *pgxpool.Pool, o migrations.Options) *migrations.Migrator {
	t.Helper()
	m, err := migrations.New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustUp(t *testing.T, pool *pgxpool.Pool, o migrations.Options) {
	t.Helper()
	if err := migrations.Up(t.Context(), pool, o); err != nil {
		t.Fatal(err)
	}
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func run(t *testing.T, db executor, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// begin opens a transaction that ends with the test, if not before.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // may have ended
	return tx
}

// queryAll returns the rows of a query with one text column.
func queryAll(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

func queryOne(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	all := queryAll(t, pool, sql, args...)
	if len(all) != 1 {
		t.Fatalf("%s: %d rows, want 1", sql, len(all))
	}
	return all[0]
}

// until asks again and again until ok says yes.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// catalog lists all that is in a schema: relations with their columns,
// constraints and indexes, types, functions and triggers.
const catalog = `
with space as (select oid from pg_namespace where nspname = $1),
     class as (select * from pg_class where relnamespace = (select oid from space))
select line from (
	select c.relname, 0 as part, 0 as place,
	       format('%s %I.%I%s%s', case c.relkind::text when 'r' then 'table' when 'S' then 'sequence' when 'v' then 'view' else 'relation ' || c.relkind::text end,
	              $1::text, c.relname, case when c.relpersistence <> 'p' then ' persistence ' || c.relpersistence::text end,
	              ' with (' || array_to_string(c.reloptions, ', ') || ')') as line
	  from class c where c.relkind not in ('i', 'I')
	union all
	select c.relname, 1, a.attnum,
	       format('    %I %s%s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then ' not null' end,
	              ' default ' || pg_get_expr(d.adbin, d.adrelid), ' identity ' || nullif(a.attidentity::text, ''), ' generated ' || nullif(a.attgenerated::text, ''))
	  from class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
	  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
	 where c.relkind in ('r', 'v')
	union all
	select c.relname, 2, row_number() over (order by n.conname), format('    constraint %I %s', n.conname, pg_get_constraintdef(n.oid))
	  from class c join pg_constraint n on n.conrelid = c.oid where n.contype <> 'n' -- of not null, from version 18 on
	union all
	select c.relname, 3, row_number() over (order by i.relname), '    ' || pg_get_indexdef(i.oid)
	  from class c join pg_index x on x.indrelid = c.oid join class i on i.oid = x.indexrelid
	union all
	select c.relname, 4, row_number() over (order by g.tgname), '    ' || pg_get_triggerdef(g.oid)
	  from class c join pg_trigger g on g.tgrelid = c.oid where not g.tgisinternal
	union all
	select c.relname, 5, 0, format('    comment %L', obj_description(c.oid, 'pg_class'))
	  from class c where obj_description(c.oid, 'pg_class') is not null
	union all
	select t.typname, 6, 0, format('type %I.%I %s', $1::text, t.typname, (select string_agg(e.enumlabel, ', ' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid))
	  from pg_type t where t.typnamespace = (select oid from space) and t.typtype in ('e', 'd')
	union all
	select p.proname, 7, 0, pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = (select oid from space)
) lines order by relname collate "C", part, place`

// dump is what a schema has, one line a thing.
func dump(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	var lines []string
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		// Definitions name what is not in the search path with its schema.
		run(t, tx, "set local search_path = pg_catalog")
		rows, err := tx.Query(t.Context(), catalog, schema)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

// golden compares got with a file, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", path, diff)
	}
}

// goldenSchema is what our schema must be. Schema is its name as SQL has it.
func goldenSchema(t *testing.T, schema string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schema.golden"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "reactor.", schema+".")
}

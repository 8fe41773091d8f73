package pgstore_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

// spec: K-943
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	prepareAll(t, pgtest.Pool(t), pgstore.New(pgtest.Pool(t)))
}

func prepareAll(t *testing.T, pool *pgxpool.Pool, s *pgstore.Store) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, text := range pgstore.Statements() {
		if _, err := conn.Conn().Prepare(t.Context(), name, s.InSchema(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every legal name of a schema works, whatever the search path is, and nothing
// that is planted in it is called.
//
// spec: K-941
func TestAnySchema(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"My-App", `a"b`, `x; drop table y;--`, "select", strings.Repeat("n", 63), "$1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pgtest.Allow(t, "G1", "the schema is renamed, so nothing is checked")
			url := pgtest.URL(t)
			around := open(t, url, nil)
			for _, sql := range []string{
				"alter schema reactor rename to " + pgx.Identifier{name}.Sanitize(),
				"create schema evil",
				"create table evil.runs (id uuid, status text)",
				"create function evil.clock_timestamp() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$",
				"create function evil.unnest(text[]) returns setof text language sql as $$ select 'evil' $$",
			} {
				if _, err := around.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			pool := open(t, url, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["search_path"] = "evil, public"
				c.ConnConfig.RuntimeParams["timezone"] = "Asia/Kathmandu"
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			})
			f := on(t, pool, pgstore.Options{Schema: name})
			prepareAll(t, pool, f.store)
			r := newRun()
			f.create(r)
			_, fence := f.own(f.process(hour), r.ID)
			f.save(&fence, step("a", 1))
			if _, err := f.store.Sweep(t.Context(), engine.SweepPass{}); err != nil {
				t.Error(err)
			}
			if got := f.get(r.ID); len(got.Nodes) != 1 || got.Created.Year() < 2000 {
				t.Errorf("run %+v", got)
			}
		})
	}
}

func TestIllegalSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for _, name := range []string{strings.Repeat("n", 64), "a\x00b", "a\xffb"} {
		if err := pgstore.New(pool, pgstore.Options{Schema: name}).Attach(nil); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := pgstore.New(pool, pgstore.Options{}, pgstore.Options{}).Attach(nil); err == nil {
		t.Error("two values of Options were taken")
	}
	if err := pgstore.New(nil).Attach(nil); err == nil {
		t.Error("a nil pool was taken")
	}
	if err := pgstore.New(pool, pgstore.Options{}).Attach(nil); err != nil {
		t.Error(err)
	}
}

// Each constant that is a statement is in the list, so that the other tests see
// it: a statement's name ends in SQL, that of a part of one does not.
//
// spec: K-943
func TestStatementsAreListed(t *testing.T) {
	t.Parallel()
	listed, constants := map[string]bool{}, []string{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					constants = append(constants, names(n)...)
					return false
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Value.(*ast.Ident); ok && strings.HasSuffix(id.Name, "SQL") {
					listed[id.Name] = true
				}
			case *ast.BasicLit:
				if strings.Contains(n.Value, "reactor.") && !strings.Contains(n.Value, `\b`) && !strings.Contains(n.Value, "github.com") {
					t.Errorf("SQL outside a constant: %s", n.Value)
				}
			}
			return true
		})
	}
	if len(listed) != len(pgstore.Statements()) {
		t.Errorf("%d statements are listed, %d constants of the list were found", len(pgstore.Statements()), len(listed))
	}
	for _, name := range constants {
		if strings.HasSuffix(name, "SQL") && !listed[name] {
			t.Errorf("%s is not in statements", name)
		}
	}
}

// sources is the files of the package, without its tests.
func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func names(d *ast.GenDecl) (found []string) {
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			found = append(found, name.Name)
		}
	}
	return found
}

var writes = regexp.MustCompile(`(?i)\b(insert\s+into|update|delete\s+from|merge\s+into|truncate)\s+(?:only\s+)?(?:reactor\.)?(runs|nodes)\b`)

// writers is the statements that write headers and nodes, with the writers of
// the specification whose route they are.
var writers = map[string][]string{
	"create":    {"insert into runs"},                 // W5 to W8, W18
	"save":      {"insert into nodes", "update runs"}, // W1 to W4, W9, W10, W15 to W17, W19, W23
	"save step": {"insert into nodes", "update runs"}, // W1, W2
	"claim":     {"update runs"},                      // W21
	"wake":      {"update runs"},                      // W22
	"unblock":   {"update runs"},                      // W22
}

// spec: K-372, K-331
func TestWriters(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for name, text := range pgstore.Statements() {
		if what := written(text); len(what) > 0 {
			found[name] = what
		}
	}
	if diff := cmp.Diff(writers, found); diff != "" {
		t.Errorf("statements that write runs or nodes: -want +got\n%s", diff)
	}
	err := filepath.WalkDir("..", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		what := written(string(text))
		if len(what) > 0 && filepath.Dir(file) != filepath.Join("..", "pgstore") && !strings.Contains(file, "pgtest") {
			t.Errorf("%s: %q outside of pgstore", file, what)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// written is what a text writes, each once.
func written(text string) []string {
	found := map[string]bool{}
	for _, m := range writes.FindAllStringSubmatch(text, -1) {
		found[strings.ToLower(strings.Join(strings.Fields(m[1]), " ")+" "+m[2])] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// A reader needs no more than SELECT.
//
// spec: K-940
func TestReadsNeedSelectOnly(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	f := on(t, open(t, url, nil))
	fence := f.owned()
	role := "reader_" + strings.ReplaceAll(newID(), "-", "")
	f.exec("create role " + role)
	f.exec("grant usage on schema reactor to " + role)
	f.exec("grant select on all tables in schema reactor to " + role)
	t.Cleanup(func() {
		if _, err := f.pool.Exec(context.WithoutCancel(t.Context()), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
	})
	reader := pgstore.New(open(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["role"] = role
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}))
	ctx := t.Context()
	f.must(reader.Check(ctx))
	_, err := reader.Get(ctx, fence.Run)
	f.must(err)
	page, _, err := reader.List(ctx, engine.Query{})
	f.must(err)
	inbox, _, err := reader.List(ctx, engine.Query{Inbox: true, Tags: []string{"a"}})
	f.must(err)
	statuses, err := reader.Statuses(ctx, []string{fence.Run})
	f.must(err)
	_, err = reader.Graph(ctx, "f1")
	f.must(err)
	health, err := reader.Health(ctx)
	f.must(err)
	if len(page) != 1 || len(inbox) != 0 || len(statuses) != 1 || len(health.Processes) != 1 {
		t.Errorf("read %d runs, %d of the inbox, %d statuses, %d processes", len(page), len(inbox), len(statuses), len(health.Processes))
	}
	_, err = reader.Save(ctx, fence, step("a", 1))
	f.away(err)
	f.complete(fence)
}

package layout

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/pgreactor/reactor"

// everything means: all folders of the repository.
var everything = []string{"*"}

// A direction is which folders of the repository a folder may import. Its tests
// may import what is listed for tests, too.
type direction struct{ code, tests []string }

// directions is the arrow of docs/architecture.md: engine <- adapters <-
// programs. The longest folder that a file lies in counts.
var directions = map[string]direction{
	"engine":          {code: []string{"engine"}, tests: []string{"internal"}},
	"migrations":      {code: []string{"migrations"}, tests: []string{"internal"}},
	"pgstore":         {code: []string{"engine", "migrations/schema"}, tests: []string{"internal"}},
	"locks":           {code: []string{"engine", "migrations/schema"}, tests: []string{"internal"}},
	"river":           {code: []string{"engine", "migrations/schema"}, tests: []string{"internal"}},
	"telemetry":       {code: []string{"engine"}, tests: []string{"internal"}},
	"dashboard":       {code: []string{"engine"}, tests: []string{"internal"}},
	"internal":        {code: []string{"internal", "engine", "migrations"}},
	"internal/layout": {},
	"internal/pgdev":  {},
	"cmd":             {code: everything},
	"examples":        {code: everything},
	"integration":     {code: everything},
}

// A reservation keeps a library of others, and all that lies below its path,
// to the folders that may know it.
type reservation struct {
	library string
	code    []string // folders that may import it
	tests   []string // folders whose tests may, too
}

// reservations are the dependencies that a user of one package must not get
// through another.
var reservations = []reservation{
	{library: "github.com/spf13/cobra", code: []string{"cmd"}},
	{library: "github.com/pressly/goose", code: []string{"migrations"}},
	{library: "github.com/testcontainers/testcontainers-go", code: []string{"integration"}},
	{library: "github.com/fergusstrange/embedded-postgres", code: []string{"internal/pgdev"}},
	{library: "github.com/riverqueue", code: []string{"river", "migrations", "cmd", "examples", "integration"}},
	{library: "go.opentelemetry.io", code: []string{"telemetry", "examples", "integration"}},
	{library: "github.com/google/go-cmp", tests: everything},
}

// standardOnly are the folders whose code imports nothing of others.
var standardOnly = []string{"engine"}

// testKits are packages whose code is for tests, whatever their files' names.
var testKits = []string{"engine/enginetest", "engine/storetest", "internal/pgtest", "internal/sequence"}

func TestImports(t *testing.T) {
	t.Parallel()
	wantNone(t, badImports(t, root))
}

func TestImportsFindsWrongOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, imported, want string }{
		"engine and an adapter":      {"engine/run.go", module + "/pgstore", "engine may not import pgstore"},
		"engine and pgx":             {"engine/internal/x/x.go", "github.com/jackc/pgx/v5", "engine imports the standard library only"},
		"a test of engine and pgx":   {"engine/run_test.go", "github.com/jackc/pgx/v5", "engine imports the standard library only"},
		"two adapters":               {"river/river.go", module + "/pgstore", "river may not import pgstore"},
		"two adapters in a test":     {"pgstore/store_test.go", module + "/river", "pgstore may not import river"},
		"an adapter and the test db": {"pgstore/store.go", module + "/internal/pgdev", "pgstore may not import internal"},
		"an unknown folder":          {"utils/x.go", "fmt", "utils has no direction"},
		"cobra":                      {"dashboard/x.go", "github.com/spf13/cobra", "reserved for cmd"},
		"goose":                      {"cmd/x/x.go", "github.com/pressly/goose/v3", "reserved for migrations"},
		"testcontainers":             {"internal/pgdev/x.go", "github.com/testcontainers/testcontainers-go/modules/postgres", "reserved for integration"},
		"embedded postgres":          {"cmd/x/x.go", "github.com/fergusstrange/embedded-postgres", "reserved for internal/pgdev"},
		"river in the store":         {"pgstore/x.go", "github.com/riverqueue/river/rivertype", "reserved for river"},
		"a test library in code":     {"engine/x.go", "github.com/google/go-cmp/cmp", "reserved for tests"},
		"a test library in a test":   {"engine/x_test.go", "github.com/google/go-cmp/cmp", ""},
		"a test library in a kit":    {"engine/storetest/x.go", "github.com/google/go-cmp/cmp", ""},
		"the test db in a test":      {"pgstore/x_test.go", module + "/internal/pgtest", ""},
		"the test db in the engine":  {"engine/x.go", module + "/internal/pgtest", "engine may not import internal"},
		"the server and the engine":  {"internal/pgdev/x.go", module + "/engine", "internal/pgdev may not import engine"},
		"a store and the migrator":   {"pgstore/x.go", module + "/migrations", "pgstore may not import migrations"},
		"a store and the version":    {"pgstore/x.go", module + "/migrations/schema", ""},
		"a package and its own":      {"internal/pgdev/x_test.go", module + "/internal/pgdev", ""},
		"a program":                  {"integration/x_test.go", module + "/river", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := fmt.Sprintf("package x\n\nimport _ %q\n", c.imported)
			got := badImports(t, fstest.MapFS{c.file: {Data: []byte(source)}})
			if c.want == "" {
				wantNone(t, got)
			} else if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.HasPrefix(got[0], c.file+":3: ") {
				t.Errorf("got %q, want one problem of %s:3 with %q", got, c.file, c.want)
			}
		})
	}
}

func TestDirectionsCoverTheFolders(t *testing.T) {
	t.Parallel()
	var folders []string
	for folder := range directions {
		if !strings.Contains(folder, "/") {
			folders = append(folders, folder)
		}
	}
	without := slices.DeleteFunc(slices.Clone(topLevel), func(name string) bool {
		return strings.ContainsAny(name, ".") || name == "docs" || name == "LICENSE" || name == "Makefile"
	})
	slices.Sort(folders)
	slices.Sort(without)
	if diff := cmp.Diff(without, folders); diff != "" {
		t.Errorf("folders at the top and folders with a direction differ: -top +directions\n%s", diff)
	}
}

// badImports lists the imports in repo that go against the rules above.
func badImports(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var found []string
	walk(t, repo, func(file string) {
		if path.Ext(file) != ".go" || strings.Contains(file, "testdata/") {
			return
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, read(t, repo, file), parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if problem := judge(file, imported); problem != "" {
				found = append(found, fmt.Sprintf("%s:%d: imports %s: %s", file, fset.Position(spec.Pos()).Line, imported, problem))
			}
		}
	})
	return found
}

// judge says what is wrong with an import in file, "" if nothing is.
func judge(file, imported string) string {
	folder, d := directionOf(file)
	if folder == "" {
		return path.Dir(file) + " has no direction in this test"
	}
	test := strings.HasSuffix(file, "_test.go") || isIn(file, testKits)
	switch inside, ours := strings.CutPrefix(imported, module+"/"); {
	case ours:
		if !allows(d.code, inside) && !(test && allows(d.tests, inside)) && !below(inside, folder) {
			to, _, _ := strings.Cut(inside, "/")
			return folder + " may not import " + to
		}
	case strings.Contains(imported, "."): // a domain name, so neither ours nor of the standard library
		return judgeLibrary(file, imported, test)
	}
	return ""
}

// directionOf finds the direction of the longest folder that file lies in.
func directionOf(file string) (folder string, d direction) {
	for folder = path.Dir(file); folder != "."; folder = path.Dir(folder) {
		if d, ok := directions[folder]; ok {
			return folder, d
		}
	}
	return "", direction{}
}

// judgeLibrary says what is wrong with a file's import of a library of others.
func judgeLibrary(file, imported string, test bool) string {
	for _, r := range reservations {
		switch {
		case !below(imported, r.library):
		case isIn(file, r.code) || test && (isIn(file, r.tests) || allows(r.tests, "")):
			return ""
		case len(r.code) == 0:
			return "reserved for tests"
		default:
			return "reserved for " + strings.Join(r.code, ", ")
		}
	}
	if isIn(file, standardOnly) {
		return "engine imports the standard library only"
	}
	return ""
}

// allows reports whether list has the folder that inside lies in, or everything.
func allows(list []string, inside string) bool {
	return isIn(inside, list) || slices.Equal(list, everything)
}

// isIn reports whether file lies below one of the folders.
func isIn(file string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return below(file, folder) })
}

// below reports whether name is top or lies below it.
func below(name, top string) bool { return name == top || strings.HasPrefix(name, top+"/") }

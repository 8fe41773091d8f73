package pgstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

// ofASession finds SQL that leaves something with its connection, behind which
// a pooler in transaction mode puts somebody else for the next transaction.
var ofASession = regexp.MustCompile(`(?i)\bpg_(try_)?advisory_(un)?lock|(^|[^\\-])\bset\s+(session\b|time\s+zone\b|\w+\s*(=|to\b))|` +
	`set_config\([^()]*,\s*false\)|\b(un)?listen\s+["\w]|\bcreate\s+(temp|temporary)\b|\bprepare\s+\w+\s*(\(|as\b)|\bdeclare\s+\w+\s+cursor\b`)

var ofAnUpdate = regexp.MustCompile(`(?is)\bupdate\b[^;]*$`)

// sessionState lists what a text has of it. The set of an update is none.
func sessionState(text string) (found []string) {
	for _, at := range ofASession.FindAllStringIndex(text, -1) {
		if !ofAnUpdate.MatchString(text[:at[0]]) {
			found = append(found, text[at[0]:at[1]])
		}
	}
	return found
}

var sqlComment = regexp.MustCompile(`--.*`)

// sqlIn is what may be SQL in a file: all of it but its comments, or the
// literals of a program.
func sqlIn(t *testing.T, file string) (texts []string) {
	t.Helper()
	switch filepath.Ext(file) {
	case ".sql":
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return []string{sqlComment.ReplaceAllString(string(text), "")}
	case ".go":
		program, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(program, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				texts = append(texts, l.Value)
			}
			return true
		})
	}
	return texts
}

// No statement of the product takes an advisory lock of a session, or needs
// anything else that a connection keeps between two transactions. Listening is
// River's own, on a connection that it asks for.
//
// spec: K-343, C-999
func TestNothingIsKeptWithASession(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"select pg_advisory_lock(1)", "select pg_try_advisory_lock(1)", "select pg_advisory_unlock($1)", "set statement_timeout = '1s'",
		"SET SESSION time zone to 'UTC'", "select set_config('lock_timeout', $1::text, false)", "listen reactor", "create temp table x ()",
		"prepare p as select 1", "declare c cursor for select 1", "declare c cursor with hold for select 1",
	} {
		if len(sessionState(bad)) == 0 {
			t.Errorf("%q is not found", bad)
		}
	}
	for _, dir := range []string{".", "../river", "../engine", "../migrations"} {
		err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			for _, text := range sqlIn(t, file) {
				if found := sessionState(text); len(found) > 0 {
					t.Errorf("%s: %q", file, found)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Ownership outlives the connections that it was taken over: once all of them
// are cut, the run is owned as before, by its token and the lease.
//
// spec: K-335, K-343
func TestOwnershipOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence, other := f.owned(), f.process(hour)
	f.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
	claims, err := f.store.Claim(t.Context(), claimOf(other, fence.Run))
	f.must(err)
	if len(claims.Claimed) > 0 || claims.Refused[0].Why != engine.WhyOwned {
		t.Errorf("claimed although it is owned: %+v", claims.Refused)
	}
	f.save(&fence, step("a", 1))
	f.complete(fence)
}

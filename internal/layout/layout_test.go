package layout

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// root is the repository, as the tests of this package see it.
var root = os.DirFS("../..")

// topLevel is everything that may lie at the top, and what it is for. A new
// folder is a decision: see docs/layout.md.
var topLevel = []string{
	".ci", "cmd", "dashboard", "docs", "engine", "examples", "integration", "internal",
	"locks", "migrations", "pgstore", "river", "telemetry",
	".gitattributes", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
	"go.mod", "go.sum", "go.work", "go.work.sum",
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	wantNone(t, strangers(t, root))
}

func TestTopLevelFindsStrangers(t *testing.T) {
	t.Parallel()
	repo := fstest.MapFS{
		".gitignore":       {Data: []byte("# built\n/bin/\n*.out\n")},
		".git/HEAD":        {},
		".idea/x":          {},
		"bin/tool":         {},
		"cover.out":        {},
		"engine/engine.go": {},
		"utils/strings.go": {},
		"notes.txt":        {},
	}
	want := []string{
		"notes.txt: not one of the files and folders of docs/layout.md",
		"utils: not one of the files and folders of docs/layout.md",
	}
	if diff := cmp.Diff(want, strangers(t, repo)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// strangers lists what lies at the top of repo and is not in topLevel.
func strangers(t *testing.T, repo fs.FS) []string {
	t.Helper()
	entries, err := fs.ReadDir(repo, ".")
	if err != nil {
		t.Fatal(err)
	}
	ignored := ignoredNames(t, repo)
	var found []string
	for _, e := range entries {
		name := e.Name()
		if !slices.Contains(topLevel, name) && !ignored(name) && !(e.IsDir() && hidden(name)) && name != ".git" {
			found = append(found, name+": not one of the files and folders of docs/layout.md")
		}
	}
	return found
}

// walk calls f for each file of repo that belongs to it: not what .gitignore
// names, and nothing in a hidden folder but that of CI.
func walk(t *testing.T, repo fs.FS, f func(file string)) {
	t.Helper()
	ignored := ignoredNames(t, repo)
	err := fs.WalkDir(repo, ".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || file == ".":
			return err
		case e.IsDir() && (ignored(file) || hidden(e.Name()) && file != ".ci"):
			return fs.SkipDir
		case e.Type().IsRegular() && !ignored(file) && file != ".git":
			f(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignoredNames reads the simple patterns of .gitignore, which are all it has:
// a name or a glob, at the top if it begins with a slash, else anywhere.
func ignoredNames(t *testing.T, repo fs.FS) func(file string) bool {
	t.Helper()
	text, err := fs.ReadFile(repo, ".gitignore")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	patterns := strings.Fields(strings.Join(linesWithout(string(text), "#"), "\n"))
	return func(file string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			name := path.Base(file)
			if strings.HasPrefix(p, "/") {
				name = file
			}
			matched, _ := path.Match(strings.Trim(p, "/"), name)
			return matched
		})
	}
}

// linesWithout leaves out the lines that begin with mark.
func linesWithout(text, mark string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, mark) })
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func read(t *testing.T, repo fs.FS, file string) string {
	t.Helper()
	text, err := fs.ReadFile(repo, file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantNone(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

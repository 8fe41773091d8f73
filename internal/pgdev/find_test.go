//go:build unix

package pgdev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// install makes a folder of programs; they say that they are of a version.
func install(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + " (for a test)'\n"
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOrderOfBinaries(t *testing.T) {
	t.Parallel()
	root := filepath.Dir(dataDir(t))
	linked := install(t, root+"/opt/pg/bin", "14.1")
	if err := os.MkdirAll(root+"/links", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(linked+"/initdb", root+"/links/initdb"); err != nil {
		t.Fatal(err)
	}
	nine := install(t, root+"/lib/postgresql/9.6/bin", "9.6")
	fifteen := install(t, root+"/lib/postgresql/15/bin", "15.18")
	seventeen := install(t, root+"/lib/postgresql/17/bin", "17.0")
	unfinished := install(t, root+"/lib/postgresql/18/bin", "18.0")
	if err := os.Remove(unfinished + "/initdb"); err != nil {
		t.Fatal(err)
	}
	brew := install(t, root+"/brew/postgresql@18/bin", "18.1")
	kept := install(t, root+"/cache/postgresql-18.3.0/bin", "18.3")

	s := search{
		path:   root + "/nothing" + string(filepath.ListSeparator) + root + "/links",
		places: []string{root + "/lib/postgresql/*/bin", root + "/brew/postgresql*/bin", root + "/cache/*/bin"},
	}
	order := []string{linked, seventeen, fifteen, nine, brew, kept}
	if diff := cmp.Diff(order, s.folders()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	who := here(t).who
	for major, dir := range map[string]string{"": linked, "15": fifteen, "18": brew} {
		if b, err := choose(t.Context(), s.folders(), who, major); err != nil || b.dir != dir {
			t.Errorf("for data of %q: %v, %v, want %s", major, b, err, dir)
		}
	}
	_, err := choose(t.Context(), []string{nine, fifteen}, who, "16")
	if err == nil || !strings.Contains(err.Error(), "the data is of PostgreSQL 16, and "+fifteen+" has 15.18") {
		t.Errorf("no server for the data: %v", err)
	}
}

func TestVersionIn(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":              15,
		"/opt/homebrew/opt/postgresql@17/bin":     17,
		"/opt/homebrew/opt/postgresql/bin":        0,
		"/usr/pgsql-9.6/bin":                      9,
		"/home/x1/.cache/y/postgresql-18.3.0/bin": 18,
	} {
		if got := versionIn(dir); got != want {
			t.Errorf("%s: got %d, want %d", dir, got, want)
		}
	}
}

func TestBinDir(t *testing.T) {
	t.Parallel()
	found := localSearch(t.TempDir()).folders()
	if len(found) == 0 {
		t.Fatal("this machine has no server binaries for this test")
	}
	s := start(t, Options{BinDir: found[0]})
	want(t, s.URL("postgres"), "select 1::text", "1")

	empty := t.TempDir()
	if _, err := Start(t.Context(), Options{BinDir: empty}); err == nil || !strings.Contains(err.Error(), empty) {
		t.Errorf("got %v, want an error that names %s", err, empty)
	}
}

func TestNotAServer(t *testing.T) {
	t.Parallel()
	dir := install(t, filepath.Dir(dataDir(t))+"/bin", "x")
	if _, err := Start(t.Context(), Options{BinDir: dir}); err == nil || !strings.Contains(err.Error(), "is not PostgreSQL") {
		t.Errorf("got %v", err)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	m := here(t)
	m.search = search{path: t.TempDir(), places: []string{"/nowhere/*/bin"}}
	_, err := m.start(t.Context(), Options{})
	if !errors.Is(err, ErrNoServer) {
		t.Fatalf("got %v", err)
	}
	for _, way := range []string{"/nowhere/*/bin", "apt-get install postgresql", "--database", "REACTOR_TEST_DATABASE_URL", "Docker", "downloaded"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not say %q: %v", way, err)
		}
	}
}

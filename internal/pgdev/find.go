package pgdev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoServer is wrapped by the error of Start when there are no server
// binaries to start; its text says what to do.
var ErrNoServer = errors.New("no PostgreSQL server on this machine")

// programs are what a folder of binaries must have.
var programs = []string{"postgres", "initdb", "pg_ctl"}

// packagePlaces are where packages put server binaries, outside PATH.
var packagePlaces = []string{
	"/usr/lib/postgresql/*/bin",     // Debian, Ubuntu
	"/usr/pgsql-*/bin",              // the project's own RPMs
	"/usr/lib/postgresql[0-9]*/bin", // SUSE
	"/usr/libexec/postgresql[0-9]*", // Alpine
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin", // Homebrew on Intel
	"/usr/local/pgsql/bin",           // built from source
}

// Binaries are the programs of one PostgreSQL server.
type binaries struct {
	dir     string
	version string // 17.2
}

// major is the version that a cluster belongs to.
func (b binaries) major() string {
	major, _, _ := strings.Cut(b.version, ".")
	return major
}

// A search knows where to look for server binaries.
type search struct {
	path   string   // as the environment variable PATH
	places []string // patterns of folders
}

// localSearch looks on this machine, last where downloads are kept.
func localSearch(cache string) search {
	return search{path: os.Getenv("PATH"), places: append(slices.Clone(packagePlaces), filepath.Join(cache, "*", "bin"))}
}

// folders lists the folders with a complete set of programs: those of PATH
// first, then place by place, in each the newest version first.
func (s search) folders() []string {
	var found []string
	add := func(dir string) {
		if complete(dir) && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	for _, dir := range filepath.SplitList(s.path) {
		for _, program := range programs {
			if target, err := filepath.EvalSymlinks(filepath.Join(dir, program)); err == nil {
				add(filepath.Dir(target))
			}
		}
	}
	for _, place := range s.places {
		dirs, _ := filepath.Glob(place) // only a malformed pattern is an error
		slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
		for _, dir := range dirs {
			add(dir)
		}
	}
	return found
}

// String is where a search looks, for people.
func (s search) String() string { return "PATH, " + strings.Join(s.places, ", ") }

// complete reports whether a folder has all programs.
func complete(dir string) bool {
	return !slices.ContainsFunc(programs, func(program string) bool {
		info, err := os.Stat(filepath.Join(dir, program))
		return err != nil || info.IsDir() || info.Mode()&0o111 == 0
	})
}

var numberIn = regexp.MustCompile(`\d+(\.\d+)*`)

// versionIn is the major version in the name of a folder, 0 without one.
func versionIn(dir string) int {
	numbers := numberIn.FindAllString(dir, -1)
	if len(numbers) == 0 {
		return 0
	}
	major, _, _ := strings.Cut(numbers[len(numbers)-1], ".")
	version, _ := strconv.Atoi(major)
	return version
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+(?:\.\d+|\w+)?)`)

// probe asks the server binary for its version, as who will run it.
func probe(ctx context.Context, dir string, who *account) (binaries, error) {
	command := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	command.Dir = "/"
	command.Env = environment()
	command.SysProcAttr = detached(who)
	out, err := command.Output()
	if ctx.Err() != nil {
		return binaries{}, ctx.Err()
	}
	if err != nil {
		return binaries{}, fmt.Errorf("%s can't run %s: %w", who.who(), command.Path, err)
	}
	m := versionText.FindSubmatch(bytes.TrimSpace(out))
	if m == nil {
		return binaries{}, fmt.Errorf("%s --version says %q, which is not PostgreSQL", command.Path, out)
	}
	return binaries{dir: dir, version: string(m[1])}, nil
}

// choose takes the first of the folders whose server runs, and whose major
// version is that of the cluster if there is one. Without one the error says
// what is wrong with each of them.
func choose(ctx context.Context, dirs []string, who *account, major string) (binaries, error) {
	var problems error
	for _, dir := range dirs {
		b, err := probe(ctx, dir, who)
		switch {
		case err != nil:
			problems = errors.Join(problems, err)
		case major != "" && b.major() != major:
			problems = errors.Join(problems, fmt.Errorf("the data is of PostgreSQL %s, and %s has %s", major, dir, b.version))
		default:
			return b, nil
		}
	}
	return binaries{}, problems
}

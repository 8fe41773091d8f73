package layout

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// leftovers are texts that mean nothing to a reader of the repository: paths
// of somebody's machine, and pointers to places that are not in it. They are
// put together here, so that this file does not hold them.
var leftovers = []string{"../" + "shared", "/" + "work/", "issue " + "#"}

func TestNoLeftovers(t *testing.T) {
	t.Parallel()
	wantNone(t, findLeftovers(t, root))
}

func TestNoLeftoversFindsThem(t *testing.T) {
	t.Parallel()
	repo := fstest.MapFS{
		"docs/a.md":  {Data: []byte("fine\nsee " + leftovers[0] + "/spec\n")},
		"x.go":       {Data: []byte("// " + leftovers[2] + "12\n")},
		"image.png":  {Data: []byte("\x00" + leftovers[1])},
		"go.sum":     {Data: []byte(leftovers[1])},
		"network.md": {Data: []byte("network/x\n")},
	}
	want := []string{
		`docs/a.md:2: has "` + leftovers[0] + `"`,
		`x.go:1: has "` + leftovers[2] + `"`,
	}
	if diff := cmp.Diff(want, findLeftovers(t, repo)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func findLeftovers(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var found []string
	walk(t, repo, func(file string) {
		text := read(t, repo, file)
		if strings.ContainsRune(text, 0) || path.Ext(file) == ".sum" {
			return
		}
		for i, line := range strings.Split(text, "\n") {
			for _, leftover := range leftovers {
				if strings.Contains(line, leftover) {
					found = append(found, fmt.Sprintf("%s:%d: has %q", file, i+1, leftover))
				}
			}
		}
	})
	return found
}

func TestLinks(t *testing.T) {
	t.Parallel()
	wantNone(t, deadLinks(t, root))
}

func TestLinksFindsDeadOnes(t *testing.T) {
	t.Parallel()
	repo := fstest.MapFS{
		"README.md": {Data: []byte(strings.Join([]string{
			"# Title",
			"[good](docs/a.md) [folder](docs) [here](#title) [web](https://example.com/x)",
			"[gone](docs/b.md)",
			"`[code](docs/c.md)` and [`name`](docs/d.md)",
			"```go",
			"f[T](nothing.md)",
			"```",
			"[out](../x.md)",
		}, "\n"))},
		"docs/a.md": {Data: []byte("## What `it` is, in 3 lines\n[ok](../README.md#title) [ok](#what-it-is-in-3-lines) [no](../README.md#tittle)\n")},
	}
	want := []string{
		"README.md:3: docs/b.md does not exist",
		"README.md:4: docs/d.md does not exist",
		"README.md:8: ../x.md does not exist",
		"docs/a.md:2: README.md has no heading #tittle",
	}
	if diff := cmp.Diff(want, deadLinks(t, repo)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	heading  = regexp.MustCompile(`^#{1,6} +(.*)$`)
)

// deadLinks lists the links between files of repo that lead nowhere.
func deadLinks(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var found []string
	walk(t, repo, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		for i, line := range prose(read(t, repo, file)) {
			for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				if problem := follow(t, repo, file, m[1]); problem != "" {
					found = append(found, fmt.Sprintf("%s:%d: %s", file, i+1, problem))
				}
			}
		}
	})
	return found
}

// follow says what is wrong with a link in file, "" if nothing is. Links to
// the web are not followed.
func follow(t *testing.T, repo fs.FS, file, target string) string {
	t.Helper()
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	name, anchor, hasAnchor := strings.Cut(target, "#")
	to := file
	if name != "" {
		to = path.Join(path.Dir(file), name)
	}
	if _, err := fs.Stat(repo, to); err != nil {
		return to + " does not exist"
	}
	if hasAnchor && !headings(read(t, repo, to))[anchor] {
		return to + " has no heading #" + anchor
	}
	return ""
}

// prose is the lines of a document, with those in code fences emptied.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// headings are the anchors that a document has, as GitHub names them.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range prose(text) {
		if m := heading.FindStringSubmatch(line); m != nil {
			anchors[strings.Map(anchorRune, m[1])] = true
		}
	}
	return anchors
}

func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
		return unicode.ToLower(r)
	}
	return -1
}

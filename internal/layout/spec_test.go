package layout

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// mark begins the comment with which a test names the requirements that it
// proves. It is put together, so that this file has no such comment.
const mark = "// " + "spec:"

// mostNumbers is how many requirements one comment may name: a test that is
// said to prove more proves none of them well.
const mostNumbers = 8

func TestSpecComments(t *testing.T) {
	t.Parallel()
	wantNone(t, badSpecComments(t, root))
}

func TestSpecCommentsFindsBadOnes(t *testing.T) {
	t.Parallel()
	comments := []string{
		mark + " C-1, C-2, K-7", // fine
		mark + " C-1..C-8",      // eight: fine
		mark + " C-1..C-8, K-7",
		mark + " K-1..9",
		mark + " C-99",
		mark + " later",
		"// C-99 without the mark",
	}
	repo := fstest.MapFS{
		"docs/spec/core.md":         {Data: []byte("**C-1** **C-2** **C-8**")},
		"docs/spec/coordination.md": {Data: []byte("| **K-1** | **K-7** |\n- **K-9** x")},
		"engine/x_test.go":          {Data: []byte(strings.Join(comments, "\n"))},
	}
	want := []string{
		"engine/x_test.go:3: names 9 requirements, 8 is the most: split the test",
		"engine/x_test.go:4: names 9 requirements, 8 is the most: split the test",
		"engine/x_test.go:5: C-99 is not in docs/spec",
		"engine/x_test.go:6: names no requirement",
	}
	if diff := cmp.Diff(want, badSpecComments(t, repo)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var (
	requirement = regexp.MustCompile(`\*\*([CK]-\d+)\*\*`)
	number      = regexp.MustCompile(`\b([CK])-(\d+)(?:\s*(?:\.\.|–|to)\s*(?:[CK]-)?(\d+))?`)
)

// badSpecComments lists the comments in repo that name no, too many or
// unknown requirements.
func badSpecComments(t *testing.T, repo fs.FS) []string {
	t.Helper()
	known := requirements(t, repo)
	var found []string
	walk(t, repo, func(file string) {
		if path.Ext(file) != ".go" {
			return
		}
		for i, line := range strings.Split(read(t, repo, file), "\n") {
			_, comment, marked := strings.Cut(line, mark)
			if !marked {
				continue
			}
			for _, problem := range judgeComment(comment, known) {
				found = append(found, fmt.Sprintf("%s:%d: %s", file, i+1, problem))
			}
		}
	})
	return found
}

// requirements are the numbers that the specification gives.
func requirements(t *testing.T, repo fs.FS) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, file := range []string{"docs/spec/core.md", "docs/spec/coordination.md"} {
		for _, m := range requirement.FindAllStringSubmatch(read(t, repo, file), -1) {
			known[m[1]] = true
		}
	}
	return known
}

// judgeComment says what is wrong with what follows the mark. Of a range both
// ends must be requirements; the numbers between may have gaps and count.
func judgeComment(comment string, known map[string]bool) (problems []string) {
	count := 0
	for _, m := range number.FindAllStringSubmatch(comment, -1) {
		from, _ := strconv.Atoi(m[2])
		to := from
		if m[3] != "" {
			to, _ = strconv.Atoi(m[3])
		}
		count += max(0, to-from) + 1
		for _, n := range slices.Compact([]int{from, to}) {
			if id := fmt.Sprintf("%s-%d", m[1], n); !known[id] {
				problems = append(problems, id+" is not in docs/spec")
			}
		}
	}
	switch {
	case count == 0:
		problems = append(problems, "names no requirement")
	case count > mostNumbers:
		problems = append(problems, fmt.Sprintf("names %d requirements, %d is the most: split the test", count, mostNumbers))
	}
	return problems
}

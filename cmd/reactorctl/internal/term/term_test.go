package term

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ä and 世界":           "plain, ä and 世界",
		"a\x1b[31mred\x1b[0m":       `a\x1b[31mred\x1b[0m`,
		"two\nlines\tand a tab\r":   `two\nlines\tand a tab\r`,
		"c1 \u009b and bad \xff":    `c1 \u009b and bad \ufffd`,
		"right-to-left \u202e here": `right-to-left \u202e here`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 3, ""}} {
		if got := Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 40) + strings.Repeat("x", 100)
	lines := strings.Split(strings.Repeat(" ", 6)+Wrap(text, 6), "\n")
	if len(lines) < 3 || strings.Join(strings.Fields(strings.Join(lines, " ")), " ") != text {
		t.Errorf("the words have changed: %q", lines)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "      ") || i < len(lines)-1 && utf8.RuneCountInString(line) > Width {
			t.Errorf("line %d is not indented or too long: %q", i, line)
		}
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	got := OneLine("no server. Ways to get one:\n\tinstall it\n\n\tuse --database\n")
	if want := "no server. Ways to get one: install it; use --database"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Minute: "just now", 0: "just now", 59 * time.Second: "59s ago", 3 * time.Minute: "3m ago",
		47 * time.Hour: "47h ago", 49 * time.Hour: "2d ago",
	} {
		if got := Ago(now, now.Add(-d)); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
	if got := Ago(now, time.Time{}); got != "-" {
		t.Errorf("no time: got %q", got)
	}
	if got := Moment(now.In(time.FixedZone("x", 7200))); got != "2026-01-31 12:00:00 UTC" {
		t.Errorf("moment: got %q", got)
	}
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond: "1.2ms", 1234567 * time.Microsecond: "1.235s", 61500 * time.Millisecond: "1m2s",
	} {
		if got := Took(now, now.Add(d)); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestSizesAndCounts(t *testing.T) {
	t.Parallel()
	got := []string{Size(12), Size(1536), Size(3 << 20), Count(1, "run", "runs"), Count(0, "run", "runs")}
	want := []string{"12 bytes", "1.5 KiB", "3.0 MiB", "1 run", "0 runs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table{Head: []string{"A", "LONG HEAD", "C"}}
	table.Add(Cell{Text: "äöü"}, Cell{Text: "x", Color: Red}, Cell{Text: "end"})
	table.Note(strings.Repeat("n", 100))
	table.Add(Cell{Text: "1"}, Cell{Text: "2"}, Cell{Text: "3"})
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "A    LONG HEAD  C\näöü  x          end\n  " + strings.Repeat("n", 77) + "…\n1    2          3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	out.Reset()
	table.Colored = true
	if err := table.Write(&out); err != nil || !strings.Contains(out.String(), "\x1b[31mx\x1b[0m          end") {
		t.Errorf("colours change the widths, or are not there: %q, %v", out.String(), err)
	}
}

func TestFirstErrorIsKept(t *testing.T) {
	t.Parallel()
	p := &Printer{Out: full{}}
	p.Printf("x")
	p.Out = &strings.Builder{}
	p.Printf("y")
	if !errors.Is(p.Err, errFull) || p.Out.(*strings.Builder).Len() > 0 {
		t.Errorf("got %v, and %q was written after it", p.Err, p.Out)
	}
}

var errFull = errors.New("the disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if IsTerminal(file) || IsTerminal(&strings.Builder{}) {
		t.Error("a file and a buffer are no terminals")
	}
}

package ctl

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// The test binary is also the program of the demo's workers.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "demo-worker" {
		os.Exit(Main(context.Background(), os.Args[1:], Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}))
	}
	pgtest.Main(m)
}

var update = flag.Bool("update", false, "write the golden files anew")

// A said is what a call of reactorctl came to.
type said struct {
	code     int
	out, err string
}

// call calls reactorctl without a terminal and without an environment.
func call(t *testing.T, args ...string) said {
	t.Helper()
	var out, messages bytes.Buffer
	code := Main(t.Context(), args, Console{In: strings.NewReader(""), Out: &out, Err: &messages, Env: func(string) string { return "" }})
	return said{code, out.String(), messages.String()}
}

// want checks the exit code, that a message is one line, and what it has.
func (s said) want(t *testing.T, code int, message string) {
	t.Helper()
	if s.code != code || !strings.Contains(s.err, message) || message == "" && s.err != "" {
		t.Errorf("exit code %d, message %q, want code %d and a message with %q", s.code, s.err, code, message)
	}
	if strings.Count(s.err, "\n") > 1 {
		t.Errorf("the message has more than one line: %q", s.err)
	}
	if strings.Contains(s.err, "SQLSTATE") || strings.Contains(s.out, "SQLSTATE") {
		t.Errorf("SQLSTATE is shown: %q %q", s.out, s.err)
	}
}

// varying is what differs from call to call, and how a golden file has it.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)`), "TIME"},
	{regexp.MustCompile(`\b(after|took) [\d.]+(ms|µs|s)\b`), "$1 SPAN"},
	{regexp.MustCompile(`\([\dhms.µ]+ ago\)`), "(AGO)"},
	{regexp.MustCompile(`\b(\d+s ago|just now)`), "AGO"},
	{regexp.MustCompile(`\(in [\dhms.]+\)`), "(in SPAN)"},
	{regexp.MustCompile(`"next": "[^"]+"`), `"next": "CURSOR"`},
	{regexp.MustCompile(`process \d+ on \S+, up \d+s,`), "process PID on HOST, up SPAN,"},
	{regexp.MustCompile(`process [0-9a-f-]{36} on \S+,`), "process ID on HOST,"},
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.pattern.ReplaceAllString(got, v.with)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got (-update writes it anew)\n%s", file, diff)
	}
}

// unwrapped is text in one line: where it was wrapped depends on the time.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") + "\n" }

// wantNarrow checks that a page fits.
func wantNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line has %d characters: %q", n, line)
		}
	}
}

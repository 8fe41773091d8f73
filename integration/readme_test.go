package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// programs are the whole programs in the README, word for word.
func programs(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, block := range regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, block[1])
	}
	if len(all) != 2 {
		t.Fatalf("%d programs in the README, want hello world and the existing-app recipe", len(all))
	}
	return all
}

// build compiles a program in a module of its own that requires ours, as a
// user's would.
func build(t *testing.T, source string) (program string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(mod), "module example.com/app")
	text += "\nrequire github.com/pgreactor/reactor v0.0.0\n\nreplace github.com/pgreactor/reactor => " + root + "\n"
	for name, content := range map[string]string{"go.mod": text, "go.sum": string(sum), "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-mod=mod", "-o", "app", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "app")
}

func TestReadmeHelloWorld(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(build(t, programs(t)[0])).CombinedOutput()
	if err != nil || string(out) != "Hello, Ada! <nil>\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestReadmeExistingApp(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(build(t, programs(t)[1]))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+pgtest.Empty(t))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Hello, Ada! <nil>\n") {
		t.Errorf("%v: %s", err, out)
	}
}

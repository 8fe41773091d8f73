package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pgreactor/reactor/internal/pgdev"
)

// URLVariable is the environment variable with the URL of a server for tests.
const URLVariable = "REACTOR_TEST_DATABASE_URL"

// Fallback gives a server where there are neither a URL nor server binaries;
// stop ends it. A package that has one sets it before Main. It is nil by
// default.
var Fallback func(ctx context.Context) (url string, stop func(), err error)

// shared is the harness of this test process.
var shared *harness

// Main runs the tests of a package and exits. The exit code is not 0 if a test
// failed, or if the log of the server shows what must not happen.
func Main(m *testing.M) {
	// Read within the tests, so that go test knows its cached results by it.
	given := func() string { return os.Getenv(URLVariable) }
	shared = newHarness(given, pgdev.Start, Fallback)
	os.Exit(shared.run(m))
}

// run runs the tests, and afterwards ends what they needed.
func (h *harness) run(m interface{ Run() int }) int {
	code := m.Run()
	for _, problem := range h.close() {
		fmt.Fprintln(h.out, "pgtest:", problem)
		code = max(code, 1)
	}
	return code
}

// sharedFor is the started harness, for a test.
func sharedFor(t testing.TB) *harness {
	t.Helper()
	if shared == nil {
		t.Fatal("pgtest: this package needs func TestMain(m *testing.M) { pgtest.Main(m) }")
	}
	if err := shared.begin(); err != nil {
		t.Fatal(err)
	}
	return shared
}

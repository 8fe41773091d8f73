//go:build unix

package pgdev

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ownerEnv makes the test binary the owner of a server: its value is the data
// folder, or temporaryServer.
const (
	ownerEnv        = "PGDEV_TEST_OWNER"
	temporaryServer = "temporary"
)

func TestMain(m *testing.M) {
	if dataDir := os.Getenv(ownerEnv); dataDir != "" {
		ownServer(strings.TrimPrefix(dataDir, temporaryServer))
	}
	os.Exit(m.Run())
}

// An owned is what an owner tells of its server.
type owned struct {
	URL, Folder string
	Keeper      int
	Server      string
}

// ownServer starts a server, tells of it on standard output, and waits to be
// killed.
func ownServer(dataDir string) {
	s, err := Start(context.Background(), Options{DataDir: dataDir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	told := owned{URL: s.URL("postgres"), Folder: s.Folder(), Keeper: s.keeper.process.Process.Pid, Server: s.folder.pid()}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		os.Exit(1)
	}
	select {}
}

// start starts a server that ends with the test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dataDir is a new folder that the account of a server can reach, as that of
// t.TempDir can't be reached under every TMPDIR.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgdev-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir + "/data"
}

// query runs a statement over a connection of its own and gives the one value
// of its one row.
func query(t *testing.T, url, statement string) (value string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	err = conn.QueryRow(t.Context(), statement).Scan(&value)
	return value, err
}

// want is query for statements that must answer so.
func want(t *testing.T, url, statement, value string) {
	t.Helper()
	got, err := query(t, url, statement)
	if err != nil || got != value {
		t.Errorf("%s: got %q, %v, want %q", statement, got, err, value)
	}
}

// keep writes what the query "select x from kept" finds.
func keep(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "create table kept as select 'here' as x"); err != nil {
		t.Fatal(err)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(40 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not so in time: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// alive reports whether a process exists and is more than a zombie.
func alive(pid string) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

//go:build unix

package pgdev

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestTemporaryServer(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Settings: map[string]string{"application_name": `it's a \ test`}})
	url, pid := s.URL("postgres"), s.folder.pid()
	want(t, url, "select 1::text", "1")
	want(t, url, "show listen_addresses", "127.0.0.1")
	want(t, url, "show fsync", "off")
	want(t, url, "show application_name", `it's a \ test`)
	want(t, url, "select split_part(current_setting('server_version'), ' ', 1)", s.Version())

	if _, err := query(t, strings.Replace(url, s.password, "guess", 1), "select ''"); err == nil {
		t.Error("a wrong password is accepted")
	}
	if log, err := os.ReadFile(s.LogFile()); err != nil || !strings.Contains(string(log), "ready to accept connections") {
		t.Errorf("log of the server: %v\n%s", err, log)
	}

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's process is gone", func() bool { return !alive(pid) })
	if exists(s.Folder()) {
		t.Errorf("%s is still there", s.Folder())
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	info, err := os.Stat(s.folder.file("data/postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 {
		t.Error("the server's files are root's")
	}
}

// Root goes on with a folder as the user who has it.
func TestFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	if err := start(t, Options{DataDir: dir}).Stop(); err != nil {
		t.Fatal(err)
	}
	who, err := chooseAccount(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	if os.Geteuid() == 0 && (who == nil || who.uid != uid) || os.Geteuid() != 0 && who != nil {
		t.Errorf("the folder is that of user %d, the account is %+v", uid, who)
	}
}

func TestKeptServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, Options{DataDir: dir})
	want(t, first.URL("postgres"), "show fsync", "on")
	keep(t, first.URL("postgres"))
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := start(t, Options{DataDir: dir, Port: first.port})
	if second.URL("postgres") != first.URL("postgres") {
		t.Error("the same port gives another URL")
	}
	want(t, second.URL("postgres"), "select x from kept", "here")
}

func TestDataFolderInUse(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, Options{DataDir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := Start(ctx, Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "process "+s.folder.pid()) {
		t.Errorf("got %v, want an error that names %s and process %s", err, dir, s.folder.pid())
	}
	want(t, s.URL("postgres"), "select 1::text", "1")
}

func TestStrangeDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/thesis.txt", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), dir+" is not empty") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Fast, Immediate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{})
			pid := s.folder.pid()
			conn := connect(t, s)
			keep(t, s.URL("postgres"))
			if err := s.Restart(mode); err != nil {
				t.Fatal(err)
			}
			if err := conn.Ping(t.Context()); err == nil {
				t.Error("a session survived")
			}
			if s.folder.pid() == pid {
				t.Error("the server is the same process")
			}
			want(t, s.URL("postgres"), "select x from kept", "here")
		})
	}
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestDownAndUp(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	if err := s.Down(Fast); err != nil {
		t.Fatal(err)
	}
	if _, err := query(t, s.URL("postgres"), "select ''"); err == nil {
		t.Error("it answers although it is down")
	}
	if err := s.Signal(syscall.SIGKILL); err == nil {
		t.Error("a signal reached a server that is down")
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	want(t, s.URL("postgres"), "select 1::text", "1")
}

func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	pid := s.folder.pid()
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's process is gone", func() bool { return !alive(pid) })
	eventually(t, "it is up again", func() bool { return s.Up() == nil }) // its backends take a moment to end
	want(t, s.URL("postgres"), "select 1::text", "1")
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	busy := listener.Addr().(*net.TCPAddr).Port

	_, err = Start(t.Context(), Options{Port: busy})
	if !errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), strconv.Itoa(busy)) {
		t.Errorf("got %v, want an error that names port %d", err, busy)
	}

	m := here(t)
	calls := 0
	m.freePort = func() (int, error) { // the first was free, and then somebody came
		calls++
		if calls == 1 {
			return busy, nil
		}
		return freePort()
	}
	s, err := m.start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if calls != 2 {
		t.Errorf("%d ports were tried, want 2", calls)
	}
	want(t, s.URL("postgres"), "select 1::text", "1")
}

// here is this machine, to be made poorer.
func here(t *testing.T) machine {
	t.Helper()
	who, err := chooseAccount("")
	if err != nil {
		t.Fatal(err)
	}
	return machine{who: who, search: localSearch(t.TempDir()), freePort: freePort}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"a value":       {map[string]string{"max_connections": "many"}, `invalid value for parameter "max_connections"`},
		"a name":        {map[string]string{"Fsync = off\nx": "1"}, "not a name of a setting"},
		"several lines": {map[string]string{"application_name": "a\nport = 1"}, "application_name: its value has more than one line"},
		"the port":      {map[string]string{"port": "1"}, "Options.Port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Start(t.Context(), Options{Settings: c.settings}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestContextOfStart(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() {
		_, err := Start(ctx, Options{DataDir: dir})
		started <- err
	}()
	eventually(t, "initdb is at work", func() bool { return exists(dir + "/data.new") })
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	s := start(t, Options{DataDir: dir})
	want(t, s.URL("postgres"), "select 1::text", "1")
}

func TestFolderOutOfReach(t *testing.T) {
	t.Parallel()
	closed := filepath.Dir(dataDir(t))
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{DataDir: closed + "/data"})
	if os.Geteuid() == 0 { // the server's account is another one
		if err == nil || !strings.Contains(err.Error(), "can't enter "+closed+"/data") {
			t.Errorf("got %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

//go:build unix

package pgdev

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// own starts an owner in a process group of its own.
func own(t *testing.T, dataDir string) (*exec.Cmd, owned) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dataDir)
	owner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	owner.Stderr = os.Stderr
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Process.Kill(); owner.Wait() })
	var told owned
	if err := json.NewDecoder(bufio.NewReader(output)).Decode(&told); err != nil {
		t.Fatalf("the owner did not start a server: %v", err)
	}
	want(t, told.URL, "select 1::text", "1")
	return owner, told
}

func wantGone(t *testing.T, told owned) {
	t.Helper()
	eventually(t, "the server is gone", func() bool { return !alive(told.Server) })
	eventually(t, "the keeper is gone", func() bool { return !alive(strconv.Itoa(told.Keeper)) })
}

func TestKilledOwner(t *testing.T) {
	t.Parallel()
	owner, told := own(t, temporaryServer)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, told)
	if exists(told.Folder) {
		t.Errorf("%s is still there", told.Folder)
	}
}

// A terminal, or a CI that gives up, kills the whole process group.
func TestKilledGroup(t *testing.T) {
	t.Parallel()
	owner, told := own(t, temporaryServer)
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if err := syscall.Kill(told.Keeper, signal); err != nil {
			t.Fatal(err)
		}
	}
	want(t, told.URL, "select 1::text", "1")
	if err := syscall.Kill(-owner.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantGone(t, told)
	if exists(told.Folder) {
		t.Errorf("%s is still there", told.Folder)
	}
}

func TestKilledOwnerOfKeptServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner, told := own(t, dir)
	keep(t, told.URL)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{DataDir: dir}) // waits for the server of the dead one
	wantGone(t, told)
	want(t, s.URL("postgres"), "select x from kept", "here")
}

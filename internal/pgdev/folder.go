package pgdev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errBusy is a folder whose server runs already.
var errBusy = errors.New("in use by another server")

// A folder is where a server has everything:
//
//	data/         the cluster, in the form that initdb gives it
//	server.conf   our settings, written anew at every start
//	server.log    what the server says
//	password      of the user postgres
//	keeper.sh     what holds the server
//	lock          held while a keeper or a server works here
//	command.log   output of the last pg_ctl or initdb
type folder struct {
	path      string
	temporary bool
	owner     *account
}

// lockWait is how long to wait for the server of an owner that was just killed.
const lockWait = 20 * time.Second

// openFolder makes the folder of a server, or opens the one at dataDir.
func openFolder(dataDir string, owner *account) (folder, error) {
	if dataDir == "" {
		return temporaryFolder(owner)
	}
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return folder{}, fmt.Errorf("data folder of the server: %w", err)
	}
	f := folder{path: path, owner: owner}
	if err := f.checkOurs(); err != nil {
		return folder{}, err
	}
	return f, f.furnish()
}

// temporaryFolder makes a folder in the first place that the owner can enter.
func temporaryFolder(owner *account) (folder, error) {
	var problem error
	for _, place := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		path, err := os.MkdirTemp(place, "pgdev-")
		if err != nil {
			problem = errors.Join(problem, err)
			continue
		}
		f := folder{path: path, temporary: true, owner: owner}
		if err = f.furnish(); err == nil {
			return f, nil
		}
		problem = errors.Join(problem, err, os.RemoveAll(path))
	}
	return folder{}, fmt.Errorf("temporary folder for a server: %w", problem)
}

// checkOurs refuses a folder with anything in it that we did not put there.
func (f folder) checkOurs() error {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil {
		_, err = os.Stat(f.file("password"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder %s is not empty, and what it has is not from here: give an empty or a new folder", f.path)
	}
	if err != nil {
		return fmt.Errorf("data folder of the server: %w", err)
	}
	return nil
}

// furnish makes what the keeper needs and sees that the owner can enter.
func (f folder) furnish() error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return fmt.Errorf("data folder of the server: %w", err)
	}
	if _, err := os.Stat(f.file("password")); errors.Is(err, fs.ErrNotExist) {
		if err := f.write("password", rand.Text()+"\n"); err != nil {
			return err
		}
	}
	if err := f.give(f.path); err != nil {
		return err
	}
	enter := exec.Command("/bin/sh", "-c", ":")
	enter.Dir = f.path
	enter.SysProcAttr = detached(f.owner)
	if err := enter.Run(); err != nil {
		return fmt.Errorf("%s can't enter %s: give a folder that it can reach, outside the home of another user", f.owner.who(), f.path)
	}
	return nil
}

// who is the account as people read it.
func (a *account) who() string {
	if a == nil {
		return "this user"
	}
	return "user " + a.name
}

func (f folder) file(name string) string { return filepath.Join(f.path, name) }

// write replaces a file of the folder, readable by its owner alone.
func (f folder) write(name, text string) error {
	if err := os.WriteFile(f.file(name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write for the server: %w", err)
	}
	return f.give(f.file(name))
}

// give makes the owner of the folder the owner of a path in it.
func (f folder) give(path string) error {
	if f.owner == nil {
		return nil
	}
	if err := os.Chown(path, f.owner.uid, f.owner.gid); err != nil {
		return fmt.Errorf("give to %s: %w", f.owner.who(), err)
	}
	return nil
}

// read is the trimmed text of a file of the folder, "" if it can't be read.
func (f folder) read(name string) string {
	text, _ := os.ReadFile(f.file(name))
	return strings.TrimSpace(string(text))
}

// initialised reports whether there is a complete cluster.
func (f folder) initialised() bool { return f.major() != "" }

// major is the major version that the cluster was made by, "" without one.
func (f folder) major() string { return f.read("data/PG_VERSION") }

// pid is the process id of the server as it says itself, "" if none runs.
func (f folder) pid() string {
	first, _, _ := strings.Cut(f.read("data/postmaster.pid"), "\n")
	return first
}

// lock locks the folder. It waits for a server whose owner is gone to end.
func (f folder) lock(ctx context.Context) (*os.File, error) {
	file, err := os.OpenFile(f.file("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder of the server: %w", err)
	}
	if err := f.give(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for !lockFile(file) {
		select {
		case <-ctx.Done():
			return nil, errors.Join(f.busy(), file.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return file, nil
}

// busy is the error for a folder in which a server runs that is not ours.
func (f folder) busy() error {
	return fmt.Errorf("data folder %s is %w (process %s): stop that one or give another folder", f.path, errBusy, f.pid())
}

//go:build unix

package pgdev

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An account is who the server runs as; nil is the user of this process.
// PostgreSQL refuses to run as root, so root needs another one.
type account struct {
	name     string
	uid, gid int
}

// chooseAccount is the account for a server: nil unless this is root; then the
// owner of the data folder, if that is there and not root's, else postgres or
// nobody.
func chooseAccount(dataDir string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(dataDir); dataDir != "" && err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return &account{nameOf(stat.Uid), int(stat.Uid), int(stat.Gid)}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return newAccount(found)
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as: add one, or work as an ordinary user")
}

func newAccount(u *user.User) (*account, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &account{u.Username, uid, gid}, nil
}

// nameOf is the name of a user, or its number if it has none.
func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return id
}

// detached starts a process as the account, in a session of its own: what a
// terminal or a shell sends to our process group does not reach it.
func detached(a *account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// lockFile takes the lock of a file for as long as it is open anywhere; false
// if somebody else has it.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

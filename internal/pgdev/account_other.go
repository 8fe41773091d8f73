//go:build !unix

package pgdev

import (
	"errors"
	"os"
	"syscall"
)

// An account is who the server runs as.
type account struct {
	name     string
	uid, gid int
}

func chooseAccount(string) (*account, error) {
	return nil, errors.New("starting a PostgreSQL server needs a Unix-like system: give a database that is there (--database, or for tests REACTOR_TEST_DATABASE_URL)")
}

func detached(*account) *syscall.SysProcAttr { return nil }

func lockFile(*os.File) bool { return false }

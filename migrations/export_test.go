package migrations

import (
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
)

// What the tests, which are outside the package, need to see of it.
const (
	LockKey     = lockKey
	LockTimeout = lockTimeout
	RiverMark   = riverMark
)

// NewWithFiles is New with migrations of the test's own.
func NewWithFiles(pool *pgxpool.Pool, o Options, files fs.FS) (*Migrator, error) {
	m, err := New(pool, o)
	if err != nil {
		return nil, err
	}
	all, err := readFiles(files)
	if err != nil {
		return nil, err
	}
	m.files, m.latest = files, all[len(all)-1].version
	return m, nil
}

// SQLOfFiles is SQL with migrations of the test's own.
func SQLOfFiles(w io.Writer, s Script, files fs.FS) error {
	all, err := readFiles(files)
	if err != nil {
		return err
	}
	return s.print(w, all)
}

// Versions are those of the embedded files.
func Versions() ([]int64, error) {
	sub, err := fs.Sub(embedded, "sql")
	if err != nil {
		return nil, err
	}
	all, err := readFiles(sub)
	versions := make([]int64, len(all))
	for i, f := range all {
		versions[i] = f.version
	}
	return versions, err
}

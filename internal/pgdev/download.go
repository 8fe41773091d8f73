package pgdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadVersion is the server that a download fetches.
const downloadVersion = embeddedpostgres.V18

// A download fetches server binaries once.
type download struct {
	cache      string // where they are kept
	repository string // "" is the library's own, a Maven repository on the web
}

// cacheFolder is where downloaded servers are kept. Root's is not in its home,
// where the account of the server could not reach it.
func cacheFolder(who *account) string {
	if who != nil {
		return "/var/cache/pgreactor"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "pgreactor")
}

// fetch downloads the binaries and returns their folder. The library can't be
// interrupted: after the end of the context it goes on by itself.
func (d download) fetch(ctx context.Context) (string, error) {
	type result struct {
		dir string
		err error
	}
	done := make(chan result, 1)
	go func() {
		dir, err := d.unpack()
		done <- result{dir, err}
	}()
	select {
	case r := <-done:
		return r.dir, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("download a PostgreSQL server: %w", ctx.Err())
	}
}

// unpack fetches into a folder of its own and gives it its name at the end, so
// that a half-done download is never taken for a server.
func (d download) unpack() (string, error) {
	if err := os.MkdirAll(d.cache, 0o755); err != nil {
		return "", fmt.Errorf("download a PostgreSQL server: %w", err)
	}
	work, err := os.MkdirTemp(d.cache, ".fetch-")
	if err != nil {
		return "", fmt.Errorf("download a PostgreSQL server: %w", err)
	}
	defer os.RemoveAll(work)
	server := filepath.Join(work, "server")
	if err := d.fetchInto(work, server); err != nil {
		return "", fmt.Errorf("download a PostgreSQL server: %w", err)
	}
	target := filepath.Join(d.cache, "postgresql-"+string(downloadVersion))
	bin := filepath.Join(target, "bin")
	// Another process may have been quicker.
	if err := os.Rename(server, target); err != nil && !complete(bin) {
		return "", fmt.Errorf("download a PostgreSQL server: %w", err)
	}
	return bin, nil
}

// fetchInto has the library fetch and unpack into a folder. It has no call for
// that alone, so an impossible name of the data folder makes it give up before
// the next step, its initdb, which would refuse root.
func (d download) fetchInto(work, server string) error {
	config := embeddedpostgres.DefaultConfig().
		Version(downloadVersion).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(server).
		DataPath("\x00").
		Logger(io.Discard)
	if d.repository != "" {
		config = config.BinaryRepositoryURL(d.repository)
	}
	port, err := freePort() // it looks for one before anything else
	if err != nil {
		return err
	}
	err = embeddedpostgres.NewDatabase(config.Port(uint32(port))).Start()
	switch {
	case err == nil:
		return errors.New("the archive was not unpacked") // can't be: it has no data folder
	case !strings.Contains(err.Error(), "clean up data directory"):
		return err
	case !complete(filepath.Join(server, "bin")):
		return errors.New("the archive has no server")
	}
	return nil
}

package pgdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Options say which server Start starts. The zero value is a temporary server.
type Options struct {
	// DataDir is the folder of a server that is kept, with settings that
	// survive a crash of the machine. It must be empty, new, or from an earlier
	// Start. Empty means a temporary server: fast, and gone at the end.
	DataDir string

	// Port on 127.0.0.1. 0 means a free one.
	Port int

	// Download allows fetching a server once, from a Maven repository on the
	// web, if this machine has none. It is kept in the user's cache folder.
	Download bool

	// Settings are written to the server's configuration: name to value.
	Settings map[string]string

	// BinDir is the folder of the server binaries. Empty means the first of
	// PATH, of the usual places of packages, and of an earlier download.
	BinDir string
}

// Start starts a server and returns when it accepts connections. The context is
// for the start alone. The error wraps ErrNoServer if there is none to start.
func Start(ctx context.Context, o Options) (*Server, error) {
	who, err := chooseAccount(o.DataDir)
	if err != nil {
		return nil, err
	}
	cache := cacheFolder(who)
	m := machine{who: who, search: localSearch(cache), download: download{cache: cache}, freePort: freePort}
	return m.start(ctx, o)
}

// A machine is what Start depends on, so that tests can make it poorer.
type machine struct {
	who      *account
	search   search
	download download
	freePort func() (int, error)
}

func (m machine) start(ctx context.Context, o Options) (*Server, error) {
	if err := checkSettings(o.Settings); err != nil {
		return nil, err
	}
	f, err := openFolder(o.DataDir, m.who)
	if err != nil {
		return nil, err
	}
	s := &Server{folder: f, password: f.read("password")}
	if err = m.hold(ctx, o, s); err == nil {
		err = m.launch(ctx, o, s)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// hold finds the binaries, locks the folder and starts its keeper.
func (m machine) hold(ctx context.Context, o Options, s *Server) (err error) {
	if s.binaries, err = m.find(ctx, o, s.folder.major()); err != nil {
		return err
	}
	lock, err := s.folder.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close() // the keeper has it now
	s.keeper, err = startKeeper(ctx, s.folder, s.binaries, lock)
	if errors.Is(err, errBusy) {
		return s.folder.busy()
	}
	return err
}

// find is the server to start for a cluster of a major version, "" for any.
func (m machine) find(ctx context.Context, o Options, major string) (binaries, error) {
	dirs := m.search.folders()
	if o.BinDir != "" {
		dir, err := filepath.Abs(o.BinDir)
		if err != nil || !complete(dir) {
			return binaries{}, fmt.Errorf("%s does not have the server binaries %s", o.BinDir, strings.Join(programs, ", "))
		}
		dirs = []string{dir}
	}
	if len(dirs) > 0 {
		return choose(ctx, dirs, m.who, major)
	}
	if !o.Download {
		return binaries{}, noServer(m.search, nil)
	}
	dir, err := m.download.fetch(ctx)
	if err != nil {
		return binaries{}, noServer(m.search, err)
	}
	return choose(ctx, []string{dir}, m.who, major)
}

// noServer is the error that says the ways to get a server.
func noServer(s search, download error) error {
	once := "for a demo or development, be online once: a server is then downloaded"
	if download != nil {
		once += fmt.Sprintf(" (this time: %v)", download)
	}
	return fmt.Errorf(`%w. Looked in %s. Ways to get one:
	install it, as with apt-get install postgresql, dnf install postgresql-server or brew install postgresql
	use one that runs: --database URL, or for tests REACTOR_TEST_DATABASE_URL, whose user may create databases
	for the tests in integration/, start Docker
	%s`, ErrNoServer, s, once)
}

// launch makes the cluster if there is none yet, and starts the server. A free
// port may be somebody else's by then: so it tries a few.
func (m machine) launch(ctx context.Context, o Options, s *Server) error {
	if !s.folder.initialised() {
		if err := s.keeper.ask(ctx, "init"); err != nil {
			return fmt.Errorf("create a database cluster in %s: %w%s", s.folder.path, err, indented(s.folder.read("command.log")))
		}
	}
	for try := 1; ; try++ {
		err := m.launchOnce(ctx, o, s)
		if !errors.Is(err, errPortTaken) || o.Port != 0 || try == 5 {
			return err
		}
	}
}

// errPortTaken is a start that failed because of its port.
var errPortTaken = errors.New("its port is in use")

func (m machine) launchOnce(ctx context.Context, o Options, s *Server) (err error) {
	if s.port = o.Port; s.port == 0 {
		if s.port, err = m.freePort(); err != nil {
			return err
		}
	}
	if err := s.folder.write("server.conf", configuration(s.folder.temporary, s.port, o.Settings)); err != nil {
		return err
	}
	return s.startServer(ctx)
}

// startServer has the server started as configured.
func (s *Server) startServer(ctx context.Context) error {
	before := s.logSize()
	err := s.keeper.ask(ctx, "start")
	if !errors.Is(err, errCommand) {
		return err
	}
	said := s.complaints(before)
	if strings.Contains(said, "could not bind") || strings.Contains(said, "could not create any TCP/IP sockets") {
		return fmt.Errorf("start PostgreSQL %s on 127.0.0.1:%d: %w: give another port, or 0 for a free one", s.binaries.version, s.port, errPortTaken)
	}
	return fmt.Errorf("start PostgreSQL %s in %s: %w%s", s.binaries.version, s.folder.path, err, indented(said))
}

func (s *Server) logSize() int64 {
	info, err := os.Stat(s.LogFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// complaints is what the server has written to its log from an offset on; if
// that is nothing, what pg_ctl wrote.
func (s *Server) complaints(from int64) string {
	file, err := os.Open(s.LogFile())
	if err != nil {
		return s.folder.read("command.log")
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, from, 1<<16))
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return s.folder.read("command.log")
	}
	return string(text)
}

// indented puts what a program said below the sentence that names it.
func indented(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return "\n\t" + strings.ReplaceAll(text, "\n", "\n\t")
}

// freePort is a port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// A Server is a PostgreSQL server that belongs to this process and ends with
// it. Its methods may be called from several goroutines.
type Server struct {
	folder   folder
	binaries binaries
	keeper   *keeper
	port     int
	password string
	stopOnce sync.Once
	stopErr  error
}

// A Mode is how a running server is taken down.
type Mode string

// The modes of taking a server down.
const (
	Fast      Mode = "fast"      // ends sessions in order
	Immediate Mode = "immediate" // as a crash: the next start recovers
)

// URL is the connection string of a database of the server, as its superuser;
// it has the password. The database postgres is there from the start.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Version is that of the server, as in 17.2.
func (s *Server) Version() string { return s.binaries.version }

// LogFile is the path of the server's log.
func (s *Server) LogFile() string { return s.folder.file("server.log") }

// Folder is where the server has its data, its settings and its log.
func (s *Server) Folder() string { return s.folder.path }

// Signal sends a signal to the server's first process; SIGKILL is a crash that
// Up recovers from.
func (s *Server) Signal(signal syscall.Signal) error {
	pid, err := strconv.Atoi(s.folder.pid())
	if err != nil {
		return errors.New("signal the server: it does not run")
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	if err := process.Signal(signal); err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	return nil
}

// Down takes the server down until Up; its data and port stay.
func (s *Server) Down(mode Mode) error {
	if err := s.keeper.ask(context.Background(), "stop "+string(mode)); err != nil {
		return fmt.Errorf("take the server down: %w%s", err, indented(s.folder.read("command.log")))
	}
	return nil
}

// Up starts the server again, on the same port, and returns when it accepts
// connections.
func (s *Server) Up() error { return s.startServer(context.Background()) }

// Restart is Down and Up.
func (s *Server) Restart(mode Mode) error {
	if err := s.Down(mode); err != nil {
		return err
	}
	return s.Up()
}

// Stop ends the server and removes its folder if that is temporary. A second
// call does nothing.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.end() })
	return s.stopErr
}

func (s *Server) end() error {
	var err error
	if s.keeper != nil {
		err = s.keeper.stop()
	}
	if s.folder.temporary {
		err = errors.Join(err, os.RemoveAll(s.folder.path)) // without a keeper nobody else does
	}
	if err != nil {
		return fmt.Errorf("stop the server in %s: %w", s.folder.path, err)
	}
	return nil
}

package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/internal/pgdev"
	"github.com/pgreactor/reactor/migrations"
)

// dev runs a database for development.
type dev struct {
	app  *app
	dir  string
	port int
}

func newDev(a *app) *cobra.Command {
	c := &dev{app: a}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a PostgreSQL for development, with its data kept in a folder",
		Long: `Run a PostgreSQL for development, migrated, with its data kept in a folder,
and print its URL. It listens on 127.0.0.1 only, under a password of its own,
and ends with Ctrl-C. The next "reactorctl dev" on the folder goes on with its
data, under the same URL if its port is still free.

The server is one of this machine; if there is none, one is downloaded once.
DATABASE_URL and --database are not read.`,
		Example: `  reactorctl dev
  reactorctl dev --dir /var/tmp/shop --port 5555`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&c.dir, "dir", "", "the `folder` of the data (default "+shownDefault()+")")
	cmd.Flags().IntVar(&c.port, "port", 0, "`port` on 127.0.0.1 (default the one of the last time, else a free one)")
	return cmd
}

// defaultDir is where the data is kept. The server of root belongs to another
// user, who can't reach root's home.
func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/pgreactor/dev", nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "pgreactor", "dev"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usage("there is no folder for the data, because this user has no home: give one with --dir")
	}
	return filepath.Join(home, ".local", "share", "pgreactor", "dev"), nil
}

func shownDefault() string {
	dir, err := defaultDir()
	if err != nil {
		return "none"
	}
	return dir
}

// Run starts the server, prints how to use it, and waits for the end of ctx.
func (c *dev) Run(ctx context.Context, out io.Writer) (err error) {
	if c.dir == "" {
		if c.dir, err = defaultDir(); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil { // the server's own user must get through
			return fmt.Errorf("make the folder of the data: %w: give another one with --dir", err)
		}
	}
	server, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	url := server.URL("postgres")
	report, err := c.migrate(ctx, url)
	if err != nil {
		return err
	}
	if err := c.write(out, server, url, report); err != nil {
		return err
	}
	<-ctx.Done()
	c.app.tell("stopped; the data stays in %s", server.Folder())
	return nil
}

// start starts the server on the port that was asked for, else on that of the
// last time if it is free.
func (c *dev) start(ctx context.Context) (*pgdev.Server, error) {
	remembered := filepath.Join(c.dir, "port")
	port := cmp.Or(c.port, lastPort(remembered))
	server, err := pgdev.Start(ctx, pgdev.Options{DataDir: c.dir, Port: port, Download: true})
	if err != nil {
		return nil, err
	}
	_, used, err := net.SplitHostPort(hostOf(server.URL("postgres")))
	if err == nil {
		err = os.WriteFile(remembered, []byte(used+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("remember the port: %w", err), server.Stop())
	}
	return server, nil
}

// hostOf is host and port of a URL.
func hostOf(url string) string {
	_, behind, _ := strings.Cut(url, "@")
	host, _, _ := strings.Cut(behind, "/")
	return host
}

// lastPort is what a file says, 0 if that port is in use by now.
func lastPort(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0
	}
	listener.Close()
	return port
}

func (c *dev) migrate(ctx context.Context, url string) (migrations.Report, error) {
	pool, err := connect(ctx, url)
	if err != nil {
		return migrations.Report{}, err
	}
	defer pool.Close()
	m, err := c.app.migrator(pool)
	if err != nil {
		return migrations.Report{}, err
	}
	return m.Up(ctx)
}

func (c *dev) write(out io.Writer, server *pgdev.Server, url string, report migrations.Report) error {
	if c.app.asJSON() {
		return writeJSON(out, map[string]string{"url": url, "folder": server.Folder(), "version": server.Version()})
	}
	p := &term.Printer{Out: out}
	p.Printf("PostgreSQL %s runs; its data is kept in %s\n", server.Version(), server.Folder())
	p.Printf("%s\n%s\n\n", oursChange(report), riverChange(report))
	p.Printf("  export DATABASE_URL='%s'\n\n", url)
	p.Printf("With that, in another terminal: reactorctl runs, reactorctl doctor, psql \"$DATABASE_URL\",\n")
	p.Printf("and your own program. Ctrl-C stops it.\n")
	return p.Err
}

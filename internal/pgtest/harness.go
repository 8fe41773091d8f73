package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgdev"
	"github.com/pgreactor/reactor/migrations"
)

// patience is how long anything that is no test may take.
const patience = 2 * time.Minute

// serverSettings are those of servers of ours.
var serverSettings = map[string]string{
	"log_line_prefix": logPrefix,
	// Long enough for a test that holds a transaction open on purpose.
	"idle_in_transaction_session_timeout": "30s",
}

// A harness is a server with a template for databases of tests.
type harness struct {
	given    func() string // the URL of a server, "" for none
	start    func(context.Context, pgdev.Options) (*pgdev.Server, error)
	fallback func(context.Context) (string, func(), error)
	out      io.Writer // what is wrong after the tests

	token  string // in the names of our databases
	once   sync.Once
	err    error         // of the start
	url    string        // of the server
	server *pgdev.Server // if it is ours
	stop   func()        // of the fallback
	mark   *pgx.Conn     // says, by its application_name, that this process lives
	admin  *pgxpool.Pool
	copied string       // how databases are copied
	made   atomic.Int64 // databases
}

func newHarness(
	given func() string,
	start func(context.Context, pgdev.Options) (*pgdev.Server, error),
	fallback func(context.Context) (string, func(), error),
) *harness {
	return &harness{given: given, start: start, fallback: fallback, out: os.Stderr, token: strings.ToLower(rand.Text()[:12])}
}

// begin starts the harness when the first test needs it.
func (h *harness) begin() error {
	h.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if h.err = h.findServer(ctx); h.err == nil {
			h.err = h.prepare(ctx)
		}
	})
	return h.err
}

// findServer is the order of places for a server.
func (h *harness) findServer(ctx context.Context) (err error) {
	if h.url = h.given(); h.url != "" {
		if u, err := url.Parse(h.url); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			return fmt.Errorf("%s must be a URL, as in postgres://user:password@host:5432/postgres", URLVariable)
		}
		return nil
	}
	h.server, err = h.start(ctx, pgdev.Options{Settings: serverSettings})
	if err == nil {
		h.url = h.server.URL("postgres")
		return nil
	}
	if h.fallback == nil {
		return err
	}
	var problem error
	if h.url, h.stop, problem = h.fallback(ctx); problem != nil {
		return fmt.Errorf("%w\n%w", err, problem)
	}
	return nil
}

// prepare connects to the server and makes the template.
func (h *harness) prepare(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(h.url)
	if err != nil {
		return h.unreachable(err)
	}
	config.MaxConns = 4
	marked := config.ConnConfig.Copy()
	marked.RuntimeParams["application_name"] = h.database("alive")
	if h.mark, err = pgx.ConnectConfig(ctx, marked); err != nil {
		return h.unreachable(err)
	}
	if h.admin, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return h.unreachable(err)
	}
	if h.server != nil {
		// Two or three times as fast where a checkpoint costs nothing.
		const chooses = `select case when current_setting('server_version_num')::int >= 150000 then ' strategy file_copy' else '' end`
		if err := h.admin.QueryRow(ctx, chooses).Scan(&h.copied); err != nil {
			return h.unreachable(err)
		}
	}
	if err := h.dropLeftovers(ctx); err != nil {
		return err
	}
	return h.makeTemplate(ctx)
}

// unreachable says where the server that does not answer comes from.
func (h *harness) unreachable(err error) error {
	if h.server == nil && h.stop == nil {
		return fmt.Errorf("connect to the server for tests, which %s names: %w", URLVariable, err)
	}
	return fmt.Errorf("connect to the server for tests, which was started for them: %w", err)
}

// database is the name of one of our databases.
func (h *harness) database(part string) string { return namePrefix + h.token + "_" + part }

const namePrefix = "pgtest_"

// leftoversSQL finds databases of test processes that ended without dropping
// them: a living one has a session with its name.
const leftoversSQL = `
select datname from pg_database d
 where datname like 'pgtest\_%\_%' and pg_get_userbyid(datdba) = current_user
   and not exists (select from pg_stat_activity a
                    where a.application_name = 'pgtest_' || split_part(d.datname, '_', 2) || '_alive')`

// dropLeftovers drops them. A server of ours has none.
func (h *harness) dropLeftovers(ctx context.Context) error {
	rows, err := h.admin.Query(ctx, leftoversSQL)
	if err != nil {
		return fmt.Errorf("look for databases of earlier tests: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for databases of earlier tests: %w", err)
	}
	for _, name := range names {
		// Another process may drop it at the same moment, or something may
		// still be connected: then it stays for the next time.
		_, _ = h.admin.Exec(ctx, "drop database if exists "+quoted(name))
	}
	return nil
}

// makeTemplate makes the database that those of tests are copies of.
func (h *harness) makeTemplate(ctx context.Context) error {
	name := h.database("template")
	if _, err := h.admin.Exec(ctx, "create database "+quoted(name)); err != nil {
		return fmt.Errorf("create the template database: %w", err)
	}
	if err := migrate(ctx, withDatabase(h.url, name)); err != nil {
		return err
	}
	// What is connected to a template keeps it from being copied.
	if _, err := h.admin.Exec(ctx, "alter database "+quoted(name)+" allow_connections false"); err != nil {
		return fmt.Errorf("close the template database: %w", err)
	}
	return nil
}

// migrate makes our tables in a database, and the history that Violations reads.
func migrate(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return fmt.Errorf("migrate a database for tests: %w", err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		return fmt.Errorf("migrate a database for tests: %w", err)
	}
	if _, err := pool.Exec(ctx, historySQL); err != nil {
		return fmt.Errorf("add the history to a database for tests: %w", err)
	}
	return nil
}

// create makes a database: a copy of the template, or an empty one.
func (h *harness) create(ctx context.Context, template string) (name string, err error) {
	name = h.database(fmt.Sprint(h.made.Add(1)))
	_, err = h.admin.Exec(ctx, "create database "+quoted(name)+" template "+quoted(template)+h.copied)
	if err != nil {
		return "", fmt.Errorf("create a database for a test: %w", err)
	}
	return name, nil
}

// drop drops a database, whoever is connected to it.
func (h *harness) drop(ctx context.Context, name string) error {
	if _, err := h.admin.Exec(ctx, "drop database if exists "+quoted(name)+" with (force)"); err != nil {
		return fmt.Errorf("drop the database of a test: %w", err)
	}
	return nil
}

// close ends what begin started, and says what is wrong with the server's log.
func (h *harness) close() (problems []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	if h.admin != nil {
		if h.server == nil { // a server of ours goes as a whole
			errs = append(errs, h.drop(ctx, h.database("template")))
		}
		h.admin.Close()
	}
	if h.mark != nil {
		h.mark.Close(ctx)
	}
	if h.server != nil {
		found, err := checkServerLog(h.server)
		problems = found
		errs = append(errs, err, h.server.Stop())
	}
	if h.stop != nil {
		h.stop()
	}
	if err := errors.Join(errs...); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

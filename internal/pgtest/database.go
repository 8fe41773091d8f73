package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgdev"
)

// Expected is how the application_name of a session begins whose errors
// CheckLog must not report.
const Expected = "pgtest-expected"

// Pool is a pool on a migrated database of the test's own. It is closed, and the
// database checked and dropped, when the test is over.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// URL is the connection string of a migrated database of the test's own, for
// processes. The database is checked and dropped when the test is over.
func URL(t testing.TB) string {
	t.Helper()
	h := sharedFor(t)
	u := h.fresh(t, h.database("template"))
	watch(t, u)
	return u
}

// Empty is the connection string of an empty database of the test's own, which
// is dropped when the test is over.
func Empty(t testing.TB) string {
	t.Helper()
	return sharedFor(t).fresh(t, "template1")
}

// Server is a server of the test's own, for tests that restart or kill it. Its
// only database is postgres; Migrate makes our tables there. When the test is
// over its log is checked and it is stopped.
func Server(t testing.TB) *pgdev.Server {
	t.Helper()
	s, err := pgdev.Start(t.Context(), pgdev.Options{Settings: serverSettings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		problems, err := checkServerLog(s)
		for _, p := range problems {
			t.Error(p)
		}
		if err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Migrate makes our tables in the database at a URL, as they are in those of
// Pool, and has it checked when the test is over.
func Migrate(t testing.TB, url string) {
	t.Helper()
	if err := migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	watch(t, url)
}

// Expecting is the URL for a session whose errors are what the test is about:
// CheckLog does not report them.
func Expecting(url string) string { return withApplication(url, Expected) }

// fresh makes a database that is dropped with the test.
func (h *harness) fresh(t testing.TB, template string) string {
	t.Helper()
	name, err := h.create(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.drop(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return withApplication(withDatabase(h.url, name), t.Name())
}

// open is a pool that is closed with the test, and before the database at url
// is dropped.
func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool, 20*time.Second) })
	return pool
}

// closePool closes a pool, which waits for every connection to be released.
func closePool(t testing.TB, pool *pgxpool.Pool, wait time.Duration) {
	t.Helper()
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(wait):
		t.Errorf("pgtest: %d connection(s) of the pool were not released %v after the test", pool.Stat().AcquiredConns(), wait)
	}
}

// watch has the database checked when the test is over.
func watch(t testing.TB, url string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Errorf("pgtest: check the invariants: %v", err)
			return
		}
		defer conn.Close(ctx)
		report(ctx, t, conn)
	})
}

// withDatabase is the URL of another database of the same server.
func withDatabase(server, name string) string {
	return change(server, func(u *url.URL) { u.Path = "/" + name })
}

// withApplication is the URL with an application_name, which the server's log
// has in each line; it takes 63 printable characters.
func withApplication(server, name string) string {
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	return change(server, func(u *url.URL) {
		q := u.Query()
		q.Set("application_name", printable[:min(len(printable), 63)])
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq takes a plus for itself
	})
}

func change(server string, f func(*url.URL)) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return server // findServer has refused it
	}
	f(u)
	return u.String()
}

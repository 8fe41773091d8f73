package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/internal/pgdev"
)

// givenServer is a server of the test's own as somebody gives one: a URL for a
// role that may create databases and no more. admin is its superuser.
func givenServer(t *testing.T) (url string, admin *pgx.Conn) {
	t.Helper()
	s := Server(t)
	admin = connect(t, s.URL("postgres"))
	exec(t, admin, "create role tester login createdb password 'known'")
	return asUser(t, s.URL("postgres"), "tester"), admin
}

// asUser is the URL for another user, who has this password.
func asUser(t *testing.T, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "known")
	return u.String()
}

func nothingToStart(context.Context, pgdev.Options) (*pgdev.Server, error) {
	return nil, pgdev.ErrNoServer
}

// at is a given URL.
func at(url string) func() string { return func() string { return url } }

// begun is a harness on a given server.
func begun(t *testing.T, server string) *harness {
	t.Helper()
	h := newHarness(at(server), nothingToStart, nil)
	if err := h.begin(); err != nil {
		t.Fatal(err)
	}
	return h
}

// databases lists those of a harness.
func databases(t *testing.T, admin *pgx.Conn, h *harness) []string {
	t.Helper()
	return list(t, admin, `select datname::text from pg_database where datname like 'pgtest\_`+h.token+`\_%' order by 1`)
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	server, admin := givenServer(t)
	one, other := begun(t, server), begun(t, server) // as two test processes
	name, err := one.create(t.Context(), one.database("template"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), withDatabase(server, name))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"public.river_job", "reactor.runs"}, list(t, conn, tables)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	conn.Close(t.Context())
	if diff := cmp.Diff([]string{one.database("1"), one.database("template")}, databases(t, admin, one)); diff != "" {
		t.Errorf("databases of one: -want +got\n%s", diff)
	}

	if err := one.drop(t.Context(), name); err != nil {
		t.Error(err)
	}
	if problems := one.close(); problems != nil {
		t.Errorf("close says %q", problems)
	}
	if left := databases(t, admin, one); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if diff := cmp.Diff([]string{other.database("template")}, databases(t, admin, other)); diff != "" {
		t.Errorf("databases of the other: -want +got\n%s", diff)
	}
	if problems := other.close(); problems != nil {
		t.Errorf("close says %q", problems)
	}
}

func TestLeftoversAreDropped(t *testing.T) {
	t.Parallel()
	server, admin := givenServer(t)
	dead, alive := begun(t, server), begun(t, server)
	if _, err := dead.create(t.Context(), "template1"); err != nil {
		t.Fatal(err)
	}
	dead.admin.Close() // what is left of a process that was killed
	pid := dead.mark.PgConn().PID()
	dead.mark.Close(t.Context())
	exec(t, admin, fmt.Sprintf("select pg_terminate_backend(%d, 10000)", pid)) // its session may take a moment to end

	next := begun(t, server)
	if left := databases(t, admin, dead); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if diff := cmp.Diff([]string{alive.database("template")}, databases(t, admin, alive)); diff != "" {
		t.Errorf("databases of a living process: -want +got\n%s", diff)
	}
	for _, h := range []*harness{alive, next} {
		if problems := h.close(); problems != nil {
			t.Errorf("close says %q", problems)
		}
	}
}

func TestFallback(t *testing.T) {
	t.Parallel()
	server := sharedFor(t).url
	stopped := false
	h := newHarness(at(""), nothingToStart, func(context.Context) (string, func(), error) {
		return server, func() { stopped = true }, nil
	})
	if err := h.begin(); err != nil {
		t.Fatal(err)
	}
	if problems := h.close(); problems != nil {
		t.Errorf("close says %q", problems)
	}
	if !stopped {
		t.Error("the fallback was not stopped")
	}
}

func TestNoServerForTests(t *testing.T) {
	t.Parallel()
	noDocker := errors.New("no Docker")
	refuses := func(context.Context) (string, func(), error) { return "", nil, noDocker }
	for name, c := range map[string]struct {
		h    *harness
		want []string
	}{
		"nothing":        {newHarness(at(""), nothingToStart, nil), []string{pgdev.ErrNoServer.Error()}},
		"nor a fallback": {newHarness(at(""), nothingToStart, refuses), []string{pgdev.ErrNoServer.Error(), noDocker.Error()}},
		"no URL":         {newHarness(at("host=localhost"), nothingToStart, nil), []string{URLVariable + " must be a URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.h.begin()
			if err == nil {
				t.Fatal("it begins")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q", err, want)
				}
			}
			if again := c.h.begin(); again != err {
				t.Errorf("the next test gets %v", again)
			}
			if problems := c.h.close(); problems != nil {
				t.Errorf("close says %q", problems)
			}
		})
	}
}

// A suite is a function in the place of the tests.
type suite func() int

func (s suite) Run() int { return s() }

func TestMainChecksTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url  func(string) string
		code int // of the tests
		want int
	}{
		"a hit":                    {func(u string) string { return u }, 0, 1},
		"a hit after failed tests": {func(u string) string { return u }, 2, 2},
		"an expected one":          {Expecting, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			h := newHarness(at(""), pgdev.Start, nil)
			h.out = &out
			got := h.run(suite(func() int {
				if err := h.begin(); err != nil {
					t.Error(err)
					return c.code
				}
				conn := connect(t, c.url(h.url))
				if _, err := conn.Exec(t.Context(), `select '{"a": "\u0000"}'::jsonb ->> 'a'`); err == nil {
					t.Error("no error")
				}
				return c.code
			}))
			if got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if hit := strings.Contains(out.String(), "can't represent") && strings.Contains(out.String(), "STATEMENT:  select"); hit != (c.want != 0) {
				t.Errorf("output %q", out.String())
			}
		})
	}
}

// A package that needs no database starts no server.
func TestMainWithoutADatabase(t *testing.T) {
	t.Parallel()
	h := newHarness(at(""), nil, nil)
	if code := h.run(suite(func() int { return 3 })); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

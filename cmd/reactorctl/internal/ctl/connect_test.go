package ctl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// A connection string that can't be used is explained, and nothing of it that
// may be secret is repeated.
//
// spec: K-1016
func TestBrokenConnectionStrings(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"mysql://app:hush-1234@db/app":                          "it must begin with postgres://",
		"postgres://app:hush-1234/x@db/app":                     "%2F for /",
		"postgres://app:1234/hush-1234@db/app":                  "%2F for /",
		"postgres://app:12?hush-1234@db/app":                    "%3F for ?",
		"postgres://app:12#hush-1234@db/app":                    "%23 for #",
		"postgres://app:hush-1234%zz@db/app":                    "%25 for %",
		"postgres://app:hush-1234@db:port/app":                  "its port as a number",
		"postgres://app:hush-1234@db:99999/app":                 "its port must be from 1 to 65535",
		"postgres://app:hush-1234@db/app?sslmode=hush-1234":     "its sslmode must be one of",
		"postgres://app:hush-1234@db/app?connect_timeout=x":     "behind the ?",
		"host=db password=hush-1234 sslmode":                    "as key=value pairs",
		"hush-1234":                                             "write it as postgres://",
		"postgres://app:hush-1234@127.0.0.1:1/app":              "no connection to the database at 127.0.0.1:1: nothing listens there",
		"host=127.0.0.1 port=1 user=app password=hush-1234":     "no connection to the database at 127.0.0.1:1: nothing listens there",
		"postgres://app:hush-1234@/app?host=/nowhere":           "no connection to the database at socket /nowhere: there is no such socket",
		"postgres://app:hush-1234@no-such-host.invalid:5432/ap": "no connection to the database at no-such-host.invalid:5432: no host has this name",
	} {
		for _, args := range [][]string{{"runs"}, {"show", "0199b6f0"}, {"migrate"}, {"doctor"}, {"demo"}} {
			s := call(t, append(args, "--database", dsn)...)
			if s.code != codeUsage && s.code != codeNoConnection {
				t.Errorf("%s on %s: exit code %d", args[0], dsn, s.code)
			}
			all := s.out + s.err
			if !strings.Contains(strings.Join(strings.Fields(all), " "), want) {
				t.Errorf("%s on %s: got %q, want %q", args[0], dsn, all, want)
			}
			if strings.Contains(all, "hush") || strings.Contains(all, "1234") {
				t.Errorf("%s on %s: a part of the password is shown: %q", args[0], dsn, all)
			}
		}
	}
}

// A connection string in the wrong place is not repeated either.
func TestMisplacedConnectionStrings(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://app:hush-1234@db/app"
	for _, args := range [][]string{{dsn}, {"runs", dsn}, {"show", dsn}, {"runs", "-database=" + dsn}, {"runs", "--input", "password=hush-1234 x"}, {"runs", "--status", dsn}} {
		if s := call(t, append(args, "--database", "postgres://app@127.0.0.1:1/app")...); s.code == codeOK || strings.Contains(s.out+s.err, "hush") {
			t.Errorf("%q: code %d, %q", args, s.code, s.out+s.err)
		}
	}
}

func TestNoDatabaseNamed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"runs"}, {"show", "0199b6f0"}, {"why", "0199b6f0"}, {"doctor"}, {"migrate"}, {"migrate", "status"}, {"migrate", "down"}} {
		call(t, args...).want(t, codeUsage, "no database is named: give --database URL, or set DATABASE_URL")
	}
}

func TestDatabaseOfTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": pgtest.URL(t)}
	var out, messages strings.Builder
	console := Console{In: strings.NewReader(""), Out: &out, Err: &messages, Env: func(name string) string { return env[name] }}
	if code := Main(t.Context(), []string{"migrate", "status"}, console); code != codeOK || !strings.Contains(out.String(), "as this program needs") {
		t.Errorf("code %d, %q %q", code, out.String(), messages.String())
	}
}

func TestDatabaseThatIsNotThere(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.Expecting(pgtest.Empty(t)))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	call(t, "runs", "--database", u.String()).want(t, codeNoConnection, `it has no database "no_such_database": create it, or name another one in the URL`)
}

func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://app:hush-1234@db/shop")
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		pgerrcode.InvalidPassword:       `does not let user "app" in (as the server says): check user and password`,
		pgerrcode.InvalidCatalogName:    `has no database "shop"`,
		pgerrcode.TooManyConnections:    "all of its connections are in use",
		pgerrcode.CannotConnectNow:      "is starting or stopping",
		pgerrcode.InsufficientResources: "as the server says",
	} {
		err := noConnection(config, fmt.Errorf("ping: %w", &pgconn.PgError{Code: code, Message: "as the server says"}))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), code) || codeOf(err) != codeNoConnection {
			t.Errorf("%s: got %q, code %d, want %q", code, err, codeOf(err), want)
		}
	}
}

func TestSQLStateIsNotShown(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("look: %w", &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "permission denied for schema reactor"})
	if got := errorText(t.Context(), err); got != "look: permission denied for schema reactor" {
		t.Errorf("got %q", got)
	}
	if got := errorText(t.Context(), errors.New("see postgres://app:hush@db/app now")); got != "see postgres://… now" {
		t.Errorf("got %q", got)
	}
}

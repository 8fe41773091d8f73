package ctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long a server may take to answer a connection, unless the
// connection string has a connect_timeout.
const patience = 5 * time.Second

// connect opens a pool and sees that the database answers. No error of it has
// the connection string, or a part that may be a password.
func connect(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil || hidesSlash(dsn) {
		return nil, &failure{code: codeUsage, text: "the connection string can't be read: " + explainDSN(dsn)}
	}
	config.MaxConns = 4
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = patience
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "reactorctl"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, noConnection(config.ConnConfig, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, noConnection(config.ConnConfig, err)
	}
	return pool, nil
}

// explainDSN says what is wrong with a connection string without repeating it.
func explainDSN(dsn string) string {
	scheme, _, isURL := strings.Cut(dsn, "://")
	if !isURL {
		return "write it as postgres://user:password@host:5432/database, or as key=value pairs such as host=localhost dbname=app"
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return "it must begin with postgres:// or postgresql://"
	}
	u, err := url.Parse(dsn)
	if err != nil || hidesSlash(dsn) {
		return "write special characters of its user and password as %40 for @, %2F for /, %3A for :, %3F for ?, %23 for # and %25 for %, and its port as a number"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "its port must be from 1 to 65535"
		}
	}
	if modes := []string{"", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"}; !slices.Contains(modes, u.Query().Get("sslmode")) {
		return "its sslmode must be one of disable, allow, prefer, require, verify-ca and verify-full"
	}
	return "one of its settings, behind the ?, has a value that can't be used"
}

// hidesSlash reports whether a URL was cut by a /, ? or # in its user or
// password: then the @ comes behind what was taken for the host.
func hidesSlash(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	setting, _, _ := strings.Cut(u.RawQuery, "=")
	return strings.Contains(u.Path+u.Fragment+setting, "@")
}

// noConnection says why the database can't be used, in words for people.
func noConnection(c *pgx.ConnConfig, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &failure{code: codeNoConnection, text: "no connection to the database at " + address(c) + ": " + whyNoConnection(c, err), err: err}
}

// address is where a connection goes to.
func address(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") {
		return "socket " + c.Host
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

func whyNoConnection(c *pgx.ConnConfig, err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return whyRefused(c, pg)
	}
	_, noName := errors.AsType[*net.DNSError](err)
	slow, _ := errors.AsType[net.Error](err)
	switch {
	case noName:
		return "no host has this name: check the URL"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is the server running?"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: is the server running?"
	case errors.Is(err, context.DeadlineExceeded) || slow != nil && slow.Timeout():
		return fmt.Sprintf("it does not answer within %s: is the address right, and no firewall between?", c.ConnectTimeout)
	case strings.Contains(err.Error(), "server refused TLS"):
		return "the server does not speak TLS: give sslmode=disable if that is meant"
	}
	return innermost(err).Error()
}

// whyRefused words what the server itself said.
func whyRefused(c *pgx.ConnConfig, e *pgconn.PgError) string {
	switch e.Code {
	case pgerrcode.InvalidPassword, pgerrcode.InvalidAuthorizationSpecification:
		return fmt.Sprintf("the server does not let user %q in (%s): check user and password", c.User, e.Message)
	case pgerrcode.InvalidCatalogName:
		return fmt.Sprintf("it has no database %q: create it, or name another one in the URL", c.Database)
	case pgerrcode.TooManyConnections:
		return "all of its connections are in use: try again, or raise max_connections"
	case pgerrcode.CannotConnectNow:
		return "the server is starting or stopping: try again"
	}
	return e.Message
}

// innermost is the last error of a chain, and the last one of a joined.
func innermost(err error) error {
	for {
		var next error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if list := e.Unwrap(); len(list) > 0 {
				next = list[len(list)-1]
			}
		}
		if next == nil {
			return err
		}
		err = next
	}
}

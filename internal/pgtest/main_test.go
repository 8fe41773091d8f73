package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { Main(m) }

// A recorder is a test that only keeps what is reported to it.
type recorder struct {
	testing.TB
	name     string
	errors   []string
	cleanups []func()
}

// record is a recorder in the name of a test.
func record(t *testing.T) *recorder { return &recorder{TB: t, name: t.Name()} }

func (r *recorder) Helper()                        {}
func (r *recorder) Name() string                   { return r.name }
func (r *recorder) Error(args ...any)              { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, a ...any) { r.Error(fmt.Sprintf(format, a...)) }
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }

// end runs the cleanups, as the end of a test does.
func (r *recorder) end() {
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		f()
	}
}

// connect is a connection that is closed with the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// An executor is a pool or a connection.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t *testing.T, db executor, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// list is the result of a query with one text column.
func list(t *testing.T, db Querier, sql string) []string {
	t.Helper()
	lines, err := texts(t.Context(), db, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return lines
}

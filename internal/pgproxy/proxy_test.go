package pgproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/internal/pgproxy"
	"github.com/pgreactor/reactor/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// setup is a proxy before an empty database, and a connection through it and
// one around it.
func setup(t *testing.T) (p *pgproxy.Proxy, through string, around *pgx.Conn) {
	t.Helper()
	server := pgtest.Empty(t)
	p, through, err := pgproxy.Before(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	around = connect(t, server)
	if _, err := around.Exec(t.Context(), `create table kept (n int)`); err != nil {
		t.Fatal(err)
	}
	return p, through, around
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func TestCountsRoundTrips(t *testing.T) {
	t.Parallel()
	p, through, _ := setup(t)
	c := connect(t, through)
	ready, executed := p.Count(pgproxy.ToClient, pgproxy.Ready), p.Count(pgproxy.ToServer, pgproxy.Execute)
	var b pgx.Batch
	b.Queue(`insert into kept select generate_series(1, $1::int)`, 1000)
	b.Queue(`select $1::text`, "a parameter")
	for range 2 { // the first time they are prepared
		if err := c.SendBatch(t.Context(), &b).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Count(pgproxy.ToClient, pgproxy.Ready) - ready; n != 3 {
		t.Errorf("%d round trips, want 3", n)
	}
	if n := p.Count(pgproxy.ToServer, pgproxy.Execute) - executed; n != 4 {
		t.Errorf("%d statements, want 4", n)
	}
	if n := p.Tagged("INSERT 0 1000"); n != 2 {
		t.Errorf("%d inserts, want 2", n)
	}
}

func TestLongMessages(t *testing.T) {
	t.Parallel()
	_, through, _ := setup(t)
	c := connect(t, through)
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i)
	}
	var got []byte
	if err := c.QueryRow(t.Context(), `select $1::bytea`, want).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("what came back is not what was sent")
	}
}

func TestDropCommit(t *testing.T) {
	t.Parallel()
	p, through, around := setup(t)
	c, other := connect(t, through), connect(t, through)
	dropped := p.DropCommit()
	for i, statement := range []string{`begin`, `insert into kept values (1)`} {
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := c.Exec(t.Context(), `commit`); err == nil {
		t.Error("the reply came")
	}
	select {
	case <-dropped:
	case <-time.After(10 * time.Second):
		t.Fatal("no reply was dropped")
	}
	var n int
	if err := around.QueryRow(t.Context(), `select count(*) from kept`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v: the commit itself must be done", n, err)
	}
	if _, err := other.Exec(t.Context(), `begin; insert into kept values (2); commit`); err != nil {
		t.Errorf("the next commit: %v", err)
	}
}

func TestCutAndRefuse(t *testing.T) {
	t.Parallel()
	p, through, _ := setup(t)
	c := connect(t, through)
	p.Cut()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a cut connection works")
	}
	connect(t, through)
	p.Refuse(true)
	if _, err := pgx.Connect(t.Context(), through); err == nil {
		t.Error("a refused connection works")
	}
	p.Refuse(false)
	connect(t, through)
}

package pgtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestCheckLog(t *testing.T) {
	t.Parallel()
	const log = `00000 2026-11-30 19:03:01.123 UTC [10] LOG:  database system is ready to accept connections
40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] ERROR:  deadlock detected
40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] DETAIL:  Process 11 waits for ShareLock on transaction 7.
	Process 12: update b
40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] STATEMENT:  update a
	 where true
23505 2026-11-30 19:03:03.000 UTC [12] db app=[TestB] ERROR:  duplicate key value
23505 2026-11-30 19:03:03.000 UTC [12] db app=[TestB] STATEMENT:  insert 40P01 ERROR:  deadlock detected
25P02 2026-11-30 19:03:04.000 UTC [13] db app=[pgtest-expected] ERROR:  current transaction is aborted
25P02 2026-11-30 19:03:04.000 UTC [13] db app=[pgtest-expected] STATEMENT:  select 1
25P03 2026-11-30 19:03:05.000 UTC [14] db app=[] FATAL:  terminating connection due to idle-in-transaction timeout
`
	want := []string{
		`the server's log has a deadlock:
	40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] ERROR:  deadlock detected
	40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] DETAIL:  Process 11 waits for ShareLock on transaction 7.
	Process 12: update b
	40P01 2026-11-30 19:03:02.000 UTC [11] db app=[TestA/x] STATEMENT:  update a
	where true`,
		`the server's log has a idle in transaction:
	25P03 2026-11-30 19:03:05.000 UTC [14] db app=[] FATAL:  terminating connection due to idle-in-transaction timeout`,
	}
	got, err := CheckLog(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Each of them is made on a real server, whose log must have it in the form that
// CheckLog knows.
func TestCheckLogOfAServer(t *testing.T) {
	t.Parallel()
	s := Server(record(t)) // ends without a check of its log
	t.Cleanup(func() { s.Stop() })
	url := s.URL("postgres")

	conn := connect(t, url)
	fail(t, conn, "22P05", `select '{"a": "\u0000"}'::jsonb ->> 'a'`)
	fail(t, conn, "22021", `select convert_from('\xff', 'UTF8')`)
	fail(t, conn, "22003", `select 2147483648::int`)
	exec(t, conn, "begin")
	fail(t, conn, "22012", "select 1/0") // is allowed
	fail(t, conn, "25P02", "select 1")
	exec(t, conn, "rollback")
	deadlock(t, url)
	exec(t, conn, "set idle_in_transaction_session_timeout = '10ms'")
	exec(t, conn, "begin")
	ended(t, conn.PgConn())

	log, err := os.Open(s.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	found, err := CheckLog(log)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(forbidden) {
		t.Errorf("%d entries, want %d", len(found), len(forbidden))
	}
	for state, what := range forbidden {
		if !strings.Contains(strings.Join(found, "\n"), what+":\n\t"+state+" ") {
			t.Errorf("%s (%s) is not in %q", state, what, found)
		}
	}
}

// fail runs a statement that must be refused so.
func fail(t *testing.T, db executor, state, sql string) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != state {
		t.Fatalf("%s: %v, want %s", sql, err, state)
	}
}

// deadlock has two sessions wait for each other.
func deadlock(t *testing.T, url string) {
	t.Helper()
	one, two := connect(t, url), connect(t, url)
	exec(t, one, "create table locks as select generate_series(1, 2) as id")
	exec(t, one, "begin; update locks set id = id where id = 1")
	exec(t, two, "set deadlock_timeout = '10ms'; begin; update locks set id = id where id = 2")
	waits := make(chan error, 1)
	go func() {
		_, err := one.Exec(context.Background(), "set deadlock_timeout = '1h'; update locks set id = id where id = 2")
		waits <- err
	}()
	fail(t, two, "40P01", "do $$ begin "+
		"while not exists (select from pg_locks where not granted) loop perform pg_sleep(0.01); end loop; "+
		"update locks set id = id where id = 1; end $$")
	exec(t, two, "rollback")
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	exec(t, one, "rollback")
}

// ended waits until the server has closed a connection.
func ended(t *testing.T, conn *pgconn.PgConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := conn.WaitForNotification(ctx); err == nil || ctx.Err() != nil {
		t.Fatalf("the server did not close the connection: %v", err)
	}
}

package pgtest

import (
	"net/url"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/internal/pgdev"
)

// tables says which of these tables a database has.
const tables = `
select table_schema || '.' || table_name from information_schema.tables
 where (table_schema, table_name) in (('reactor', 'runs'), ('public', 'river_job'), ('public', 'mine')) order by 1`

func TestPool(t *testing.T) {
	t.Parallel()
	one, other := Pool(t), Pool(t)
	exec(t, one, "create table public.mine (x int)")
	if diff := cmp.Diff([]string{"public.mine", "public.river_job", "reactor.runs"}, list(t, one, tables)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"public.river_job", "reactor.runs"}, list(t, other, tables)); diff != "" {
		t.Errorf("another database: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{t.Name()}, list(t, one, "show application_name")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	if found := list(t, connect(t, Empty(t)), tables); len(found) > 0 {
		t.Errorf("an empty database has %q", found)
	}
}

func TestDatabasesAreDropped(t *testing.T) {
	t.Parallel()
	r := record(t)
	var names []string
	for _, u := range []string{URL(r), Empty(r)} {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(parsed.Path, "/"))
		connect(t, u) // does not keep it from being dropped
	}
	Pool(r)
	there := func() []string {
		return list(t, shared.admin, `select datname::text from pg_database where datname in ('`+strings.Join(names, "', '")+`')`)
	}
	if len(there()) != 2 {
		t.Fatalf("databases %q, there are %q", names, there())
	}
	r.end()
	if left := there(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if r.errors != nil {
		t.Errorf("the end of the test says %q", r.errors)
	}
}

func TestConnectionNotReleased(t *testing.T) {
	t.Parallel()
	pool := Pool(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := record(t)
	closePool(r, pool, 50*time.Millisecond)
	conn.Release()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "1 connection(s)") {
		t.Errorf("got %q", r.errors)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := Server(t)
	u := s.URL("postgres")
	Migrate(t, u)
	if err := s.Restart(pgdev.Immediate); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"public.river_job", "reactor.runs"}, list(t, connect(t, u), tables)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestServerLogIsChecked(t *testing.T) {
	t.Parallel()
	r := record(t)
	s := Server(r)
	u := s.URL("postgres")
	Migrate(r, u)
	conn := connect(t, u)
	if _, err := conn.Exec(t.Context(), "select 2147483648::int"); err == nil {
		t.Fatal("no error")
	}
	exec(t, conn, newRun("status, owner, process", "'running', null, null"))
	r.end()
	if len(r.errors) != 2 || !strings.HasPrefix(r.errors[0], "G1: ") || !strings.Contains(r.errors[1], "out of range") {
		t.Errorf("got %q", r.errors)
	}
}

func TestApplicationName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	for name, want := range map[string]string{"Test/a b+c": "Test/a b+c", "größer": "gr??er", long: long[:63]} {
		u := withApplication(URL(t), name)
		if diff := cmp.Diff([]string{want}, list(t, connect(t, u), "show application_name")); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// A test that gets no database fails: nobody must take it for one that passed.
func TestWithoutADatabaseTestsFail(t *testing.T) {
	t.Parallel()
	again := osexec.Command(os.Args[0], "-test.run=^TestPool$", "-test.v")
	again.Env = append(os.Environ(), URLVariable+"=postgres://someone:secret@127.0.0.1:1/postgres")
	out, err := again.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: TestPool") || !strings.Contains(string(out), "connect to the server for tests") {
		t.Errorf("%v, %s", err, out)
	}
	if strings.Contains(string(out), "secret") {
		t.Errorf("the password is shown: %s", out)
	}
}

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// The demo is run as the README says, on a database of the test's own, and
// judged by what it left there.
func TestDemo(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	bin := filepath.Join(t.TempDir(), "reactorctl")
	build := exec.Command("go", "build", "-o", bin, "./cmd/reactorctl")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	demo := exec.Command(bin, "demo", "--database", url, "--schema", "reactor")
	demo.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := demo.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.Query(t.Context(), `
		select r.status || ': ' || string_agg(n.path || ' ' || n.state || coalesce(' ' || n.hook || ' ' || n.hook_state || ' #' ||
		         (select count(*) from reactor.nodes h where h.run_id = r.id and h.hook_seq > 0 and h.hook_seq <= n.hook_seq), '') ||
		         case when n.recovered > 0 then ' recovered' else '' end, ', ' order by n.seq)
		  from reactor.runs r join reactor.nodes n on n.run_id = r.id
		 group by r.id, r.status, r.created_at order by r.created_at`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			t.Fatal(err)
		}
		got = append(got, run)
	}
	want := []string{
		"completed: hold done, charge done, ship done",
		"failed: hold done undo completed #3, charge done undo completed #2, ship failed compensate skipped #1",
		"completed: hold done, charge done recovered, ship done",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s\n%s", diff, strings.Join(got, "\n"))
	}
}

package pgtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	someRun   = "00000000-0000-7000-8000-000000000001"
	someOwner = "00000000-0000-7000-8000-00000000000a"
)

// newRun is the statement that adds a run with these columns beside those that
// every run has.
func newRun(columns, values string) string { return newRunOf("root", columns, values) }

func newRunOf(kind, columns, values string) string {
	return fmt.Sprintf(`insert into reactor.runs
		(id, root_id, version, created_at, definition, priority, kind, reactor, fingerprint, queue, %s)
		values ('%s', '%[2]s', 1, now(), 1, 1, '%s', 'checkout', 'x', 'reactor', %s);`, columns, someRun, kind, values)
}

// newNode is the statement that adds a node to the run.
func newNode(path, columns, values string) string {
	return fmt.Sprintf(`insert into reactor.nodes (run_id, path, kind, %s) values ('%s', '%s', 'step', %s);`, columns, someRun, path, values)
}

// to is the statement that changes the run.
func to(assignments string) string { return "update reactor.runs set " + assignments + ";" }

const (
	ownedRun = "'running', '" + someOwner + "', '" + someOwner + "'"
	ends     = ", owner = null, process = null, ended_at = now()"
)

var owned = newRun("status, owner, process", ownedRun)

func TestViolations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ plant, want string }{
		"G1: nothing wakes it": {
			newRun("status", "'running'"),
			"G1: checkout run " + someRun + " (running) has no owner, due time, wait, open pause, or blocked or suspension reason",
		},
		"G1: paused without a pause": {
			owned + to("status = 'paused', owner = null, process = null"),
			"G1: checkout run " + someRun + " (paused) has no owner, due time, wait, open pause, or blocked or suspension reason",
		},
		"G1: due, and no sweep looks": {
			newRun("status, due", "'pending', now()"),
			"G1: checkout run " + someRun + " (pending) is due and the sweep will not wake it: wake_at is null",
		},
		"G2: owned": {
			owned + to("status = 'completed', ended_at = now()"),
			"G2: checkout run " + someRun + " (completed) is final and has an owner",
		},
		"G2: due": {
			owned + to("status = 'failed', due = now(), wake_at = now()"+ends),
			"G2: checkout run " + someRun + " (failed) is final and has a due time a wake-up",
		},
		"G2: no end": {
			"alter table reactor.runs drop constraint runs_check1;" + owned + to("status = 'halted', owner = null, process = null"),
			"G2: checkout run " + someRun + " (halted) is final and has no time of its end",
		},
		"G2: waits": {
			owned + to("status = 'completed'"+ends) +
				"insert into reactor.waits (run_id, path, kind, key, since) values ('" + someRun + "', 'ship', 'lock', 'order:1', now());",
			"G2: checkout run " + someRun + " (completed) is final and waits at ship for lock order:1",
		},
		"G3: new": {
			newRun("status, ended_at", "'completed', now()"),
			"G3: root " + someRun + `: (new) -> completed with rollback "" is no transition`,
		},
		"G3: revived": {
			owned + to("status = 'completed'"+ends) + to("status = 'running', ended_at = null, due = now(), wake_at = now()"),
			"G3: root " + someRun + `: completed -> running with rollback "" is no transition`,
		},
		"G3: rolled back after its end": {
			owned + to("status = 'completed'"+ends) + to("status = 'rolling_back', rollback = 'failure', ended_at = null, due = now(), wake_at = now()"),
			"G3: root " + someRun + `: completed -> rolling_back with rollback "failure" needs Undo as its cause`,
		},
		"G4: another result": {
			owned + newNode("charge", "state, output", "'done', '1'") + "update reactor.nodes set output = '2';",
			"G4: node charge of run " + someRun + " was settled, and its result was replaced",
		},
		"G4: a result gone": {
			owned + newNode("charge", "state, output", "'skipped', '1'") + "update reactor.nodes set output = null;",
			"G4: node charge of run " + someRun + " was settled, and its result was replaced",
		},
		"G4: again": {
			owned + newNode("charge", "state, output", "'done', '1'") + "update reactor.nodes set state = 'running';",
			"G4: node charge of run " + someRun + " was settled, and done became running",
		},
		"nodes: at work": {
			owned + newNode("charge", "state", "'running'") + to("status = 'completed'"+ends),
			"nodes: checkout run " + someRun + " is completed, and its node charge is running",
		},
		"nodes: hook at work": {
			owned + newNode("charge", "state, hook, hook_state", "'done', 'undo', 'running'") + to("status = 'completed'"+ends),
			"nodes: checkout run " + someRun + " is completed, and its node charge is done with its hook running",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invariant, _, _ := strings.Cut(name, ":")
			Allow(t, invariant, "planted")
			pool := Pool(t)
			exec(t, pool, c.plant)
			got, err := Violations(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want}, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestNoViolations(t *testing.T) {
	t.Parallel()
	rolled := to("status = 'rolling_back', rollback = 'undo', ended_at = null, owner = '" + someOwner + "', process = '" + someOwner + "'")
	for name, plant := range map[string]string{
		"nothing":          "",
		"owned":            owned,
		"due":              newRun("status, due, wake_at", "'pending', now(), now()"),
		"blocked":          newRun("status, blocked", "'running', 'step charge is gone'"),
		"suspended":        newRun("status, suspended", "'running', 'ada: looks odd'"),
		"an open pause":    owned + newNode("approve", "state", "'waiting'") + to("status = 'paused', owner = null, process = null"),
		"a wait":           newRun("status", "'running'") + "insert into reactor.waits (run_id, path, kind, key, since) values ('" + someRun + "', '', 'lock', 'a', now());",
		"never ran":        newRun("status, ended_at", "'failed', now()"),
		"completed":        owned + newNode("charge", "state, output", "'done', '1'") + to("status = 'completed'"+ends),
		"undone":           owned + to("status = 'completed'"+ends) + rolled + to("status = 'cancelled'"+ends),
		"undo of an end":   owned + to("status = 'completed'"+ends) + newRequest + to("due = now(), wake_at = now()"),
		"rolled-back node": owned + newNode("charge", "state, output", "'done', '1'") + "update reactor.nodes set hook = 'undo', hook_state = 'completed';",
		"retried":          owned + newNode("charge", "state", "'running'") + "update reactor.nodes set state = 'done', output = '1';",
		"rolled back element": newRunOf("element", "status, owner, process", ownedRun) + to("status = 'completed'"+ends) +
			strings.Replace(rolled, "'undo'", "'failure'", 1) + to("status = 'cancelled'"+ends),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exec(t, Pool(t), plant) // the end of the test looks
		})
	}
}

const newRequest = "insert into reactor.requests (run_id, kind, id, created_at) values ('" + someRun + "', 'undo', '" + someOwner + "', now());"

func TestViolationsWithoutOurTables(t *testing.T) {
	t.Parallel()
	got, err := Violations(t.Context(), connect(t, Empty(t)))
	if err != nil || got != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// The history is written by whoever changes a run, whatever else it may do.
func TestHistoryOfAPlainRole(t *testing.T) {
	t.Parallel()
	server := Server(t).URL("postgres")
	Migrate(t, server)
	admin := connect(t, server)
	exec(t, admin, "create role plain login password 'known'; grant usage on schema reactor to plain; grant all on all tables in schema reactor to plain")
	exec(t, connect(t, asUser(t, server, "plain")), owned)
	if diff := cmp.Diff([]string{" running"}, list(t, admin, "select was || ' ' || is_now from pgtest_history.statuses")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestInvariantsFailTheTest(t *testing.T) {
	t.Parallel()
	r := record(t)
	pool := Pool(r)
	exec(t, pool, newRun("status, ended_at, due", "'completed', now(), now()"))
	Invariants(r, pool)
	if len(r.errors) != 2 || !strings.HasPrefix(r.errors[0], "G2: ") || !strings.HasPrefix(r.errors[1], "G3: ") {
		t.Errorf("reported are %q", r.errors)
	}
	r.errors = nil
	Allow(r, "G3", "a planted end")
	r.name += "/part"
	r.end()
	if len(r.errors) != 1 || !strings.HasPrefix(r.errors[0], "G2: ") {
		t.Errorf("reported at the end are %q", r.errors)
	}
}

func TestAllowRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"G9", "why"}, {"G1", ""}} {
		f := &fatal{recorder: record(t)}
		Allow(f, c[0], c[1])
		if !f.failed {
			t.Errorf("Allow(%q, %q) is accepted", c[0], c[1])
		}
	}
}

// A fatal is a test that notes its Fatalf.
type fatal struct {
	*recorder
	failed bool
}

func (f *fatal) Fatalf(string, ...any) { f.failed = true }

package pgtest

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

//go:embed history.sql
var historySQL string

// A Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A check is an invariant: a query whose rows are what breaks it.
type check struct {
	name, needs, sql string // needs is the schema without which it says nothing
}

const finalStatuses = `('completed', 'halted', 'failed', 'cancelled', 'aborted')`

// checks are the invariants that one statement can look for.
var checks = []check{
	{"G1", "reactor", `
select format('%s run %s (%s) has no owner, due time, wait, open pause, or blocked or suspension reason', reactor, id, status)
  from reactor.runs r
 where status not in ` + finalStatuses + `
   and owner is null and due is null and blocked is null and suspended is null
   and not exists (select from reactor.waits w where w.run_id = r.id)
   and not (status = 'paused' and exists (select from reactor.nodes n where n.run_id = r.id and n.state = 'waiting'))`},
	{"G1", "reactor", `
select format('%s run %s (%s) is due and the sweep will not wake it: wake_at is null', reactor, id, status)
  from reactor.runs
 where status not in ` + finalStatuses + `
   and owner is null and due is not null and wake_at is null and blocked is null and suspended is null`},
	{"G2", "reactor", `
select format('%s run %s (%s) is final and has%s%s%s%s', reactor, id, status,
              case when ended_at is null then ' no time of its end' end, case when owner is not null then ' an owner' end,
              case when due is not null then ' a due time' end, case when wake_at is not null then ' a wake-up' end)
  from reactor.runs r
 where status in ` + finalStatuses + `
   and (ended_at is null or owner is not null or due is not null or wake_at is not null)
   and not exists (select from reactor.requests q where q.run_id = r.id and q.done_at is null)`},
	{"G2", "reactor", `
select format('%s run %s (%s) is final and waits at %s for %s %s', r.reactor, r.id, r.status, w.path, w.kind, w.key)
  from reactor.waits w join reactor.runs r on r.id = w.run_id
 where r.status in ` + finalStatuses},
	{"G4", "pgtest_history", `
select format('node %s of run %s was settled, and %s', path, run_id, what) from pgtest_history.results`},
	{"nodes", "reactor", `
select format('%s run %s is completed, and its node %s is %s%s', r.reactor, r.id, n.path, n.state, ' with its hook ' || n.hook_state)
  from reactor.nodes n join reactor.runs r on r.id = n.run_id
 where r.status = 'completed' and (n.state in ('running', 'waiting', 'halted', 'open') or n.hook_state = 'running')`},
}

// mostViolations is how many of one check are listed.
const mostViolations = 10

const transitionsSQL = `
select min(run_id::text) as run, kind, was, is_now, rollback, count(*) - 1 as how_many_others
  from pgtest_history.statuses group by kind, was, is_now, rollback order by 2, 3, 4, 5`

// Violations lists what breaks an invariant in a database, each with the name of
// the invariant in front:
//
//	G1     an unfinished run has a reason to wake up, or one why it does not
//	G2     nothing that can wake a run belongs to a final one
//	G3     only allowed transitions of statuses were seen
//	G4     the result of a settled node never changed
//	nodes  no node of a completed run is at work
//
// G3 and G4 need the history that Pool, URL and Migrate make. Without the schema
// reactor there is nothing to check.
func Violations(ctx context.Context, db Querier) ([]string, error) {
	schemas, err := texts(ctx, db, `select nspname::text from pg_namespace`)
	if err != nil {
		return nil, fmt.Errorf("check the invariants: %w", err)
	}
	var found []string
	for _, c := range checks {
		if !slices.Contains(schemas, c.needs) {
			continue
		}
		lines, err := texts(ctx, db, fmt.Sprintf("%s order by 1 limit %d", c.sql, mostViolations))
		if err != nil {
			return nil, fmt.Errorf("check invariant %s: %w", c.name, err)
		}
		for _, line := range lines {
			found = append(found, c.name+": "+line)
		}
	}
	if !slices.Contains(schemas, "pgtest_history") {
		return found, nil
	}
	wrong, err := wrongTransitions(ctx, db)
	return append(found, wrong...), err
}

func wrongTransitions(ctx context.Context, db Querier) ([]string, error) {
	rows, err := db.Query(ctx, transitionsSQL)
	if err != nil {
		return nil, fmt.Errorf("check invariant G3: %w", err)
	}
	seen, err := pgx.CollectRows(rows, pgx.RowToStructByName[transition])
	if err != nil {
		return nil, fmt.Errorf("check invariant G3: %w", err)
	}
	var wrong []string
	for _, s := range seen {
		if problem := s.problem(); problem != "" {
			wrong = append(wrong, fmt.Sprintf("G3: %s %s", s, problem))
		}
	}
	return wrong, nil
}

func texts(ctx context.Context, db Querier, sql string) ([]string, error) {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Invariants fails the test for each of the Violations that it did not Allow.
// Databases of Pool, URL and Migrate are checked so at the end of their test.
func Invariants(t testing.TB, db Querier) {
	t.Helper()
	report(t.Context(), t, db)
}

func report(ctx context.Context, t testing.TB, db Querier) {
	t.Helper()
	found, err := Violations(ctx, db)
	if err != nil {
		t.Error(err)
	}
	for _, violation := range found {
		name, _, _ := strings.Cut(violation, ":")
		if !allows(t.Name(), name) {
			t.Error(violation)
		}
	}
}

// An exemption is a check that a test does not want.
type exemption struct{ test, check string }

var exemptions sync.Map // exemption to true

// Allow takes the test, with its subtests, out of one of the checks of
// Violations; why is for the reader and must not be empty.
func Allow(t testing.TB, name, why string) {
	t.Helper()
	known := name == "G3" || slices.ContainsFunc(checks, func(c check) bool { return c.name == name })
	if !known || why == "" {
		t.Fatalf("pgtest.Allow(%q, %q): want one of the checks of Violations and a reason", name, why)
	}
	exemptions.Store(exemption{t.Name(), name}, true)
}

// allows reports whether a test, or one that it is part of, is out of a check.
func allows(test, check string) bool {
	for name := test; ; {
		if _, ok := exemptions.Load(exemption{name, check}); ok {
			return true
		}
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			return false
		}
		name = name[:cut]
	}
}

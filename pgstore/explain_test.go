package pgstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

// A state is what a database knows of itself while a statement is planned.
type state struct {
	name string
	make []string // statements
}

const (
	analyze = `analyze reactor.runs, reactor.run_payloads, reactor.nodes, reactor.processes`

	// Nobody but the test decides when the statistics are taken.
	byHand = `alter table reactor.runs set (autovacuum_enabled = off);
		alter table reactor.run_payloads set (autovacuum_enabled = off);
		alter table reactor.nodes set (autovacuum_enabled = off);
		alter table reactor.processes set (autovacuum_enabled = off);
		alter table reactor.runs disable trigger user;
		alter table reactor.nodes disable trigger user`

	processes = `insert into reactor.processes select ('00000000-0000-0000-0000-00000000000' || i)::uuid, 'h', i, now(), now(),
		now() + interval '1 hour', '{checkout@1}', '{reactor}' from generate_series(1, 4) i`

	finished = `insert into reactor.runs (id, root_id, version, created_at, started_at, ended_at, definition, priority, kind, status,
		reactor, fingerprint, queue, start_key)
		select id, id, 9, now() - n * interval '1 second', now() - n * interval '1 second', now(), 1, 2, 'root', 'completed',
		       'checkout', 'f1', 'reactor', 'k' || n
		  from (select n, gen_random_uuid() as id from generate_series(1, 20000) n) s`

	owned = `insert into reactor.runs (id, root_id, owner, process, version, created_at, started_at, definition, priority, kind, status,
		reactor, fingerprint, queue)
		select id, id, gen_random_uuid(), ('00000000-0000-0000-0000-00000000000' || 1 + n % 6)::uuid, 2, now(), now(), 1, 2, 'root',
		       'running', 'checkout', 'f1', 'reactor'
		  from (select n, gen_random_uuid() as id from generate_series(1, 10000) n) s`

	due = `insert into reactor.runs (id, root_id, version, due, wake_at, created_at, definition, priority, kind, status,
		reactor, fingerprint, queue)
		select id, id, 1, now() - n * interval '1 millisecond', now() - n * interval '1 millisecond', now(), 1, 2, 'root',
		       'pending', 'checkout', 'f1', 'reactor'
		  from (select n, gen_random_uuid() as id from generate_series(1, 10000) n) s`

	values = `insert into reactor.run_payloads (run_id, create_id, input)
		select id, gen_random_uuid(), '{}' from reactor.runs on conflict do nothing;
		insert into reactor.nodes (run_id, path, kind, state, seq)
		select id, 'a', 'step', 'done', 1 from reactor.runs on conflict do nothing`
)

var states = []state{
	{"empty", []string{byHand}},
	{"analysed while nobody is in flight", []string{byHand, processes, finished, values, analyze, owned, due, values}},
	{"full", []string{byHand, processes, finished, owned, due, values, analyze}},
}

// A hot is a statement that is sent for each step of each run or each second.
type hot struct {
	name      string
	arguments []any
	byID      bool            // it is to find headers by their id, in an empty database too
	alone     bool            // it may be sent without our settings
	indexes   map[string]bool // of runs, that it may use
}

func hots() []hot {
	id, token, write := "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002", "01890000-0000-7000-8000-000000000003"
	process := "00000000-0000-0000-0000-000000000001"
	ids := []string{id, token, write, process}
	for i := range engine.MaxWake - len(ids) {
		ids = append(ids, fmt.Sprintf("01890000-0000-7000-8000-0000000001%02d", i))
	}
	key := map[string]bool{"runs_pkey": true}
	none := []string{}
	save := pgstore.SaveArguments(id, token, write)
	create := pgstore.CreateArguments(id, write, "k17")
	return []hot{
		{"save", save, true, false, key},
		{"save step", pgstore.StepArguments(id, token, write), true, false, key},
		{"saved", []any{id, write}, true, false, key},
		{"claim", []any{process, ids, ids, ids, []string{"checkout@1"}}, true, false, key},
		{"claimed", []any{ids, ids}, true, false, key},
		{"claimed nodes", []any{ids, ids}, true, false, key},
		{"claim refused", []any{process, ids, ids, []string{"checkout@1"}}, true, false, key},
		{"create", create, true, true, key},
		{"created", []any{ids, ids, ids, ids}, true, true, map[string]bool{"runs_pkey": true, "runs_start_key": true}},
		{"get", []any{id}, true, false, key},
		{"get nodes", []any{id}, true, false, key},
		{"statuses", []any{ids}, true, false, key},
		{"wake", []any{ids, 1}, true, false, key},
		{"begin pass", []any{1000000}, false, true, map[string]bool{"runs_wake": true, "runs_owned": true}},
		{"dead runs", []any{1000, none}, false, false, map[string]bool{"runs_owned": true}},
		{"due runs", []any{1000, none}, false, false, map[string]bool{"runs_wake": true}},
		{"leftovers", []any{1000}, false, false, map[string]bool{"runs_owned": true}},
		{"unworked", nil, false, false, map[string]bool{"runs_wake": true}},
	}
}

// spec: K-943, K-418
func TestHotStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			pgtest.Allow(t, "G1", "the runs are made up")
			pool := pgtest.Pool(t)
			for _, sql := range s.make {
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range hots() {
				t.Run(h.name, func(t *testing.T) { h.check(t, pool, s.name == "empty") })
			}
		})
	}
}

// check explains the statement as a transaction of the store would have it
// planned, and looks at how it reads the tables that grow.
func (h hot) check(t *testing.T, pool *pgxpool.Pool, empty bool) {
	t.Helper()
	plan := h.explained(t, pool)
	for _, scan := range plan.scans() {
		switch {
		case !slices.Contains([]string{"runs", "run_payloads", "nodes"}, scan.Relation) && scan.Relation != "":
		case scan.Type == "Seq Scan" && (h.byID || !empty):
			t.Errorf("reads all of %s:\n%s", scan.Relation, plan)
		case strings.HasPrefix(scan.Index, "runs_") && !h.indexes[scan.Index]:
			t.Errorf("reads %s:\n%s", scan.Index, plan)
		}
	}
}

// plans is that of the transaction in which the store sends the statement.
func (h hot) plans() string {
	if h.name == "save step" {
		return "force_generic_plan"
	}
	return "force_custom_plan"
}

// explained is the plan of the statement as the store sends it.
func (h hot) explained(t *testing.T, pool *pgxpool.Pool) node {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if !h.alone {
		if _, err := tx.Exec(t.Context(), pgstore.Statements()["limits"], "1s", "1min", h.plans()); err != nil {
			t.Fatal(err)
		}
	}
	return explain(t, tx, pgstore.Statements()[h.name], h.arguments)
}

// lists is what operators ask for, and the index that must find it.
var lists = map[string]struct {
	q     engine.Query
	index string
}{
	"all":        {engine.Query{}, "runs_list"},
	"next page":  {engine.Query{Cursor: "MTc2NDUyODQwMDAwMDAwMCAwMTg5MDAwMC0wMDAwLTcwMDAtODAwMC0wMDAwMDAwMDAwMDE"}, "runs_list"},
	"since":      {engine.Query{Since: time.Now().Add(-time.Hour)}, "runs_list"},
	"reactor":    {engine.Query{Reactor: "parcel"}, "runs_reactor"},
	"id":         {engine.Query{IDPrefix: "0189000"}, "runs_pkey"},
	"failed":     {engine.Query{Status: []engine.Status{engine.Failed}}, "runs_ended_badly"},
	"rolling":    {engine.Query{Status: []engine.Status{engine.RollingBack}}, "runs_unfinished"},
	"blocked":    {engine.Query{Blocked: true}, "runs_stopped"},
	"tag":        {engine.Query{Tags: []string{"rare"}}, "run_payloads_tags"},
	"field":      {engine.Query{Input: map[string]string{"order": "o-17"}}, "run_payloads_fields"},
	"inbox":      {engine.Query{Inbox: true}, "nodes_unresolved"},
	"inbox, too": {engine.Query{Inbox: true}, "runs_stopped"},
}

// spec: K-420
func TestListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	pgtest.Allow(t, "G1", "the runs are made up")
	pool := pgtest.Pool(t)
	for _, sql := range append(states[2].make, `update reactor.run_payloads set tags = '{web}', fields = '{order=x}'`, analyze) {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for what, l := range lists {
		name, arguments := pgstore.ListStatement(l.q)
		h := hot{name: name, arguments: arguments}
		plan := h.explained(t, pool)
		if !slices.ContainsFunc(plan.scans(), func(n node) bool { return n.Index == l.index }) {
			t.Errorf("%s does not use %s:\n%s", what, l.index, plan)
		}
	}
}

// A node is one of a plan, with what lies below it.
type node struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Below    []node `json:"Plans"`
	text     string
}

func (n node) String() string { return n.text }

// scans is all nodes that read a table or an index.
func (n node) scans() (found []node) {
	if strings.HasSuffix(n.Type, "Scan") {
		found = append(found, n)
	}
	for _, b := range n.Below {
		found = append(found, b.scans()...)
	}
	return found
}

func explain(t *testing.T, tx pgx.Tx, sql string, arguments []any) node {
	t.Helper()
	var raw string
	err := tx.QueryRow(t.Context(), "explain (format json) "+sql, arguments...).Scan(&raw)
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "explain "+sql, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plans[0].Plan.text += line + "\n"
	}
	return plans[0].Plan
}

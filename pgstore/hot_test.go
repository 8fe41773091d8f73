package pgstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// The save of a node changes no indexed column of the header, and the header
// has no value in it.
//
// spec: K-920
func TestSavesAreHOT(t *testing.T) {
	t.Parallel()
	f := on(t, open(t, pgtest.URL(t), func(c *pgxpool.Config) { c.MaxConns = 1 }))
	fence := f.owned()
	for i := range 1000 {
		f.save(&fence, step(fmt.Sprintf("n%04d", i), int64(i+1)))
	}
	f.exec(`select pg_stat_force_next_flush()`)
	updated := f.number(`select n_tup_upd from pg_stat_user_tables where relid = 'reactor.runs'::regclass`)
	hot := f.number(`select n_tup_hot_upd from pg_stat_user_tables where relid = 'reactor.runs'::regclass`)
	if updated < 1000 || hot*100 < updated*95 {
		t.Errorf("%d of %d updates of headers were HOT, want 95 %%", hot, updated)
	}
	if n := f.number(`select count(*) from reactor.nodes where xmin::text in (select xmin::text from reactor.nodes where path = 'n0000')`); n != 1 {
		t.Errorf("%d nodes were written with the first one", n)
	}
	if n := f.number(`select n_tup_upd from pg_stat_user_tables where relid = 'reactor.nodes'::regclass`); n != 0 {
		t.Errorf("%d nodes were written again", n)
	}
	f.complete(fence)
	if n := f.number(`select pg_column_size(r.*) from reactor.runs r`); n > 1000 {
		t.Errorf("a header has %d bytes", n)
	}
}

// What a save writes does not grow with the nodes that are there.
//
// spec: K-921, C-1002
func TestSavesCostTheSame(t *testing.T) {
	t.Parallel()
	f := on(t, open(t, pgtest.URL(t), func(c *pgxpool.Config) { c.MaxConns = 1 }))
	fence := f.owned()
	output := json.RawMessage(`"`)
	for range 300 {
		output = append(output, newID()...) // nothing that can be packed
	}
	output = append(output, '"')
	wal := func(from, to int) (bytes int64) {
		start := f.number(`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`)
		for i := from; i < to; i++ {
			c := step(fmt.Sprintf("n%05d", i), int64(i+1))
			c.Nodes[0].Output = output
			f.save(&fence, c)
		}
		return f.number(`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`) - start
	}
	wal(0, 10)
	first := wal(10, 110)
	f.exec(`insert into reactor.nodes (run_id, path, kind, state, seq)
		select $1, 'm' || i, 'step', 'done', i from generate_series(1, 10000) i`, fence.Run)
	last := wal(110, 210)
	if last > 2*first {
		t.Errorf("%d bytes of WAL for 100 saves, after 10,000 nodes %d", first, last)
	}
	if results := int64(100 * len(output)); first > 10*results {
		t.Errorf("%d bytes of WAL for results of %d", first, results)
	}
	f.complete(fence)
}

// A node that is written again keeps its long values where they are.
func TestKeptValuesAreNotWritten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	c := step("a", 1)
	c.Nodes[0].Output = json.RawMessage(`"` + strings.Repeat(newID(), 10_000) + `"`)
	f.save(&fence, c)
	was := f.number(`select pg_total_relation_size('reactor.nodes')`)
	hook := done("a", 1)
	hook.Hook, hook.HookState, hook.HookSeq, hook.Keep = "undo", engine.HookRunning, 2, true
	hook.Input, hook.Output = nil, nil
	for range 50 {
		f.save(&fence, engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{hook}})
	}
	if is := f.number(`select pg_total_relation_size('reactor.nodes')`); is > was+was/2 {
		t.Errorf("the table grew from %d to %d bytes", was, is)
	}
	if got := f.get(fence.Run).Nodes[0]; len(got.Output) != len(c.Nodes[0].Output) || got.HookState != engine.HookRunning {
		t.Errorf("%d bytes, hook %s", len(got.Output), got.HookState)
	}
	hook.HookState = engine.HookCompleted
	f.save(&fence, engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{hook}, Status: engine.Completed})
}

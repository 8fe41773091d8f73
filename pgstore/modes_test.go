package pgstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

const hour = time.Hour

// Every way in which pgx sends statements works, those that poolers need among
// them.
//
// spec: K-860
func TestExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			f := on(t, open(t, pgtest.URL(t), func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				c.MaxConns = 1
			}))
			f.life()
			f.reads()
			f.recovers()
		})
	}
}

// odd is a text with whatever separates and quotes elsewhere, and oddJSON a
// value with it.
const odd = "a,\"b\" 'c' {d} \\ \\' NULL $1 ? %s -- ;\n é😀"

var oddJSON = json.RawMessage(`{"z": 1.10, "a":"\u0000 ' \\ \" {} é", "n":9223372036854775807 }`)

// life takes a run from its creation to its end.
func (f *fixture) life() {
	f.Helper()
	process, run := f.process(hour), newRun()
	run.Input, run.StartKey, run.Tags, run.Fields = oddJSON, odd, []string{odd, "web"}, map[string]string{"order": odd}
	f.create(run)
	f.wokenOnce(run.ID)
	again := newRun()
	again.StartKey = odd
	if c := f.create(again)[0]; !c.Existing || c.ID != run.ID || string(c.Input) != string(oddJSON) {
		f.Errorf("start key: %+v", c)
	}
	claimed, fence := f.own(process, run.ID)
	if string(claimed.Input) != string(oddJSON) || claimed.Tags[0] != odd {
		f.Errorf("claimed with input %s and tags %q", claimed.Input, claimed.Tags)
	}
	node := done("ship/"+odd, 1<<40)
	node.Output, node.Reason, node.RunID = oddJSON, odd, newID()
	f.save(&fence, engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{node}})
	f.save(&fence, engine.Changes{WriteID: newID(), Release: true, Due: true, WakeReason: odd})
	_, fence = f.own(process, run.ID)
	stale := fence
	stale.Version--
	_, err := f.store.Save(f.Context(), stale, step("x", 2))
	if f.refusal(err).Lost {
		f.Errorf("an older version is lost: %v", err)
	}
	f.save(&fence, engine.Changes{WriteID: newID(), Status: engine.Failed, Failure: oddJSON, Output: oddJSON, Reason: odd})
	got := f.get(run.ID)
	n := got.Nodes[0]
	if n.Path != node.Path || n.Seq != 1<<40 || string(n.Output) != string(oddJSON) || n.Reason != odd || n.RunID != node.RunID {
		f.Errorf("node %+v", n)
	}
	if string(got.Failure) != string(oddJSON) || got.Reason != odd || got.WakeReason != odd || got.Version != 6 {
		f.Errorf("run %+v", got)
	}
}

// reads lists what life has left.
func (f *fixture) reads() {
	f.Helper()
	for _, q := range []engine.Query{
		{}, {Tags: []string{odd}}, {Input: map[string]string{"order": odd}}, {Status: []engine.Status{engine.Failed}},
		{Since: time.Now().Add(-hour), Until: time.Now().Add(hour), Reactor: "checkout", Limit: 1},
	} {
		page, next, err := f.store.List(f.Context(), q)
		f.must(err)
		if len(page) != 1 || next != "" || page[0].StartKey != odd {
			f.Errorf("list %+v: %d runs, then %q", q, len(page), next)
		}
	}
	if h, err := f.store.Health(f.Context()); err != nil || len(h.Processes) != 1 || h.Clock.IsZero() {
		f.Errorf("health %+v, %v", h, err)
	}
	if known, err := f.store.Beat(f.Context(), newID(), hour); known || err != nil {
		f.Errorf("heartbeat of nobody: %t, %v", known, err)
	}
}

// recovers takes over a run whose owner died.
func (f *fixture) recovers() {
	f.Helper()
	fence := f.owned()
	if known, err := f.store.Beat(f.Context(), fence.Process, 0); !known || err != nil {
		f.Fatalf("heartbeat: %t, %v", known, err)
	}
	f.queue.clear()
	result, err := f.store.Sweep(f.Context(), engine.SweepPass{Interval: time.Second})
	f.must(err)
	if result.Found[engine.SweepDead] != 1 {
		f.Errorf("sweep found %v", result.Found)
	}
	f.wokenOnce(fence.Run)
	_, taken := f.own(f.process(hour), fence.Run)
	f.complete(taken)
}

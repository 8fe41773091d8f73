package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

var nodePromises = []promise{
	{"node_kept_whole", nodeWhole},
	{"node_written_over", nodeOver},
	{"node_started_stays", nodeStarted},
	{"node_ended", nodeEnded},
	{"node_waits", nodeWaits},
	{"node_keeps_its_values", nodeKeep},
	{"node_many_in_one_save", nodeMany},
	{"node_others_stay", nodeOthers},
}

// done is a step that is done.
func done(path string, seq int64) engine.NodeChange {
	return engine.NodeChange{NodeRow: engine.NodeRow{
		Path: path, Kind: "step", State: engine.NodeDone, Seq: seq, Attempt: 1, Begun: true,
		Input: valueOf(1), Output: valueOf(2),
	}}
}

// fullNode is a node with every field set that a save reads.
func fullNode(path string) engine.NodeChange {
	return engine.NodeChange{NodeRow: engine.NodeRow{
		Path: path, Kind: "step", State: engine.NodeFailed,
		Seq: 1<<40 + 1, Attempt: 3, Begun: true, Recoveries: 2, Recovered: 5,
		Input: valueOf(1), Output: valueOf(2), Failure: valueOf(3), Reason: "declined: \"no\"\n",
		Hook: "compensate", HookState: engine.HookFailed, HookSeq: 1<<40 + 2, HookRecoveries: 4, HookFailure: valueOf(4),
		RunID: newID(),
	}}
}

func storeTimes() []string { return []string{"Started", "Ended", "HookEnded", "Due"} }

// node is the one node of a run by its path.
func (f *fixture) node(run, path string) engine.NodeRow {
	f.Helper()
	for _, n := range f.get(run).Nodes {
		if n.Path == path {
			return n
		}
	}
	f.Fatalf("run %s has no node %s", run, path)
	return engine.NodeRow{}
}

func nodeWhole(f *fixture) {
	fence := f.owned()
	want := fullNode("ship/reserve[17]/hold")
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{want}})
	got := f.node(fence.Run, want.Path)
	f.same("node", got, want.NodeRow, cmpopts.IgnoreFields(engine.NodeRow{}, storeTimes()...))

	bare := engine.NodeChange{NodeRow: engine.NodeRow{Path: "b", Kind: "map_all", State: engine.NodeRunning}}
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{bare}})
	got = f.node(fence.Run, "b")
	f.same("bare node", got, bare.NodeRow, cmpopts.IgnoreFields(engine.NodeRow{}, storeTimes()...))
	if got.Input != nil || got.Output != nil || got.Failure != nil || got.HookFailure != nil {
		f.Errorf("absent values are there: %+v", got)
	}
}

// A save writes a node whole: what it leaves out is gone.
func nodeOver(f *fixture) {
	fence := f.owned()
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{fullNode("a")}})
	second := engine.NodeChange{NodeRow: engine.NodeRow{
		Path: "a", Kind: "step", State: engine.NodeRunning, Attempt: 4, Begun: true, Input: valueOf(7),
	}}
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{second}})
	got := f.node(fence.Run, "a")
	f.same("node", got, second.NodeRow, cmpopts.IgnoreFields(engine.NodeRow{}, storeTimes()...))
	if n := len(f.get(fence.Run).Nodes); n != 1 {
		f.Errorf("%d nodes", n)
	}
}

func nodeStarted(f *fixture) {
	fence := f.owned()
	at := engine.NodeChange{NodeRow: engine.NodeRow{Path: "a", Kind: "step", State: engine.NodeRunning}, Took: long}
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{at}})
	first := f.node(fence.Run, "a").Started
	f.near("started", first, f.get(fence.Run).Now.Add(-long))
	at.State, at.Took = engine.NodeDone, 0
	at.Started = first.Add(long) // not read
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{at}})
	f.same("started", f.node(fence.Run, "a").Started, first)
}

// Ended is when the node settled, HookEnded when its hook came to an end.
func nodeEnded(f *fixture) {
	fence := f.owned()
	n := engine.NodeChange{NodeRow: engine.NodeRow{Path: "a", Kind: "step", State: engine.NodeRunning}}
	n.Ended, n.HookEnded = f.get(fence.Run).Now, f.get(fence.Run).Now // not read
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	if got := f.node(fence.Run, "a"); !got.Ended.IsZero() || !got.HookEnded.IsZero() {
		f.Errorf("a node at work ended at %s, its hook at %s", got.Ended, got.HookEnded)
	}
	n = done("a", 1)
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	settled := f.node(fence.Run, "a")
	if settled.Ended.Before(settled.Started) || !settled.HookEnded.IsZero() {
		f.Errorf("started %s, ended %s, hook ended at %s", settled.Started, settled.Ended, settled.HookEnded)
	}
	n.Hook, n.HookState, n.Keep = "undo", engine.HookRunning, true
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	if got := f.node(fence.Run, "a"); !got.HookEnded.IsZero() {
		f.Errorf("a hook at work ended at %s", got.HookEnded)
	}
	f.after(settled.Ended)
	n.Hook, n.HookState, n.HookSeq, n.Keep = "undo", engine.HookCompleted, 2, true
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	got := f.node(fence.Run, "a")
	f.same("ended", got.Ended, settled.Ended)
	if !got.HookEnded.After(got.Ended) || got.HookEnded.After(f.get(fence.Run).Now) {
		f.Errorf("ended %s, hook ended at %s", got.Ended, got.HookEnded)
	}
}

func nodeWaits(f *fixture) {
	fence := f.owned()
	n := engine.NodeChange{
		NodeRow: engine.NodeRow{Path: "a", Kind: "step", State: engine.NodeWaiting, Attempt: 1, Begun: true, Failure: valueOf(1)},
		DueIn:   long,
	}
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	got := f.node(fence.Run, "a")
	f.near("due", got.Due, f.get(fence.Run).Now.Add(long))
	if !got.Ended.IsZero() {
		f.Errorf("a node that waits ended at %s", got.Ended)
	}
	n.State = engine.NodeDone
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	if got := f.node(fence.Run, "a"); !got.Due.IsZero() {
		f.Errorf("a node that is done waits until %s", got.Due)
	}
}

func nodeKeep(f *fixture) {
	fence := f.owned()
	n := done("a", 1)
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	n.Keep, n.Input, n.Output = true, valueOf(8), nil // not read
	n.Hook, n.HookState, n.HookSeq = "undo", engine.HookSkipped, 2
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}})
	got := f.node(fence.Run, "a")
	f.same("values", []string{string(got.Input), string(got.Output)}, []string{string(valueOf(1)), string(valueOf(2))})
	f.same("hook", []any{got.Hook, got.HookState, got.HookSeq}, []any{"undo", engine.HookSkipped, int64(2)})
}

func nodeMany(f *fixture) {
	const n = 300
	fence := f.owned()
	var c engine.Changes
	for i := range n {
		c.Nodes = append(c.Nodes, done(fmt.Sprintf("n%03d", i), int64(i+1)))
	}
	f.save(&fence, c)
	got := f.get(fence.Run).Nodes
	if len(got) != n {
		f.Fatalf("%d of %d nodes", len(got), n)
	}
	for _, row := range got {
		if row.Path != fmt.Sprintf("n%03d", row.Seq-1) {
			f.Errorf("node %s has seq %d", row.Path, row.Seq)
		}
	}
}

// A save touches the nodes that it names, of its own run.
func nodeOthers(f *fixture) {
	mine, other := f.owned(), f.owned()
	f.save(&mine, engine.Changes{Nodes: []engine.NodeChange{fullNode("a"), fullNode("b")}})
	f.save(&other, engine.Changes{Nodes: []engine.NodeChange{fullNode("a")}})
	a, b, was := f.node(mine.Run, "a"), f.node(mine.Run, "b"), f.get(other.Run)
	f.after(was.Now.Add(time.Millisecond))
	f.save(&mine, engine.Changes{Nodes: []engine.NodeChange{done("a", 3)}})
	f.same("the node that was not named", f.node(mine.Run, "b"), b)
	if got := f.node(mine.Run, "a"); got.State == a.State {
		f.Errorf("the node that was named is still %s", got.State)
	}
	f.sameRun(was)
}

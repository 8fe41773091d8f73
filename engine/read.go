package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Get is a run as operators see it: ids and JSON. ErrRunNotFound if there is
// none.
func (e *Engine) Get(ctx context.Context, runID string) (View, error) {
	if ctx == nil {
		return View{}, errNilContext
	}
	rec, err := e.load(ctx, runID)
	if err != nil {
		return View{}, err
	}
	return e.view(rec, e.redactionsOf(ctx, rec)), nil
}

// List is a page of runs, newest first.
func (e *Engine) List(ctx context.Context, q Query) (Page, error) {
	if ctx == nil {
		return Page{}, errNilContext
	}
	if err := e.check(ctx); err != nil {
		return Page{}, err
	}
	records, next, err := e.config.Store.List(ctx, q)
	if err != nil {
		return Page{}, fmt.Errorf("list runs: %w", err)
	}
	page := Page{Next: next, Runs: make([]View, len(records))}
	for i := range records {
		page.Runs[i] = e.header(&records[i])
	}
	return page, nil
}

// Health is the state of the database and of the processes that work on it.
func (e *Engine) Health(ctx context.Context) (*Health, error) {
	return e.config.Store.Health(ctx)
}

// redactions are what may not be shown of the values of a run, and the nodes
// that it has.
type redactions struct {
	in, out redaction
	nodes   map[string]graphNode
	order   []graphNode // the nodes of the run's own graph, in source order
	unknown bool        // nothing is known of the definition: show nothing
}

// redactionsOf takes the definition at hand, and what is stored of the run's own
// where they differ.
func (e *Engine) redactionsOf(ctx context.Context, rec *Record) redactions {
	def := e.definitionOf(rec.Reactor, rec.Definition)
	if def != nil && def.stored.Fingerprint == rec.Fingerprint {
		return redactionsIn(def.graph, def.graph)
	}
	own, err := e.storedGraph(ctx, rec.Fingerprint)
	switch {
	case err != nil && def == nil:
		return redactions{unknown: true}
	case err != nil:
		return redactionsIn(def.graph, def.graph)
	case def == nil:
		return redactionsIn(own, own)
	}
	return redactionsIn(def.graph, own)
}

func (e *Engine) storedGraph(ctx context.Context, fingerprint string) (graph, error) {
	stored, err := e.config.Store.Graph(ctx, fingerprint)
	if err != nil {
		return graph{}, err
	}
	if stored == nil {
		return graph{}, fmt.Errorf("graph %s is not stored", fingerprint)
	}
	return readGraph(stored)
}

// redactionsIn are those of the graph at hand, and for nodes that it has no more
// those of the run's own.
func redactionsIn(atHand, own graph) redactions {
	r := redactions{in: atHand.In.Redact, out: atHand.Out.Redact, order: own.Nodes, nodes: map[string]graphNode{}}
	for _, n := range own.Nodes {
		r.nodes[n.Name] = n
	}
	for _, n := range atHand.Nodes {
		r.nodes[n.Name] = n
	}
	return r
}

// show is a stored value as people may see it.
func (r redactions) show(e *Engine, hidden redaction, known bool, sealed json.RawMessage) json.RawMessage {
	if sealed == nil {
		return nil
	}
	if r.unknown || !known {
		return json.RawMessage(`"[NOT SHOWN: its definition is not stored]"`)
	}
	plain, err := e.unseal(sealed)
	if err != nil {
		return sealed
	}
	return hidden.apply(plain)
}

// header is a View without values and nodes.
func (e *Engine) header(rec *Record) View {
	v := View{
		RunID: rec.ID, ParentID: rec.Parent, RootID: rec.Root, Reactor: rec.Reactor, Version: rec.Definition,
		Kind: string(rec.Kind), Status: rec.Status, Waiting: waitingFor(rec), Blocked: rec.Blocked, Suspended: rec.Suspended,
		Reason: rec.Reason, Tags: rec.Tags, Queue: rec.Queue, Priority: rec.Priority, Owner: rec.Process,
		Created: rec.Created, Started: rec.Started, Ended: rec.Ended,
	}
	if rec.Failure != nil {
		v.Failure = e.failureOf(rec, nil)
	}
	return v
}

// waitingFor says in words what a run waits for; "" if it does not wait.
func waitingFor(rec *Record) string {
	if rec.Status.Final() || rec.Owner != "" || rec.Due.IsZero() {
		return ""
	}
	reason := rec.WakeReason
	switch {
	case rec.Due.After(rec.Now) && reason == "":
		reason = "start"
	case !rec.Due.After(rec.Now):
		return "a worker"
	}
	return reason + " at " + rec.Due.UTC().Format(time.RFC3339)
}

func (e *Engine) view(rec *Record, r redactions) View {
	v := e.header(rec)
	v.Input = r.show(e, r.in, true, rec.Input)
	v.Output = r.show(e, r.out, true, rec.Output)
	v.ToUndo = toUndo(rec)
	slices.SortFunc(rec.Nodes, func(a, b NodeRow) int { return compareSettled(a, b) })
	v.Nodes = e.nodeViews(rec, r)
	v.Trace = traceOf(rec)
	return v
}

// nodeViews are the nodes in source order, those that have not begun included;
// last come those that only an earlier graph of the run had.
func (e *Engine) nodeViews(rec *Record, r redactions) []NodeView {
	rows := make(map[string]*NodeRow, len(rec.Nodes))
	for i := range rec.Nodes {
		rows[rec.Nodes[i].Path] = &rec.Nodes[i]
	}
	var views []NodeView
	for _, n := range r.order {
		row := rows[n.Name]
		if row == nil {
			row = &NodeRow{Path: n.Name, Kind: n.Kind, State: nodePending}
		}
		views = append(views, e.nodeView(row, r))
		delete(rows, n.Name)
	}
	for i := range rec.Nodes {
		if row := &rec.Nodes[i]; rows[row.Path] != nil {
			views = append(views, e.nodeView(row, r))
		}
	}
	return views
}

// compareSettled sorts what has settled by its order and the rest last.
func compareSettled(a, b NodeRow) int {
	switch {
	case a.Seq == b.Seq:
		return a.Started.Compare(b.Started)
	case a.Seq == 0:
		return 1
	case b.Seq == 0:
		return -1
	}
	return int(a.Seq - b.Seq)
}

func (e *Engine) nodeView(row *NodeRow, r redactions) NodeView {
	n, known := r.nodes[row.Path]
	v := NodeView{
		Path: row.Path, Kind: row.Kind, State: string(row.State), Attempts: row.Attempt, Recovered: row.Recovered,
		Input: r.show(e, n.In.Redact, known, row.Input), Output: r.show(e, n.Out.Redact, known, row.Output),
		Reason: row.Reason, Hook: row.Hook, HookState: string(row.HookState),
		Started: row.Started, Ended: row.Ended, RunID: row.RunID,
	}
	if row.Failure != nil {
		if raw, err := e.unseal(row.Failure); err == nil {
			v.Failure = readFailure(raw, "", "").text
		}
	}
	return v
}

// traceOf is the history of a run, read from its nodes in the order in which
// they settled and were rolled back: a run entry for each attempt, an entry for
// each hook that was called.
func traceOf(rec *Record) []string {
	var trace []string
	for i := range rec.Nodes {
		trace = append(trace, entriesOf(&rec.Nodes[i])...)
	}
	var hooks []NodeRow
	for _, row := range rec.Nodes {
		if row.HookSeq > 0 && (row.HookState == HookCompleted || row.HookState == HookFailed) {
			hooks = append(hooks, row)
		}
	}
	slices.SortFunc(hooks, func(a, b NodeRow) int { return int(a.HookSeq - b.HookSeq) })
	for _, row := range hooks {
		trace = append(trace, row.Hook+" "+row.Path)
	}
	return trace
}

func entriesOf(row *NodeRow) (entries []string) {
	for range row.Recovered {
		entries = append(entries, "recovered "+row.Path)
	}
	attempts := row.Attempt
	if row.State == NodeFailed && row.Reason == notCalled {
		attempts--
	}
	if !row.Begun {
		attempts = 0
	}
	for range attempts {
		entries = append(entries, "run "+row.Path)
	}
	switch row.State {
	case NodeSkipped:
		entries = append(entries, "skipped "+row.Path)
	case NodeHalted:
		entries = append(entries, "halt "+row.Path)
	}
	return entries
}

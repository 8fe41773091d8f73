package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pgreactor/reactor/engine"
)

// An outcome is what became of an act, as the database says.
type outcome struct {
	act
	run    string
	killed *worker

	view     engine.View
	calls    []callRow
	problems []string // what is not as promised
}

// read loads the run and judges it.
func (d *demo) read(ctx context.Context, o *outcome) (err error) {
	if o.view, err = d.eng.Get(ctx, o.run); err != nil {
		return err
	}
	if o.calls, err = d.ledger.calls(ctx, o.run); err != nil {
		return err
	}
	o.judge()
	return nil
}

func (o *outcome) judge() {
	o.expect("status", string(o.status), string(o.view.Status))
	o.expect("steps undone", strings.Join(o.act.undone, ", "), strings.Join(o.undone(), ", "))
	o.expect("calls", strings.Join(o.act.calls, ", "), strings.Join(o.whats(), ", "))
	failedAt, left := "", 0
	if f := o.view.Failure; f != nil {
		failedAt, left = f.Node, len(f.Rollback)
	}
	o.expect("failed at", o.failedAt, failedAt)
	o.expect("rollback failures", "0", fmt.Sprint(left))
	if o.kill {
		o.judgeTakeOver()
	}
}

// judgeTakeOver wants the two calls of charge under one key, from two workers,
// the second of them without an effect.
func (o *outcome) judgeTakeOver() {
	if o.killed == nil || len(o.calls) != len(o.act.calls) {
		o.problems = append(o.problems, "the worker was not killed in charge")
		return
	}
	before, after := o.calls[1], o.calls[2]
	o.expect("worker of the first charge", fmt.Sprint(o.killed.pid()), fmt.Sprint(before.Worker))
	o.expect("another worker charged again", "true", fmt.Sprint(after.Worker != before.Worker))
	o.expect("key of the second charge", before.Key, after.Key)
	o.expect("charged once", "true false", fmt.Sprint(before.First, after.First))
	o.expect("take-overs of charge", "1", fmt.Sprint(o.node("charge").Recovered))
}

func (o *outcome) expect(what, want, got string) {
	if want != got {
		o.problems = append(o.problems, fmt.Sprintf("%s: %q, promised was %q", what, got, want))
	}
}

func (o *outcome) node(path string) engine.NodeView {
	i := slices.IndexFunc(o.view.Nodes, func(n engine.NodeView) bool { return n.Path == path })
	if i < 0 {
		return engine.NodeView{}
	}
	return o.view.Nodes[i]
}

// undone are the steps whose undo was done, in its order.
func (o *outcome) undone() (paths []string) {
	for _, entry := range o.view.Trace {
		if path, ok := strings.CutPrefix(entry, "undo "); ok && o.node(path).HookState == string(engine.HookCompleted) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (o *outcome) whats() (whats []string) {
	for _, c := range o.calls {
		whats = append(whats, c.What)
	}
	return whats
}

// done is how many steps were done, undone ones included.
func (o *outcome) done() (n int) {
	for i := range o.view.Nodes {
		if o.view.Nodes[i].State == string(engine.NodeDone) {
			n++
		}
	}
	return n
}

// story is what happened, in a few words.
func (o *outcome) story() string {
	switch {
	case len(o.problems) > 0:
		return "NOT AS PROMISED"
	case o.killed != nil:
		return "killed, taken over, charged once"
	case o.view.Failure != nil:
		return o.failedAt + " failed, the rest was undone"
	}
	return "held, charged, shipped"
}

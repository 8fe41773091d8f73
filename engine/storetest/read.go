package storetest

import (
	"encoding/json"
	"errors"

	"github.com/pgreactor/reactor/engine"
)

var readPromises = []promise{
	{"get_not_found", getNotFound},
	{"statuses_of_those_that_exist", statusesFound},
	{"health_counts", healthCounts},
	{"health_finds_stuck_runs", healthStuck},
	{"reads_share_nothing", readsShareNothing},
}

func getNotFound(f *fixture) {
	f.createOne(nil)
	for _, id := range []string{newID(), "", "nobody", "0191-' or true --"} {
		if r, err := f.store.Get(f.Context(), id); !errors.Is(err, engine.ErrRunNotFound) || r != nil {
			f.Errorf("get %q: %v, %v", id, r, err)
		}
	}
}

func statusesFound(f *fixture) {
	fence := f.owned()
	failed := f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	got, err := f.store.Statuses(f.Context(), []string{fence.Run, newID(), failed, fence.Run, "nobody"})
	f.must(err)
	f.same("statuses", got, map[string]engine.Status{fence.Run: engine.Running, failed: engine.Failed})
	got, err = f.store.Statuses(f.Context(), nil)
	f.must(err)
	f.same("statuses of none", got, map[string]engine.Status{})
}

func healthCounts(f *fixture) {
	f.create(newRuns(3, dueIn(long))...)
	fence := f.owned()
	f.rollingBack()
	f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	h := f.health()
	f.same("unfinished runs", h.Counts, map[engine.Status]int{engine.Pending: 3, engine.Running: 1, engine.RollingBack: 1})
	if len(h.Processes) != 2 || f.row(fence.Process).Owned != 1 {
		f.Errorf("processes %+v", h.Processes)
	}
	if h.Clock.IsZero() || h.Schema != h.Want {
		f.Errorf("clock %s, schema %d of %d", h.Clock, h.Schema, h.Want)
	}
}

// A run that nothing will wake is stuck; one that waits for somebody is not.
func healthStuck(f *fixture) {
	process := f.process()
	f.owned()
	stuck := f.waiting(process)
	f.blocked(process)
	f.paused(process)
	f.createOne(nil)
	f.createOne(dueIn(long))
	got := f.health().Stuck
	if len(got) != 1 || got[0].Run != stuck || got[0].Reactor != "checkout" || got[0].Status != engine.Running || got[0].Reason == "" {
		f.Errorf("stuck: %+v, want run %s", got, stuck)
	}
}

// What a caller does with values that it gave or got changes nothing stored.
func readsShareNothing(f *fixture) {
	run := newRun()
	run.Tags, run.Input = []string{"web"}, valueOf(5)
	f.create(run)
	_, fence := f.own(f.process(), run.ID)
	n := fullNode("a")
	c := engine.Changes{Nodes: []engine.NodeChange{n}, Output: valueOf(6), Failure: valueOf(7)}
	f.save(&fence, c)

	want := []string{"web", "a"}
	for _, v := range []int{5, 6, 7, 1, 2, 3, 4} { // of n, as fullNode makes it, the last four
		want = append(want, string(valueOf(v)))
	}
	scribble(run.Input, c.Output, c.Failure, n.Input, n.Output, n.Failure, n.HookFailure)
	run.Tags[0] = "changed"
	f.same("after a change of what was given", contents(f.get(run.ID)), want)

	got := f.get(run.ID)
	scribble(got.Input, got.Output, got.Failure, got.Nodes[0].Input, got.Nodes[0].Output, got.Nodes[0].Failure, got.Nodes[0].HookFailure)
	got.Tags[0], got.Nodes[0].Path = "changed", "changed"
	f.same("after a change of what was got", contents(f.get(run.ID)), want)
}

// scribble spoils values.
func scribble(values ...json.RawMessage) {
	for _, v := range values {
		clear(v)
	}
}

// contents is what a run with one tag and one node holds.
func contents(r *engine.Record) []string {
	n := r.Nodes[0]
	all := []string{r.Tags[0], n.Path}
	for _, v := range []json.RawMessage{r.Input, r.Output, r.Failure, n.Input, n.Output, n.Failure, n.HookFailure} {
		all = append(all, string(v))
	}
	return all
}

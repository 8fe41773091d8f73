package storetest

import (
	"encoding/json"
	"sync"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

var savePromises = []promise{
	{"save_counts_versions", saveCounts},
	{"save_changes_what_it_says", saveChanges},
	{"save_zero_value_changes_nothing", saveZero},
	{"save_landed_before", saveLanded},
	{"save_landed_before_a_lapse", saveLandedLapsed},
	{"save_landed_before_a_release", saveLandedRelease},
	{"save_one_of_two_wins", saveOneWins},
	{"save_repeated_concurrently", saveRepeatedConcurrently},
	{"save_of_many_runs_at_once", saveManyRuns},
	{"save_child_unit_element", saveKinds},
}

// A version is 1 at creation and one more with each save, claim and hand-back.
func saveCounts(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	want := func(version int64) {
		f.Helper()
		if got := f.get(run).Version; got != version {
			f.Fatalf("version %d, want %d", got, version)
		}
	}
	want(1)
	_, fence := f.own(process, run)
	want(2)
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{done("a", 1)}})
	want(3)
	f.save(&fence, engine.Changes{Release: true, Due: true})
	want(4)
	_, fence = f.own(process, run)
	want(5)
	f.lapse(process)
	_, fence = f.own(f.process(), run)
	want(6)
	f.save(&fence, engine.Changes{Status: engine.Completed})
	want(7)
}

func saveChanges(f *fixture) {
	fence := f.owned()
	blocked := "node charge was removed"
	f.save(&fence, engine.Changes{
		Status: engine.RollingBack, Rollback: engine.ByUndo,
		Output: json.RawMessage(`{"ok":true}`), Failure: json.RawMessage(`{"message":"declined"}`),
		Reason: "undone", ReasonPath: "ship/print", WakeReason: "rollback",
		Blocked: &blocked, Fingerprint: "f2",
	})
	got := f.get(fence.Run)
	f.same("texts",
		[]string{string(got.Status), string(got.Rollback), got.Reason, got.ReasonPath, got.WakeReason, got.Blocked, got.Fingerprint},
		[]string{"rolling_back", "undo", "undone", "ship/print", "rollback", blocked, "f2"})
	f.same("values", []string{string(got.Output), string(got.Failure)}, []string{`{"ok":true}`, `{"message":"declined"}`})
	if got.Owner != fence.Token || !got.Due.IsZero() || !got.Ended.IsZero() {
		f.Errorf("a save that releases nothing: owner %q, due %s, ended %s", got.Owner, got.Due, got.Ended)
	}
	unblocked := ""
	f.save(&fence, engine.Changes{Blocked: &unblocked})
	if got := f.get(fence.Run).Blocked; got != "" {
		f.Errorf("blocked: %q after the reason was taken away", got)
	}
}

func saveZero(f *fixture) {
	fence := f.owned()
	blocked := "node charge was removed"
	f.save(&fence, engine.Changes{
		Status: engine.RollingBack, Rollback: engine.ByFailure, Output: valueOf(1), Failure: valueOf(2),
		Reason: "r", ReasonPath: "p", WakeReason: "w", Blocked: &blocked, Fingerprint: "f2",
		Nodes: []engine.NodeChange{fullNode("a")},
	})
	was := f.get(fence.Run)
	f.save(&fence, engine.Changes{})
	was.Version++
	f.sameRun(was)
}

// A save that is made again after a lost reply is recognised by its write id.
func saveLanded(f *fixture) {
	fence := f.owned()
	c := engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{done("a", 1)}, Output: valueOf(1)}
	before := fence
	f.save(&fence, c)
	was := f.get(fence.Run)
	f.landed(before, c, fence.Version)
	f.sameRun(was)

	c.WriteID = newID() // another write at the old version is none that landed
	if e := f.refused(before, c); e.Lost {
		f.Errorf("refused as lost: %v", e)
	}
}

// landed makes a save again and wants to hear that it had landed.
func (f *fixture) landed(before engine.Fence, c engine.Changes, version int64) {
	f.Helper()
	got, err := f.store.Save(f.Context(), before, c)
	f.must(err)
	if got != version {
		f.Errorf("repeated save: version %d, want %d", got, version)
	}
}

func saveLandedLapsed(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	_, fence := f.own(process, run)
	c := engine.Changes{WriteID: newID(), Output: valueOf(1)}
	before := fence
	f.save(&fence, c)
	f.lapse(process)
	was := f.get(run)
	f.landed(before, c, fence.Version)
	f.sameRun(was)
}

// The repeat of a save that gave the run up wakes nobody a second time.
func saveLandedRelease(f *fixture) {
	for _, c := range []engine.Changes{
		{WriteID: newID(), Release: true, Due: true},
		{WriteID: newID(), Status: engine.Completed, Output: valueOf(1)},
	} {
		fence := f.owned()
		before := fence
		f.save(&fence, c)
		was, mark := f.get(fence.Run), f.bell.mark()
		f.landed(before, c, fence.Version)
		f.sameRun(was)
		if n := len(f.bell.wakes(mark)); n > 0 {
			f.Errorf("a repeated save queued %d wake-ups", n)
		}
	}
}

// saveOneWins: of two saves at one version one is stale.
func saveOneWins(f *fixture) {
	for range 20 {
		fence := f.owned()
		versions, errs := f.saveAtOnce(fence, engine.Changes{WriteID: newID(), Reason: "0"}, engine.Changes{WriteID: newID(), Reason: "1"})
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		f.must(errs[winner])
		if e := f.fenceError(errs[1-winner]); e.Lost || e.Found != 3 || versions[winner] != 3 {
			f.Fatalf("saved as version %d, the other refused: %v", versions[winner], e)
		}
		if got := f.get(fence.Run).Reason; got != []string{"0", "1"}[winner] {
			f.Fatalf("reason %q of the refused save", got)
		}
	}
}

func saveRepeatedConcurrently(f *fixture) {
	for range 20 {
		fence := f.owned()
		c := engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{done("a", 1)}}
		versions, errs := f.saveAtOnce(fence, c, c)
		f.must(errs[0])
		f.must(errs[1])
		if got := f.get(fence.Run).Version; got != 3 || versions[0] != 3 || versions[1] != 3 {
			f.Fatalf("one save, made twice: versions %v, now %d", versions, got)
		}
	}
}

func (f *fixture) saveAtOnce(fence engine.Fence, changes ...engine.Changes) (versions []int64, errs []error) {
	f.Helper()
	versions, errs = make([]int64, len(changes)), make([]error, len(changes))
	var all sync.WaitGroup
	for i, c := range changes {
		all.Go(func() { versions[i], errs[i] = f.store.Save(f.Context(), fence, c) })
	}
	all.Wait()
	return versions, errs
}

// Saves of many runs at once stand and fall one by one.
func saveManyRuns(f *fixture) {
	const n = 48
	process := f.process()
	runs := newRuns(n, func(*engine.NewRun) {})
	f.create(runs...)
	fences := make([]engine.Fence, n)
	for i, r := range runs {
		_, fences[i] = f.own(process, r.ID)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		c := engine.Changes{WriteID: newID(), Nodes: []engine.NodeChange{done("a", 1)}}
		fence := fences[i]
		switch i % 4 {
		case 1:
			fence.Version--
		case 2:
			fence.Token = newID()
		case 3:
			c.Nodes[0].Output = json.RawMessage(`{`)
		}
		all.Go(func() { _, errs[i] = f.store.Save(f.Context(), fence, c) })
	}
	all.Wait()
	for i := range n {
		f.oneOfMany(i, fences[i], errs[i])
	}
}

func (f *fixture) oneOfMany(i int, fence engine.Fence, err error) {
	f.Helper()
	nodes := 0
	switch i % 4 {
	case 0:
		f.must(err)
		nodes = 1
		fence.Version++
	case 1, 2:
		if e := f.fenceError(err); e.Run != fence.Run || e.Lost != (i%4 == 2) {
			f.Errorf("save %d: %v", i, e)
		}
	case 3:
		f.unstorable(err)
	}
	if got := f.get(fence.Run); len(got.Nodes) != nodes || got.Version != fence.Version {
		f.Errorf("save %d: %d nodes at version %d, want %d at %d", i, len(got.Nodes), got.Version, nodes, fence.Version)
	}
}

// Children, units and elements are fenced like roots, each by its own token.
func saveKinds(f *fixture) {
	parent := f.owned()
	was := f.get(parent.Run)
	for _, kind := range []engine.Kind{engine.Child, engine.Unit, engine.Element} {
		run := f.createOne(func(r *engine.NewRun) {
			r.Kind, r.Root, r.Parent, r.ParentPath = kind, parent.Run, parent.Run, "reserve"
		})
		_, fence := f.own(f.process(), run)
		stranger := fence
		stranger.Token = parent.Token
		if e := f.refused(stranger, engine.Changes{Status: engine.Failed}); !e.Lost {
			f.Errorf("%s: a save with the parent's token: %v", kind, e)
		}
		f.save(&fence, engine.Changes{Status: engine.Completed})
	}
	f.same("parent", f.get(parent.Run), was, cmp.Options{cmpopts.IgnoreFields(engine.Record{}, "Now")})
}

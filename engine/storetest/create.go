package storetest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

// soon is how far off a due time is that a test waits for.
const soon = 30 * time.Millisecond

var createPromises = []promise{
	{"create_keeps_the_header", createKeepsHeader},
	{"create_due_now_queues_a_wake_up", createDueNow},
	{"create_due_later_queues_none", createDueLater},
	{"create_due_at", createDueAt},
	{"create_owned", createOwned},
	{"create_failed", createFailed},
	{"create_groups_wake_ups", createGroups},
	{"create_1000_runs", create1000},
	{"create_repeated", createRepeated},
	{"create_twice_is_stale", createStale},
	{"create_all_or_none", createAllOrNone},
}

func createKeepsHeader(f *fixture) {
	want := engine.NewRun{
		Header: engine.Header{
			ID: newID(), Kind: engine.Element,
			Reactor: "parcel", Definition: 3, Fingerprint: "f3", Status: engine.Pending,
			Parent: newID(), Root: newID(), ParentPath: "reserve", Element: 3,
			WakeReason: "start", StartKey: "order o-17", Queue: "parcels", Priority: 3, RetriedFrom: newID(),
		},
		WriteID: newID(),
		Input:   json.RawMessage(`{"order":"o-17"}`),
		Tags:    []string{"web", "eu"},
	}
	created := f.create(want)[0]
	if created.ID != want.ID || created.Existing {
		f.Errorf("answer %+v", created)
	}
	got := f.get(want.ID)
	want.Header.Version = 1
	times := cmpopts.IgnoreFields(engine.Header{}, "Created", "Due")
	f.same("header", got.Header, want.Header, times)
	f.same("input", string(got.Input), string(want.Input))
	f.same("tags", got.Tags, want.Tags)
	if got.Output != nil || got.Failure != nil || len(got.Nodes) > 0 {
		f.Errorf("a new run has results: %+v", got)
	}
	if got.Created.IsZero() || got.Created.After(got.Now) || got.Due.After(got.Now) {
		f.Errorf("created %s, due %s, read %s", got.Created, got.Due, got.Now)
	}
}

func createDueNow(f *fixture) {
	for _, in := range []time.Duration{0, -time.Minute} {
		mark := f.bell.mark()
		run := f.createOne(func(r *engine.NewRun) { r.DueIn, r.Queue, r.Priority = in, "parcels", 3 })
		f.same("wake-ups", f.bell.wakes(mark), []engine.Wake{{Runs: []string{run}, Queue: "parcels", Priority: 3}})
		f.unnoticed(mark)
		f.eventually("the bell", func() bool { return f.bell.rungAfterWake(mark, "parcels") })
		f.status(run, engine.Pending)
	}
}

func createDueLater(f *fixture) {
	mark := f.bell.mark()
	run := f.createOne(dueIn(long))
	f.quiet(mark)
	f.near("due", f.get(run).Due, f.get(run).Created.Add(long))
}

func createDueAt(f *fixture) {
	mark := f.bell.mark()
	now := f.health().Clock
	later, past := now.Add(long), now.Add(-long)
	run := f.createOne(func(r *engine.NewRun) { r.DueAt = later })
	f.quiet(mark)
	f.near("due", f.get(run).Due, later)
	run = f.createOne(func(r *engine.NewRun) { r.DueAt, r.DueIn = past, long })
	f.once(mark, run)
	f.near("due", f.get(run).Due, past)
}

// near wants a time as precise as the store keeps it, give or take how long a
// statement may take.
func (f *fixture) near(what string, got, want time.Time) {
	f.Helper()
	if d := got.Sub(want).Abs(); d > time.Minute {
		f.Errorf("%s is %s, want %s", what, got, want)
	}
}

// A run that is created owned is its owner's from its first row on.
func createOwned(f *fixture) {
	mark, process, token := f.bell.mark(), f.process(), newID()
	run := f.createOne(func(r *engine.NewRun) {
		r.Status = engine.Running
		r.Fence = engine.Fence{Run: r.ID, Token: token, Process: process, Version: 99}
	})
	f.quiet(mark)
	got := f.get(run)
	if got.Owner != token || got.Process != process || got.Version != 1 || got.Status != engine.Running {
		f.Errorf("header %+v", got.Header)
	}
	if !got.Due.IsZero() || got.Started.IsZero() || !got.Ended.IsZero() {
		f.Errorf("due %s, started %s, ended %s", got.Due, got.Started, got.Ended)
	}
	if why := f.refusal(f.process(), run).Why; why != engine.WhyOwned {
		f.Errorf("refused because %q", why)
	}
	f.sweep()
	f.quiet(mark)
	fence := fenceOf(*got)
	f.save(&fence, engine.Changes{Status: engine.Completed, Output: json.RawMessage(`1`)})
	f.status(run, engine.Completed)
}

// A run that never ran can be stored as failed.
func createFailed(f *fixture) {
	mark := f.bell.mark()
	run := f.createOne(func(r *engine.NewRun) {
		r.Status, r.Failure = engine.Failed, json.RawMessage(`{"message":"input is invalid"}`)
	})
	f.quiet(mark)
	got := f.get(run)
	f.same("failure", string(got.Failure), `{"message":"input is invalid"}`)
	if got.Status != engine.Failed || got.Ended.IsZero() || !got.Due.IsZero() || got.Owner != "" {
		f.Errorf("header %+v", got.Header)
	}
	if why := f.refusal(f.process(), run).Why; why != engine.WhyFinal {
		f.Errorf("refused because %q", why)
	}
}

// A wake-up names up to MaxWake runs of one queue and priority.
func createGroups(f *fixture) {
	want := map[string]engine.NewRun{}
	runs := newRuns(80, func(r *engine.NewRun) {
		r.Queue = []string{"reactor", "parcels"}[len(want)%2]
		r.Priority = 1 + len(want)/2%2
		want[r.ID] = *r
	})
	mark := f.bell.mark()
	f.create(runs...)
	f.once(mark, idsOf(runs)...)
	f.wellFormed(mark, want)
	for _, queue := range []string{"reactor", "parcels"} {
		f.eventually("the bell of "+queue, func() bool { return f.bell.rungAfterWake(mark, queue) })
	}
}

// wellFormed checks the form of all wake-ups since the mark.
func (f *fixture) wellFormed(mark int, want map[string]engine.NewRun) {
	f.Helper()
	for _, w := range f.bell.wakes(mark) {
		if len(w.Runs) == 0 || len(w.Runs) > engine.MaxWake {
			f.Errorf("a wake-up for %d runs", len(w.Runs))
		}
		for _, id := range w.Runs {
			if r := want[id]; r.Queue != w.Queue || r.Priority != w.Priority {
				f.Errorf("run of queue %q, priority %d, in a wake-up of %q, %d", r.Queue, r.Priority, w.Queue, w.Priority)
			}
		}
	}
}

func create1000(f *fixture) {
	runs := newRuns(1000, func(*engine.NewRun) {})
	mark := f.bell.mark()
	for i, c := range f.create(runs...) {
		if c.ID != runs[i].ID || c.Existing {
			f.Fatalf("answer %d is %+v, want %s", i, c, runs[i].ID)
		}
	}
	f.once(mark, idsOf(runs)...)
	if n := len(f.bell.wakes(mark)); n > 2*len(runs)/engine.MaxWake {
		f.Errorf("%d wake-ups for %d runs", n, len(runs))
	}
	found, err := f.store.Statuses(f.Context(), idsOf(runs))
	f.must(err)
	if len(found) != len(runs) {
		f.Errorf("%d of %d runs are there", len(found), len(runs))
	}
}

// A creation that is made again after a lost reply changes nothing.
func createRepeated(f *fixture) {
	runs := newRuns(3, func(r *engine.NewRun) { r.StartKey = r.ID })
	runs[2].StartKey = ""
	mark := f.bell.mark()
	first := f.create(runs...)
	was := f.get(runs[0].ID)
	for i, c := range f.create(runs...) {
		if c.ID != first[i].ID || c.Existing {
			f.Errorf("answer %d is %+v, was %+v", i, c, first[i])
		}
	}
	f.once(mark, idsOf(runs)...)
	f.sameRun(was)
}

// Another write under an id that is there is stale.
func createStale(f *fixture) {
	process := f.process()
	run := newRun()
	f.create(run)
	_, fence := f.own(process, run.ID)
	was := f.get(run.ID)

	again := run
	again.WriteID, again.Input = newID(), json.RawMessage(`2`)
	_, err := f.store.Create(f.Context(), nil, []engine.NewRun{again})
	e := f.fenceError(err)
	f.same("refusal", e, &engine.FenceError{
		Run: run.ID, Found: 2, Owner: fence.Token, Process: process, Status: engine.Running,
	})
	f.sameRun(was)
}

// One run that can't be added takes the others of its call with it.
func createAllOrNone(f *fixture) {
	there := f.createOne(nil)
	mark := f.bell.mark()
	clash, priority, input := newRun(), newRun(), newRun()
	clash.ID = there
	priority.Priority = 9
	input.Input = json.RawMessage(`{"order":`)
	for what, bad := range map[string]engine.NewRun{"an id that is there": clash, "no priority": priority, "no JSON": input} {
		good := newRuns(2, func(*engine.NewRun) {})
		_, err := f.store.Create(f.Context(), nil, []engine.NewRun{good[0], bad, good[1]})
		if _, fenced := errors.AsType[*engine.FenceError](err); !fenced && !errors.Is(err, engine.ErrUnstorable) {
			f.Errorf("%s: error %v, want a *FenceError or ErrUnstorable", what, err)
		}
		found, err := f.store.Statuses(f.Context(), idsOf(good))
		f.must(err)
		f.same(what+": runs that are there", found, map[string]engine.Status{})
	}
	f.quiet(mark)
}

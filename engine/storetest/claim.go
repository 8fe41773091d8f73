package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

var claimPromises = []promise{
	{"claim_owns", claimOwns},
	{"claim_loads_what_was_saved_last", claimLoads},
	{"claim_started_stays", claimStartedStays},
	{"claim_refusals", claimRefusals},
	{"claim_unknown_definition", claimUnknown},
	{"claim_without_lease", claimNoLease},
	{"claim_twice_by_one_process", claimTwice},
	{"claim_repeated_by_token", claimRepeated},
	{"claim_queues_the_rest", claimRest},
	{"claim_one_of_20_wins", claimOneWins},
	{"claim_overlapping_lists", claimOverlapping},
	{"claim_sees_the_last_save", claimSeesLastSave},
}

func claimOwns(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	was := f.get(run)
	c := claimOf(process, run)
	got := f.claim(c).Claimed[0]
	want := was.Header
	want.Owner, want.Process, want.Version = c.Wants[0].Token, process, 2
	want.Status, want.Due = engine.Running, time.Time{}
	f.same("header", got.Header, want, cmpopts.IgnoreFields(engine.Header{}, "Started"))
	if got.Started.Before(got.Created) || got.Started.After(got.Now) {
		f.Errorf("created %s, started %s, read %s", got.Created, got.Started, got.Now)
	}
	if got.TakenFrom != "" || got.TakenFromProcess != "" {
		f.Errorf("taken from %q of %q", got.TakenFrom, got.TakenFromProcess)
	}
	f.sameRun(&got.Record)
}

func claimLoads(f *fixture) {
	process := f.process()
	run := f.createOne(nil)
	_, fence := f.own(process, run)
	f.save(&fence, engine.Changes{
		Status: engine.RollingBack, Rollback: engine.ByFailure, Failure: valueOf(1),
		Nodes:   []engine.NodeChange{fullNode("a"), fullNode("b/c"), fullNode("d[1]/e")},
		Release: true, Due: true, WakeReason: "retry",
	})
	was := f.get(run)
	got, _ := f.own(f.process(), run)
	if got.Status != engine.RollingBack {
		f.Errorf("status %s after the claim of a run that is rolling back", got.Status)
	}
	byPath := cmpopts.SortSlices(func(a, b engine.NodeRow) bool { return a.Path < b.Path })
	f.same("nodes", got.Nodes, was.Nodes, byPath)
	f.same("values", []string{string(got.Input), string(got.Failure)}, []string{string(was.Input), string(valueOf(1))})
	f.same("reasons", []any{got.Rollback, got.WakeReason}, []any{engine.ByFailure, "retry"})
}

func claimStartedStays(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	first, fence := f.own(process, run)
	f.save(&fence, engine.Changes{Release: true, Due: true})
	f.after(first.Started)
	second, _ := f.own(process, run)
	f.same("started", second.Started, first.Started)
}

func claimRefusals(f *fixture) {
	process, claimer := f.process(), f.process()
	final := f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	notDue := f.createOne(dueIn(long))
	_, fence := f.own(process, f.createOne(nil))
	owned := fence.Run
	_, fence = f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Release: true})
	waiting := fence.Run
	blocked := f.blocked(process)
	paused := f.paused(process)

	runs := []string{final, notDue, owned, waiting, blocked, paused, newID()}
	var was []*engine.Record
	for _, id := range runs[:6] {
		was = append(was, f.get(id))
	}
	mark := f.bell.mark()
	claims := f.claim(claimOf(claimer, runs...))
	f.same("refusals", claims.Refused, []engine.Refusal{
		{Run: final, Why: engine.WhyFinal, Status: engine.Failed, Reactor: "checkout"},
		{Run: notDue, Why: engine.WhyNotDue, Status: engine.Pending, Reactor: "checkout"},
		{Run: owned, Why: engine.WhyOwned, Status: engine.Running, Reactor: "checkout"},
		{Run: waiting, Why: engine.WhyNotDue, Status: engine.Running, Reactor: "checkout"},
		{Run: blocked, Why: engine.WhyStopped, Status: engine.Running, Reactor: "checkout"},
		{Run: paused, Why: engine.WhyNotDue, Status: engine.Paused, Reactor: "checkout"},
		{Run: runs[6], Why: engine.WhyGone},
	}, cmpopts.SortSlices(func(a, b engine.Refusal) bool { return slices.Index(runs, a.Run) < slices.Index(runs, b.Run) }))
	for _, r := range was {
		f.sameRun(r)
	}
	f.quiet(mark)
}

// blocked is a run that was blocked and given up.
func (f *fixture) blocked(process string) string {
	f.Helper()
	reason := "node charge was removed"
	_, fence := f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Blocked: &reason, Release: true})
	return fence.Run
}

// paused is a run that waits for a payload.
func (f *fixture) paused(process string) string {
	f.Helper()
	_, fence := f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Status: engine.Paused, Release: true})
	return fence.Run
}

func claimUnknown(f *fixture) {
	process := f.process()
	other := f.createOne(func(r *engine.NewRun) { r.Reactor = "parcel" })
	newer := f.createOne(func(r *engine.NewRun) { r.Definition = 2 })
	for _, run := range []string{other, newer} {
		was := f.get(run)
		if why := f.refusal(process, run).Why; why != engine.WhyUnknown {
			f.Errorf("refused because %q", why)
		}
		f.sameRun(was)
	}
	c := claimOf(process, other, newer)
	c.Knows = []string{"parcel@1", "checkout@2"}
	if n := len(f.claim(c).Claimed); n != 2 {
		f.Errorf("%d of 2 runs claimed by one who knows them", n)
	}
}

func claimNoLease(f *fixture) {
	run := f.createOne(nil)
	was := f.get(run)
	lapsed := f.process()
	f.lapse(lapsed)
	for _, process := range []string{lapsed, newID()} {
		if why := f.refusal(process, run).Why; why != engine.WhyNoLease {
			f.Errorf("refused because %q", why)
		}
	}
	f.sameRun(was)
	f.beat(lapsed, long)
	f.own(lapsed, run)
}

// A process owns a run at most once.
func claimTwice(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	_, fence := f.own(process, run)
	if why := f.refusal(process, run).Why; why != engine.WhyOwned {
		f.Errorf("refused because %q", why)
	}
	f.save(&fence, engine.Changes{WakeReason: "still mine"})
}

// A claim that is made again after a lost reply changes nothing.
func claimRepeated(f *fixture) {
	c := claimOf(f.process(), f.createOne(nil), f.createOne(nil))
	first := f.claim(c)
	again := f.claim(c)
	if len(first.Claimed) != 2 || len(again.Claimed) != 2 {
		f.Fatalf("%d runs claimed, then %d", len(first.Claimed), len(again.Claimed))
	}
	for _, got := range again.Claimed {
		if got.Version != 2 {
			f.Errorf("version %d after the repeat", got.Version)
		}
		fence := fenceOf(got.Record)
		f.save(&fence, engine.Changes{Status: engine.Completed})
	}
}

func claimRest(f *fixture) {
	process, run := f.process(), f.createOne(nil)
	c := claimOf(process, run)
	c.Rest = []engine.Wake{
		{Runs: []string{newID(), newID()}, Queue: "reactor", Priority: 2},
		{Runs: []string{newID()}, Queue: "parcels", Priority: 4},
	}
	mark := f.bell.mark()
	if n := len(f.claim(c).Claimed); n != 1 {
		f.Errorf("%d runs claimed", n)
	}
	f.same("queued anew", f.bell.wakes(mark), c.Rest)
	for _, queue := range []string{"reactor", "parcels"} {
		f.eventually("the bell of "+queue, func() bool { return f.bell.rungAfterWake(mark, queue) })
	}
}

func claimOneWins(f *fixture) {
	run := f.createOne(nil)
	all := f.claimAtOnce(20, func(int) []string { return []string{run} })
	if n := len(all[run]); n != 1 {
		f.Fatalf("%d of 20 claimers got the run", n)
	}
	if v := f.get(run).Version; v != 2 {
		f.Errorf("version %d", v)
	}
}

func claimOverlapping(f *fixture) {
	runs := newRuns(40, func(*engine.NewRun) {})
	f.create(runs...)
	ids := idsOf(runs)
	all := f.claimAtOnce(10, func(i int) []string { return slices.Concat(ids, ids)[4*i : 4*i+engine.MaxWake] })
	for _, id := range ids {
		if len(all[id]) != 1 {
			f.Errorf("run %s was claimed %d times", id, len(all[id]))
		}
	}
}

// claimAtOnce has n processes claim at once and returns who got each run.
func (f *fixture) claimAtOnce(n int, wants func(i int) []string) map[string][]engine.Claimed {
	f.Helper()
	claims, errs := make([]engine.Claims, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		c := claimOf(f.process(), wants(i)...)
		all.Go(func() { claims[i], errs[i] = f.store.Claim(f.Context(), c) })
	}
	all.Wait()
	got := map[string][]engine.Claimed{}
	for i := range n {
		f.must(errs[i])
		for _, c := range claims[i].Claimed {
			got[c.ID] = append(got[c.ID], c)
		}
		for _, r := range claims[i].Refused {
			if r.Why != engine.WhyOwned && r.Why != engine.WhyLocked {
				f.Errorf("refused because %q", r.Why)
			}
		}
	}
	return got
}

// A claim that races a finishing owner works on the owner's last state.
func claimSeesLastSave(f *fixture) {
	owner, next := f.process(), f.process()
	for range 100 {
		run := f.createOne(nil)
		_, fence := f.own(owner, run)
		var saved error
		var end sync.WaitGroup
		end.Go(func() {
			_, saved = f.store.Save(f.Context(), fence, engine.Changes{
				WriteID: newID(), Nodes: []engine.NodeChange{done("last", 1)}, Release: true, Due: true,
			})
		})
		var got engine.Claims
		f.eventually("the claim", func() bool {
			got = f.claim(claimOf(next, run))
			return len(got.Claimed) == 1
		})
		end.Wait()
		f.must(saved)
		if r := got.Claimed[0]; len(r.Nodes) != 1 || r.Version != 4 {
			f.Fatalf("claimed at version %d with %d nodes", r.Version, len(r.Nodes))
		}
	}
}

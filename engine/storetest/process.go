package storetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

var processPromises = []promise{
	{"process_registers", processRegisters},
	{"process_beats", processBeats},
	{"process_beat_touches_no_run", processBeatTouchesNoRun},
	{"process_without_a_row", processUnknown},
	{"process_unregisters", processUnregisters},
	{"process_lease_seen_at_a_run", processLeaseSeen},
	{"process_stores_graphs", processGraphs},
	{"process_makes_blocked_runs_due", processUnblocks},
}

// row is what Health says of a process; nil if it has no row.
func (f *fixture) row(process string) *engine.ProcessHealth {
	f.Helper()
	for _, p := range f.health().Processes {
		if p.ID == process {
			return &p
		}
	}
	return nil
}

func processRegisters(f *fixture) {
	p := newProcess()
	p.Knows, p.Queues = []string{"checkout@1", "parcel@2"}, []string{"reactor", "parcels"}
	f.must(f.store.Register(f.Context(), p, long))
	first := f.row(p.ID)
	f.after(first.Started)
	f.must(f.store.Register(f.Context(), p, long)) // as after a lost reply
	h := f.health()
	if len(h.Processes) != 1 {
		f.Fatalf("%d processes", len(h.Processes))
	}
	f.same("process", h.Processes[0],
		engine.ProcessHealth{ID: p.ID, Host: p.Host, PID: p.PID, Knows: p.Knows, Queues: p.Queues},
		cmpopts.IgnoreFields(engine.ProcessHealth{}, "Started", "Beat", "Lease"))
	f.near("lease", h.Processes[0].Lease, h.Clock.Add(long))
	f.near("beat", h.Processes[0].Beat, h.Clock)
	f.same("start", h.Processes[0].Started, first.Started)
}

func processBeats(f *fixture) {
	process := f.process()
	first := f.row(process)
	f.after(first.Beat)
	f.beat(process, 2*long)
	second := f.row(process)
	f.near("lease", second.Lease, second.Beat.Add(2*long))
	f.same("start", second.Started, first.Started)
	if !second.Beat.After(first.Beat) {
		f.Errorf("beat at %s after one at %s", second.Beat, first.Beat)
	}
	for _, over := range []time.Duration{0, -time.Second} {
		f.beat(process, over)
		if h := f.health(); h.Processes[0].Lease.After(h.Clock) {
			f.Errorf("lease until %s, now %s", h.Processes[0].Lease, h.Clock)
		}
	}
}

// A heartbeat changes no run and no version.
func processBeatTouchesNoRun(f *fixture) {
	fence := f.owned()
	was := f.get(fence.Run)
	f.beat(fence.Process, 2*long)
	f.sameRun(was)
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

func processUnknown(f *fixture) {
	known, err := f.store.Beat(f.Context(), newID(), long)
	f.must(err)
	if known {
		f.Error("a process without a row is known")
	}
	f.must(f.store.Unregister(f.Context(), newID()))
}

func processUnregisters(f *fixture) {
	stays, goes := f.process(), f.process()
	for range 2 { // the second time as after a lost reply
		f.must(f.store.Unregister(f.Context(), goes))
	}
	if f.row(goes) != nil || f.row(stays) == nil {
		f.Errorf("processes %+v, want %s alone", f.health().Processes, stays)
	}
	known, err := f.store.Beat(f.Context(), goes, long)
	f.must(err)
	if known || f.row(goes) != nil {
		f.Error("a heartbeat brought the row back")
	}
}

func processLeaseSeen(f *fixture) {
	fence := f.owned()
	row, got := f.row(fence.Process), f.get(fence.Run)
	f.same("lease", []any{got.Lease, got.Beat, got.Host}, []any{row.Lease, row.Beat, row.Host})
	if f.row(fence.Process).Owned != 1 {
		f.Errorf("the process owns %d runs", row.Owned)
	}
	f.must(f.store.Unregister(f.Context(), fence.Process))
	got = f.get(fence.Run)
	if !got.Lease.IsZero() || got.Owner != fence.Token || got.Process != fence.Process {
		f.Errorf("lease %s, owner %q of %q", got.Lease, got.Owner, got.Process)
	}
}

func processGraphs(f *fixture) {
	graphs := []engine.StoredGraph{
		{Fingerprint: "f1", Reactor: "checkout", Version: 1, Text: "charge\n  ship", Form: json.RawMessage(`{"z":1, "a":2}`)},
		{Fingerprint: "f2", Reactor: "parcel", Version: 2, Text: "print", Form: json.RawMessage(`{}`)},
	}
	p, q := newProcess(), newProcess()
	p.Graphs, q.Graphs = graphs[:1], graphs
	f.must(f.store.Register(f.Context(), p, long))
	f.must(f.store.Register(f.Context(), q, long))
	f.must(f.store.Unregister(f.Context(), p.ID))
	for _, want := range graphs {
		got, err := f.store.Graph(f.Context(), want.Fingerprint)
		f.must(err)
		if got == nil {
			f.Fatalf("no graph %s", want.Fingerprint)
		}
		f.same("graph", *got, want)
	}
	got, err := f.store.Graph(f.Context(), "f3")
	f.must(err)
	if got != nil {
		f.Errorf("graph %+v", got)
	}
}

// A run that its definition did not fit goes on when a process comes that
// knows its reactor; runs of others, and runs that wait, stay as they are.
func processUnblocks(f *fixture) {
	process := f.process()
	blocked, waiting := f.blocked(process), f.waiting(process)
	knows := newProcess()
	knows.Knows = []string{"parcel@1"}
	f.must(f.store.Register(f.Context(), knows, long))
	f.sweep()
	if due := f.get(blocked).Due; !due.IsZero() {
		f.Fatalf("a process that does not know the reactor made its blocked run due at %s", due)
	}

	mark := f.bell.mark()
	fitting := f.process()
	got := f.get(blocked)
	if got.Due.IsZero() || got.Due.After(got.Now) || got.Blocked == "" {
		f.Fatalf("due %s, blocked %q", got.Due, got.Blocked)
	}
	if due := f.get(waiting).Due; !due.IsZero() {
		f.Errorf("a run that waits was made due at %s", due)
	}
	f.sweep() // whoever registers sweeps
	if !slices.Contains(slices.Concat(runsOf(f.bell.wakes(mark))...), blocked) {
		f.Error("the blocked run was not woken")
	}
	_, fence := f.own(fitting, blocked)
	fits := ""
	f.save(&fence, engine.Changes{Blocked: &fits, Fingerprint: "f2"})
	if got := f.get(blocked); got.Blocked != "" || got.Fingerprint != "f2" {
		f.Errorf("blocked %q, fingerprint %q", got.Blocked, got.Fingerprint)
	}
}

func runsOf(wakes []engine.Wake) [][]string {
	var all [][]string
	for _, w := range wakes {
		all = append(all, w.Runs)
	}
	return all
}

// waiting is a run that was given up without a due time.
func (f *fixture) waiting(process string) string {
	f.Helper()
	_, fence := f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Release: true})
	return fence.Run
}

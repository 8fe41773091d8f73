package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memoryFixture is a store in memory with a dispatcher and a clock that only
// the test moves.
type memoryFixture struct {
	*memory
	wakes *memoryDispatcher
	time  time.Time
}

func newMemoryFixture(t *testing.T) *memoryFixture {
	t.Helper()
	f := &memoryFixture{wakes: newMemoryDispatcher(), time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	f.memory = newMemory(func() time.Time { return f.time })
	if err := f.Attach(f.wakes); err != nil {
		t.Fatal(err)
	}
	return f
}

func memoryNew(id string) NewRun {
	return NewRun{
		Header:  Header{ID: id, Root: id, Kind: Root, Reactor: "checkout", Definition: 1, Status: Pending, Queue: "reactor", Priority: 2},
		WriteID: "create " + id,
	}
}

func (f *memoryFixture) create(t *testing.T, runs ...NewRun) {
	t.Helper()
	if _, err := f.Create(t.Context(), nil, runs); err != nil {
		t.Fatal(err)
	}
}

// claim registers the process and has it claim a run.
func (f *memoryFixture) claim(t *testing.T, process, run string) Claims {
	t.Helper()
	if err := f.Register(t.Context(), Process{ID: process}, 8*time.Second); err != nil {
		t.Fatal(err)
	}
	claims, err := f.Claim(t.Context(), Claim{
		Process: process, Knows: []string{"checkout@1"},
		Wants: []Want{{Run: run, Token: "token of " + process, WriteID: "claim by " + process}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// sweep runs a pass and returns the runs that it woke.
func (f *memoryFixture) sweep(t *testing.T) []string {
	t.Helper()
	f.wakes.take()
	if _, err := f.Sweep(t.Context(), SweepPass{Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	var runs []string
	for _, w := range f.wakes.take() {
		runs = append(runs, w.Runs...)
	}
	return runs
}

// spec: K-307
func TestMemoryPausesGrowToAMinute(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	f.create(t, memoryNew("a")) // its first wake-up
	last := f.time
	for _, pause := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		for len(f.sweep(t)) == 0 {
			f.time = f.time.Add(500 * time.Millisecond)
		}
		if got := f.time.Sub(last); got != time.Duration(pause)*time.Second {
			t.Fatalf("woken again after %s, want %d s", got, pause)
		}
		last = f.time
	}
	f.claim(t, "p", "a")
	if _, err := f.Save(t.Context(), Fence{Run: "a", Token: "token of p", Process: "p", Version: 2}, Changes{Release: true, Due: true}); err != nil {
		t.Fatal(err)
	}
	f.time = f.time.Add(time.Second)
	if got := f.sweep(t); len(got) != 1 {
		t.Errorf("the pause did not begin anew after a claim: woke %q", got)
	}
}

// spec: K-305, K-307, K-696
func TestMemoryThousandPasses(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	later := memoryNew("later")
	later.DueIn = 2 * time.Hour
	f.create(t, memoryNew("queued"), memoryNew("waiting"), memoryNew("suspended"), later)
	f.claim(t, "p", "waiting")
	if _, err := f.Save(t.Context(), Fence{Run: "waiting", Token: "token of p", Process: "p", Version: 2}, Changes{Release: true}); err != nil {
		t.Fatal(err)
	}
	f.runs["suspended"].Suspended = "by an operator"
	woken := map[string]int{}
	for range 1000 {
		f.time = f.time.Add(time.Second)
		for _, id := range f.sweep(t) {
			woken[id]++
		}
	}
	// after 1, 3, 7, 15, 31 and 63 s, and then each minute
	want := map[string]int{"queued": 6 + (1000-63)/60}
	if diff := cmp.Diff(want, woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

// A pass takes at most so many runs at a time, and goes on until none is left.
//
// spec: K-308
func TestMemorySweepsInBatches(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		run := memoryNew(id)
		run.DueIn = time.Second
		f.create(t, run)
	}
	f.time = f.time.Add(time.Minute)
	result, err := f.Sweep(t.Context(), SweepPass{Limit: 3})
	if err != nil || result.Found[SweepDue] != 7 {
		t.Errorf("found %v, %v", result.Found, err)
	}
	var sizes []int
	for _, w := range f.wakes.take() {
		sizes = append(sizes, len(w.Runs))
	}
	if diff := cmp.Diff([]int{3, 3, 1}, sizes); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// spec: K-318
func TestMemoryHasNoRecoveryHorizon(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	f.create(t, memoryNew("stranded"), memoryNew("due"))
	f.claim(t, "dead", "stranded")
	f.time = f.time.Add(14 * 24 * time.Hour)
	if got := f.sweep(t); len(got) != 2 {
		t.Errorf("woke %q, want both runs", got)
	}
	claims := f.claim(t, "next", "stranded")
	if len(claims.Claimed) != 1 || claims.Claimed[0].TakenFromProcess != "dead" {
		t.Errorf("claims %+v", claims)
	}
}

// The lease is over at its end, and not before.
func TestMemoryLeaseEnds(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	f.create(t, memoryNew("a"))
	f.claim(t, "p", "a")
	fence := Fence{Run: "a", Token: "token of p", Process: "p", Version: 2}
	f.time = f.time.Add(8*time.Second - time.Microsecond)
	version, err := f.Save(t.Context(), fence, Changes{WriteID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	fence.Version = version
	f.time = f.time.Add(time.Microsecond)
	if _, err := f.Save(t.Context(), fence, Changes{WriteID: "2"}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a save at the end of the lease: %v", err)
	}
}

// A run that an operator suspended is neither claimed nor woken, and is listed
// for him.
func TestMemorySuspended(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	f.create(t, memoryNew("a"))
	f.runs["a"].Suspended = "by an operator"
	f.wakes.take()
	if refused := f.claim(t, "p", "a").Refused; len(refused) != 1 || refused[0].Why != WhyStopped {
		t.Errorf("refused %+v", refused)
	}
	if err := f.Wake(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if wakes := f.wakes.take(); len(wakes) > 0 {
		t.Errorf("woken: %+v", wakes)
	}
	page, _, err := f.List(t.Context(), Query{Inbox: true})
	if err != nil || len(page) != 1 {
		t.Errorf("inbox %+v, %v", page, err)
	}
}

type memoryTx struct{}

func (memoryTx) EngineTx() {}

func TestMemoryTakesPartInNoTransaction(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	_, err := f.Create(t.Context(), memoryTx{}, []NewRun{memoryNew("a")})
	if !errors.Is(err, ErrUnstorable) || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("error %v", err)
	}
	if err := f.wakes.Wake(t.Context(), memoryTx{}, []Wake{{Runs: []string{"a"}}}, true); err == nil {
		t.Error("the dispatcher took part in a transaction")
	}
	if len(f.runs) > 0 || len(f.wakes.take()) > 0 {
		t.Error("something was left behind")
	}
}

// What the tables would refuse is refused here too, and names what is wrong.
func TestMemoryRefusesNewRuns(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*NewRun){
		"no id":            func(r *NewRun) { r.ID = "" },
		"priority 0":       func(r *NewRun) { r.Priority = 0 },
		`kind "tree"`:      func(r *NewRun) { r.Kind = "tree" },
		`not "completed"`:  func(r *NewRun) { r.Status = Completed },
		`not "running"`:    func(r *NewRun) { r.Status = Running },
		"not JSON":         func(r *NewRun) { r.Input = []byte(`{`) },
		"NUL":              func(r *NewRun) { r.Tags = []string{"a\x00"} },
		"given to two":     func(r *NewRun) { r.ID = "there" },
		"run b: a text is": func(r *NewRun) { r.StartKey = "\xff" },
	} {
		f := newMemoryFixture(t)
		bad := memoryNew("b")
		change(&bad)
		_, err := f.Create(t.Context(), nil, []NewRun{memoryNew("there"), bad})
		if !errors.Is(err, ErrUnstorable) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if len(f.runs) > 0 {
			t.Errorf("%s: %d runs are there", want, len(f.runs))
		}
	}
}

// A creation is recognised however often its run was saved since.
func TestMemoryCreateRepeatedAfterAClaim(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	run := memoryNew("a")
	run.StartKey = "k"
	f.create(t, run)
	f.claim(t, "p", "a")
	created, err := f.Create(t.Context(), nil, []NewRun{run})
	if err != nil || created[0].ID != "a" || created[0].Existing {
		t.Errorf("created %+v, %v", created, err)
	}
	if got := f.runs["a"].Version; got != 2 {
		t.Errorf("version %d", got)
	}
}

func TestMemoryContextIsOver(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Create(ctx, nil, []NewRun{memoryNew("a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	if _, err := f.Sweep(ctx, SweepPass{}); !errors.Is(err, context.Canceled) {
		t.Errorf("sweep: %v", err)
	}
	if len(f.runs) > 0 {
		t.Error("a run was created")
	}
}

// Forgotten finals cost a sweep nothing: it looks at unfinished runs alone.
func TestMemoryKeepsUnfinishedApart(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	failed := memoryNew("failed")
	failed.Status = Failed
	f.create(t, memoryNew("a"), failed)
	f.claim(t, "p", "a")
	if len(f.unfinished) != 1 {
		t.Errorf("%d unfinished runs", len(f.unfinished))
	}
	fence := Fence{Run: "a", Token: "token of p", Process: "p", Version: 2}
	if _, err := f.Save(t.Context(), fence, Changes{WriteID: "1", Status: Completed}); err != nil {
		t.Fatal(err)
	}
	if len(f.unfinished) != 0 || len(f.runs) != 2 {
		t.Errorf("%d unfinished of %d runs", len(f.unfinished), len(f.runs))
	}
}

package engine

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMemoryDispatcherQueues(t *testing.T) {
	t.Parallel()
	d := newMemoryDispatcher()
	select {
	case <-d.queued():
		t.Fatal("an empty queue says that it has something")
	default:
	}
	runs := []string{"a", "b"}
	first := []Wake{{Runs: runs, Queue: "reactor", Priority: 2}}
	second := []Wake{{Runs: []string{"c"}, Queue: "parcels", Priority: 1}, {Runs: []string{"d"}, Queue: "parcels", Priority: 4}}
	for _, wakes := range [][]Wake{first, second} {
		if err := d.Wake(t.Context(), nil, wakes, false); err != nil {
			t.Fatal(err)
		}
	}
	runs[0] = "changed"
	<-d.queued()
	want := []Wake{{Runs: []string{"a", "b"}, Queue: "reactor", Priority: 2}, second[0], second[1]}
	if diff := cmp.Diff(want, d.take()); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if again := d.take(); len(again) > 0 {
		t.Errorf("taken twice: %+v", again)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// Nothing that is queued while a taker takes is left lying: the taker is told
// again.
func TestMemoryDispatcherForgetsNothing(t *testing.T) {
	t.Parallel()
	const n = 1000
	d := newMemoryDispatcher()
	var queue sync.WaitGroup
	for range 4 {
		queue.Go(func() {
			for range n {
				if err := d.Wake(t.Context(), nil, []Wake{{Runs: []string{"a"}}}, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for got := 0; got < 4*n; {
		<-d.queued()
		got += len(d.take())
	}
	queue.Wait()
}

// A taker that is told of a run finds it: it waits for the change that queued
// the wake-up.
//
// spec: C-637
func TestMemoryWakeUpFindsItsRun(t *testing.T) {
	t.Parallel()
	f := newMemoryFixture(t)
	const n = 200
	var taker sync.WaitGroup
	taker.Go(func() {
		for found := 0; found < n; {
			<-f.wakes.queued()
			for _, w := range f.wakes.take() {
				statuses, err := f.Statuses(t.Context(), w.Runs)
				if err != nil || len(statuses) != len(w.Runs) {
					t.Errorf("told of %q, found %v, %v", w.Runs, statuses, err)
				}
				found += len(w.Runs)
			}
		}
	})
	for i := range n {
		run := memoryNew("run")
		run.ID = string(rune('a' + i))
		f.create(t, run)
	}
	taker.Wait()
}

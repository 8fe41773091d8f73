package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

// eventually looks until ok says yes.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			f.Fatalf("%s: not within 30 s", what)
		}
	}
}

// after waits until the store's clock is past t.
func (f *fixture) after(t time.Time) {
	f.Helper()
	f.eventually("the store's clock", func() bool { return f.health().Clock.After(t) })
}

// withinPause judges a try that took less than the shortest pause between two
// wake-ups; a slower one proves nothing and is made again.
func (f *fixture) withinPause(try func() (problem string)) {
	f.Helper()
	for range 20 {
		began := f.health().Clock
		problem := try()
		if f.health().Clock.Sub(began) >= brief {
			continue
		}
		if problem != "" {
			f.Fatal(problem)
		}
		return
	}
	f.Fatal("none of 20 tries took less than a second")
}

// quiet wants no call of the dispatcher since the mark.
func (f *fixture) quiet(mark int) {
	f.Helper()
	if events := f.bell.since(mark); len(events) > 0 {
		f.Errorf("%d calls of the dispatcher, want none: %+v", len(events), events)
	}
}

// unnoticed wants no notice inside the store's own transactions: the bell is
// rung after the commit.
func (f *fixture) unnoticed(mark int) {
	f.Helper()
	for _, e := range f.bell.since(mark) {
		if e.notify {
			f.Errorf("a notice was asked for in the store's own transaction: %+v", e)
		}
	}
}

// once wants exactly one wake-up of each run since the mark.
func (f *fixture) once(mark int, runs ...string) {
	f.Helper()
	if problem := f.notOnce(mark, runs...); problem != "" {
		f.Error(problem)
	}
}

func (f *fixture) notOnce(mark int, runs ...string) (problem string) {
	counts := f.bell.counts(mark)
	for _, id := range runs {
		if counts[id] != 1 {
			return fmt.Sprintf("run %s was woken %d times, want once", id, counts[id])
		}
	}
	return ""
}

// same compares; nil and empty are the same.
func (f *fixture) same(what string, got, want any, opts ...cmp.Option) {
	f.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// sameRun wants the run to be as it was, whenever it was read.
func (f *fixture) sameRun(was *engine.Record) {
	f.Helper()
	byPath := cmpopts.SortSlices(func(a, b engine.NodeRow) bool { return a.Path < b.Path })
	whenRead := cmpopts.IgnoreFields(engine.Record{}, "Now", "Lease", "Beat")
	f.same("run "+was.ID, f.get(was.ID), was, byPath, whenRead)
}

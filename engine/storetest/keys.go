package storetest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pgreactor/reactor/engine"
)

var keyPromises = []promise{
	{"start_key_taken", keyTaken},
	{"start_key_of_a_final_run", keyFinal},
	{"start_key_per_reactor", keyPerReactor},
	{"start_key_twice_in_one_call", keyTwiceInOneCall},
	{"start_key_and_id_taken", keyAndID},
	{"start_key_concurrently", keyConcurrently},
}

func keyed(key, input string) engine.NewRun {
	r := newRun()
	r.StartKey, r.Input = key, json.RawMessage(input)
	return r
}

// existing wants the answer that the run which has the key is another.
func (f *fixture) existing(got engine.Created, winner engine.NewRun) {
	f.Helper()
	if !got.Existing || got.ID != winner.ID || string(got.Input) != string(winner.Input) {
		f.Errorf("answer %+v with input %s, want the run %s", got, got.Input, winner.ID)
	}
}

func keyTaken(f *fixture) {
	first, second, other := keyed("k", `1`), keyed("k", `2`), keyed("l", `3`)
	f.create(first)
	mark := f.bell.mark()
	created := f.create(second, other)
	f.existing(created[0], first)
	if created[1].Existing || created[1].ID != other.ID {
		f.Errorf("the run with a free key: %+v", created[1])
	}
	found, err := f.store.Statuses(f.Context(), idsOf([]engine.NewRun{second, other}))
	f.must(err)
	f.same("runs", found, map[string]engine.Status{other.ID: engine.Pending})
	f.once(mark, other.ID)
	if n := f.bell.counts(mark)[second.ID]; n > 0 {
		f.Error("a run that was not added was woken")
	}
}

// A key stays taken for as long as its run is stored.
func keyFinal(f *fixture) {
	first := keyed("k", `1`)
	f.create(first)
	_, fence := f.own(f.process(), first.ID)
	f.save(&fence, engine.Changes{Status: engine.Completed})
	f.existing(f.create(keyed("k", `2`))[0], first)
}

func keyPerReactor(f *fixture) {
	first, second, none, none2 := keyed("k", `1`), keyed("k", `2`), keyed("", `3`), keyed("", `4`)
	second.Reactor = "parcel"
	for i, c := range f.create(first, second, none, none2) {
		if c.Existing {
			f.Errorf("run %d: %+v", i, c)
		}
	}
}

func keyTwiceInOneCall(f *fixture) {
	first, second := keyed("k", `1`), keyed("k", `2`)
	created := f.create(first, second)
	if created[0].Existing {
		first, second, created[0], created[1] = second, first, created[1], created[0]
	}
	f.existing(created[1], first)
	found, err := f.store.Statuses(f.Context(), []string{first.ID, second.ID})
	f.must(err)
	f.same("runs", found, map[string]engine.Status{first.ID: engine.Pending})
}

// A run whose key is taken by the run of its own id is not added either.
func keyAndID(f *fixture) {
	first := keyed("k", `1`)
	f.create(first)
	second := first
	second.WriteID, second.Input = newID(), json.RawMessage(`2`)
	f.existing(f.create(second)[0], first)
}

func keyConcurrently(f *fixture) {
	const starters = 20
	mark := f.bell.mark()
	var runs []engine.NewRun
	for i := range starters {
		runs = append(runs, keyed("k", fmt.Sprint(i)))
	}
	created, errs := make([][]engine.Created, starters), make([]error, starters)
	var all sync.WaitGroup
	for i, r := range runs {
		all.Go(func() { created[i], errs[i] = f.store.Create(f.Context(), nil, []engine.NewRun{r}) })
	}
	all.Wait()
	var winner engine.NewRun
	winners := 0
	for i := range starters {
		f.must(errs[i])
		if !created[i][0].Existing {
			winner = runs[i]
			winners++
		}
	}
	if winners != 1 {
		f.Fatalf("%d starts of one key were added", winners)
	}
	for i, r := range runs {
		if r.ID != winner.ID {
			f.existing(created[i][0], winner)
		}
	}
	f.same("woken", f.bell.counts(mark), map[string]int{winner.ID: 1})
}

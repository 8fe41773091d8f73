package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pgreactor/reactor/engine"
)

var listPromises = []promise{
	{"list_newest_first", listNewestFirst},
	{"list_by_pages", listPages},
	{"list_pages_while_runs_come", listPagesWhileRunsCome},
	{"list_created_together", listCreatedTogether},
	{"list_filters", listFilters},
	{"list_since_until", listSinceUntil},
	{"list_text_is_literal", listLiteral},
	{"list_broken_cursor", listBrokenCursor},
}

func (f *fixture) list(q engine.Query) (page []engine.Record, next string) {
	f.Helper()
	page, next, err := f.store.List(f.Context(), q)
	f.must(err)
	return page, next
}

// listed is the ids of all runs of q, page by page.
func (f *fixture) listed(q engine.Query) []string {
	f.Helper()
	var ids []string
	for {
		page, next := f.list(q)
		if len(page) > q.Limit {
			f.Fatalf("a page of %d runs, want at most %d", len(page), q.Limit)
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if next == "" {
			return ids
		}
		q.Cursor = next
	}
}

// createApart creates n runs, each at a time of its own; the newest is first.
func (f *fixture) createApart(n int) []string {
	f.Helper()
	var ids []string
	for range n {
		id := f.createOne(nil)
		f.after(f.get(id).Created)
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	return ids
}

func listNewestFirst(f *fixture) {
	want := f.createApart(4)
	_, fence := f.own(f.process(), want[2])
	f.save(&fence, engine.Changes{Status: engine.Completed, Output: valueOf(1), Nodes: []engine.NodeChange{done("a", 1)}})
	page, next := f.list(engine.Query{Limit: 10})
	if next != "" || len(page) != len(want) {
		f.Fatalf("%d runs, then %q", len(page), next)
	}
	for i, r := range page {
		got := f.get(want[i])
		f.same("header", r.Header, got.Header)
		if r.Input != nil || r.Output != nil || r.Nodes != nil {
			f.Errorf("a list with values: %+v", r)
		}
	}
}

func listPages(f *fixture) {
	want := f.createApart(6)
	for _, limit := range []int{1, 3, 4, 6, 7} {
		f.same("pages", f.listed(engine.Query{Limit: limit}), want)
	}
	if _, next := f.list(engine.Query{Limit: 6}); next != "" {
		f.Error("a last page that is full has a next one")
	}
}

func listPagesWhileRunsCome(f *fixture) {
	want := f.createApart(4)
	first, next := f.list(engine.Query{Limit: 2})
	f.createApart(2)
	_, fence := f.own(f.process(), want[3])
	f.save(&fence, engine.Changes{Status: engine.Completed})
	second, _ := f.list(engine.Query{Limit: 10, Cursor: next})
	var got []string
	for _, r := range append(first, second...) {
		got = append(got, r.ID)
	}
	f.same("pages", got, want)
}

// Runs of one instant are neither lost nor doubled between pages.
func listCreatedTogether(f *fixture) {
	runs := newRuns(25, func(*engine.NewRun) {})
	f.create(runs...)
	got := f.listed(engine.Query{Limit: 4})
	f.same("all runs", got, idsOf(runs), cmpopts.SortSlices(strings.Compare))
}

func listFilters(f *fixture) {
	process := f.process()
	web := f.createOne(func(r *engine.NewRun) {
		r.Tags, r.Fields = []string{"web", "eu"}, map[string]string{"order": "o-17", "cents": "1250"}
	})
	app := f.createOne(func(r *engine.NewRun) {
		r.Tags, r.Fields = []string{"app", "eu"}, map[string]string{"order": "o-18", "cents": "1250"}
	})
	parcel := f.createOne(func(r *engine.NewRun) { r.Reactor, r.Definition = "parcel", 2 })
	unit := f.createOne(func(r *engine.NewRun) { r.Kind = engine.Unit })
	failed := f.createOne(func(r *engine.NewRun) { r.Status = engine.Failed })
	blocked := f.blocked(process)
	retry, stuck := f.retrying(process), f.halfUndone(process)
	for _, c := range []struct {
		name string
		q    engine.Query
		want []string
	}{
		{"none", engine.Query{}, []string{web, app, parcel, failed, blocked, retry, stuck}},
		{"reactor", engine.Query{Reactor: "parcel"}, []string{parcel}},
		{"unknown reactor", engine.Query{Reactor: "par"}, nil},
		{"status", engine.Query{Status: []engine.Status{engine.Failed}}, []string{failed, stuck}},
		{"two statuses", engine.Query{Status: []engine.Status{engine.Failed, engine.Running}}, []string{failed, blocked, retry, stuck}},
		{"kind", engine.Query{Kind: "unit"}, []string{unit}},
		{"tag", engine.Query{Tags: []string{"eu"}}, []string{web, app}},
		{"two tags", engine.Query{Tags: []string{"eu", "web"}}, []string{web}},
		{"unknown tag", engine.Query{Tags: []string{"e"}}, nil},
		{"id", engine.Query{IDPrefix: app}, []string{app}},
		{"id prefix", engine.Query{IDPrefix: app[:18]}, []string{app}},
		{"field", engine.Query{Input: map[string]string{"order": "o-17"}}, []string{web}},
		{"common field", engine.Query{Input: map[string]string{"cents": "1250"}}, []string{web, app}},
		{"two fields", engine.Query{Input: map[string]string{"cents": "1250", "order": "o-18"}}, []string{app}},
		{"fields of two runs", engine.Query{Input: map[string]string{"order": "o-1"}}, nil},
		{"blocked", engine.Query{Blocked: true}, []string{blocked}},
		{"waiting", engine.Query{Waiting: "time"}, []string{retry}},
		{"waiting for what nobody waits for", engine.Query{Waiting: "rain"}, nil},
		{"inbox", engine.Query{Inbox: true}, []string{blocked, stuck}},
		{"all at once", engine.Query{
			Reactor: "checkout", Status: []engine.Status{engine.Pending}, Kind: "root", Tags: []string{"web"},
			IDPrefix: web[:8], Input: map[string]string{"order": "o-17"}, Since: f.get(web).Created, Until: f.get(web).Created.Add(long),
		}, []string{web}},
	} {
		c.q.Limit = 2
		f.same("filter "+c.name, f.listed(c.q), c.want, cmp.Options{cmpopts.SortSlices(strings.Compare)})
	}
}

// retrying is a run that waits for a time.
func (f *fixture) retrying(process string) string {
	f.Helper()
	_, fence := f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Release: true, Due: true, DueIn: long, Nodes: []engine.NodeChange{done("a", 1)}})
	return fence.Run
}

// halfUndone is a failed run of which something could not be undone.
func (f *fixture) halfUndone(process string) string {
	f.Helper()
	_, fence := f.own(process, f.createOne(nil))
	f.save(&fence, engine.Changes{Status: engine.Failed, Nodes: []engine.NodeChange{fullNode("a"), done("b", 1)}})
	return fence.Run
}

func listSinceUntil(f *fixture) {
	ids := f.createApart(4)
	at := make([]time.Time, len(ids))
	for i, id := range ids {
		at[i] = f.get(id).Created
	}
	between := func(newer, older int) time.Time { return at[older].Add(at[newer].Sub(at[older])/2 + 1) }
	f.same("since", f.listed(engine.Query{Since: between(1, 2), Limit: 10}), ids[:2])
	f.same("until", f.listed(engine.Query{Until: between(1, 2), Limit: 10}), ids[2:])
	f.same("between", f.listed(engine.Query{Since: between(2, 3), Until: between(0, 1), Limit: 1}), ids[1:3])
}

func listLiteral(f *fixture) {
	odd := `50%_'"\{},`
	run := f.createOne(func(r *engine.NewRun) {
		r.Tags, r.Fields = []string{odd}, map[string]string{"order": odd}
	})
	f.createOne(func(r *engine.NewRun) {
		r.Tags, r.Fields = []string{"50xx"}, map[string]string{"order": "50xx"}
	})
	f.same("tag", f.listed(engine.Query{Tags: []string{odd}, Limit: 10}), []string{run})
	f.same("field", f.listed(engine.Query{Input: map[string]string{"order": odd}, Limit: 10}), []string{run})
	for _, prefix := range []string{"%", "_", "' or true --", "zz"} {
		f.same("id prefix "+prefix, f.listed(engine.Query{IDPrefix: prefix, Limit: 10}), []string(nil))
	}
}

// A cursor that is none of the store's is an error of the caller.
func listBrokenCursor(f *fixture) {
	f.createApart(2)
	for _, cursor := range []string{"nonsense", "%%%", " ", "MTI", "' or true --"} {
		if page, _, err := f.store.List(f.Context(), engine.Query{Limit: 1, Cursor: cursor}); err == nil {
			f.Errorf("cursor %q gave %d runs", cursor, len(page))
		}
	}
}

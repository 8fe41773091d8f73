package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Create adds runs and queues the wake-ups of those that are due, all or none.
func (m *memory) Create(ctx context.Context, tx Tx, runs []NewRun) (created []Created, err error) {
	if tx != nil {
		return nil, refusedValue("create runs: a store in memory takes part in no transaction: start the run without one, or use package pgstore")
	}
	err = m.change(ctx, func(now time.Time) (c memoryChange, err error) {
		p := memoryCreation{m: m, now: now, keys: map[memoryKey]*memoryRun{}, ids: map[string]bool{}}
		for _, n := range runs {
			if err := p.add(n); err != nil {
				return c, err
			}
		}
		created = p.created
		return memoryChange{wakes: memoryWakes(p.wake), apply: p.apply}, nil
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

// memoryCreation collects the runs of one Create.
type memoryCreation struct {
	m       *memory
	now     time.Time
	keys    map[memoryKey]*memoryRun // taken by runs of this creation
	ids     map[string]bool          // of runs of this creation
	added   []*memoryRun
	wake    []*memoryRun
	created []Created
}

func (p *memoryCreation) add(n NewRun) error {
	if err := n.storable(); err != nil {
		return err
	}
	key := memoryKey{n.Reactor, n.StartKey}
	old, taken := p.m.runs[n.ID], p.taken(key)
	switch {
	case old != nil && old.createID == n.WriteID && n.WriteID != "":
		p.created = append(p.created, Created{ID: n.ID, Now: p.now}) // a repeat of this very write
	case taken != nil:
		p.created = append(p.created, Created{ID: taken.ID, Existing: true, Input: copied(taken.Input), Now: p.now})
	case old != nil:
		return p.m.fenceError(Fence{Run: n.ID}, false)
	case p.ids[n.ID]:
		return refusedValue("create run " + n.ID + ": the id is given to two runs")
	default:
		p.insert(key, n.kept(p.now))
	}
	return nil
}

func (p *memoryCreation) insert(key memoryKey, r *memoryRun) {
	p.ids[r.ID] = true
	if key.key != "" {
		p.keys[key] = r
	}
	if !r.Due.IsZero() && !r.Due.After(p.now) {
		p.wake = append(p.wake, r)
	}
	p.added = append(p.added, r)
	p.created = append(p.created, Created{ID: r.ID, Now: p.now})
}

// taken is the run that has the key, if there is one.
func (p *memoryCreation) taken(key memoryKey) *memoryRun {
	if r := p.keys[key]; r != nil {
		return r
	}
	return p.m.keys[key] // none has the key ""
}

func (p *memoryCreation) apply() {
	for _, r := range p.wake {
		r.woken(p.now)
	}
	for _, r := range p.added {
		p.m.runs[r.ID] = r
		if !r.Status.Final() {
			p.m.unfinished[r.ID] = r
		}
	}
	maps.Copy(p.m.keys, p.keys)
}

// kept is the new run as it is stored.
func (n *NewRun) kept(now time.Time) *memoryRun {
	r := &memoryRun{
		Record:   Record{Header: n.Header, Input: copied(n.Input), Failure: copied(n.Failure), Tags: slices.Clone(n.Tags)},
		fields:   maps.Clone(n.Fields),
		nodes:    map[string]NodeRow{},
		createID: n.WriteID,
		writeID:  n.WriteID,
	}
	r.Version, r.Owner, r.Process = 1, "", ""
	r.Created, r.Started, r.Ended = now, time.Time{}, time.Time{}
	r.notDue()
	switch n.Status {
	case Pending:
		r.dueAt(n.due(now))
	case Running:
		r.Owner, r.Process, r.Started = n.Fence.Token, n.Fence.Process, now
	default:
		r.Ended = now
	}
	return r
}

// due is when a pending run is due.
func (n *NewRun) due(now time.Time) time.Time {
	if n.DueAt.IsZero() {
		return now.Add(n.DueIn)
	}
	return n.DueAt.Truncate(time.Microsecond).UTC()
}

// storable refuses what the tables would refuse.
func (n *NewRun) storable() error {
	owned := n.Fence.Token != "" && n.Fence.Process != ""
	switch {
	case n.ID == "":
		return refusedValue("create run: it has no id")
	case n.Status != Pending && n.Status != Failed && (n.Status != Running || !owned):
		return refusedValue(fmt.Sprintf("create run %s: a run begins pending, or running with an owner, or failed, not %q", n.ID, n.Status))
	case n.Priority < 1 || n.Priority > 4:
		return refusedValue(fmt.Sprintf("create run %s: priority %d is not between 1 and 4", n.ID, n.Priority))
	case !slices.Contains([]Kind{Root, Child, Unit, Element}, n.Kind):
		return refusedValue(fmt.Sprintf("create run %s: there is no kind %q", n.ID, n.Kind))
	}
	if err := storableJSON("create run "+n.ID, n.Input, n.Failure); err != nil {
		return err
	}
	return storableText("create run "+n.ID, append(n.Tags[:len(n.Tags):len(n.Tags)], n.StartKey, n.WakeReason)...)
}

// storableJSON refuses what a json column refuses.
func storableJSON(what string, values ...json.RawMessage) error {
	for _, v := range values {
		if len(v) > 0 && (!json.Valid(v) || !utf8.Valid(v)) {
			return refusedValue(what + ": a value is not JSON")
		}
	}
	return nil
}

// storableText refuses what a text column refuses.
func storableText(what string, texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return refusedValue(what + ": a text is not UTF-8 or has a NUL")
		}
	}
	return nil
}

package pgstore

import (
	"maps"
	"slices"
	"strings"

	"github.com/pgreactor/reactor/engine"
)

// check finds what the tables can't say clearly or don't check.
func (c *creation) check() error {
	seen := make(map[string]bool, len(c.runs))
	for _, r := range c.runs {
		owned := isUUID(r.Fence.Token) && isUUID(r.Fence.Process)
		switch {
		case !isUUID(r.ID):
			return unstorableError("create run %s: its id is no UUID", r.ID)
		case !isUUID(r.WriteID):
			return unstorableError("create run %s: its write id %q is no UUID", r.ID, r.WriteID)
		case r.Status != engine.Pending && r.Status != engine.Failed && (r.Status != engine.Running || !owned):
			return unstorableError("create run %s: a run begins pending, or running with an owner, or failed, not %q", r.ID, r.Status)
		case seen[r.ID]:
			return &engine.FenceError{Run: r.ID}
		}
		seen[r.ID] = true
	}
	return nil
}

// The kinds of due times of a new run.
const (
	dueNever = iota
	dueAfter // a span
	dueAt    // a time
)

// dueOf is when a new run is due: the kind, and microseconds from now on or
// since the Unix epoch.
func dueOf(r *engine.NewRun) (kind, micro int64) {
	switch {
	case r.Status != engine.Pending:
		return dueNever, 0
	case r.DueAt.IsZero():
		return dueAfter, micros(r.DueIn)
	}
	return dueAt, r.DueAt.UnixMicro()
}

// owner is whom a new run belongs to.
func owner(r *engine.NewRun) engine.Fence {
	if r.Status != engine.Running {
		return engine.Fence{}
	}
	return r.Fence
}

// createArguments are the parameters of createSQL: one array a column.
func createArguments(runs []engine.NewRun) []any {
	texts := func(value func(r *engine.NewRun) string) []string {
		return column(runs, value)
	}
	ints := func(value func(r *engine.NewRun) int64) []int64 {
		return column(runs, value)
	}
	return []any{
		texts(func(r *engine.NewRun) string { return r.ID }),
		texts(func(r *engine.NewRun) string { return r.Root }),
		texts(func(r *engine.NewRun) string { return r.Parent }),
		texts(func(r *engine.NewRun) string { return r.ParentPath }),
		texts(func(r *engine.NewRun) string { return string(r.Kind) }),
		texts(func(r *engine.NewRun) string { return r.Reactor }),
		ints(func(r *engine.NewRun) int64 { return int64(r.Definition) }),
		texts(func(r *engine.NewRun) string { return r.Fingerprint }),
		texts(func(r *engine.NewRun) string { return string(r.Status) }),
		ints(func(r *engine.NewRun) int64 { return int64(r.Element) }),
		texts(func(r *engine.NewRun) string { return owner(r).Token }),
		texts(func(r *engine.NewRun) string { return owner(r).Process }),
		texts(func(r *engine.NewRun) string { return r.WriteID }),
		texts(func(r *engine.NewRun) string { return r.WakeReason }),
		texts(func(r *engine.NewRun) string { return r.Blocked }),
		texts(func(r *engine.NewRun) string { return r.Suspended }),
		texts(func(r *engine.NewRun) string { return string(r.Rollback) }),
		texts(func(r *engine.NewRun) string { return r.StartKey }),
		ints(func(r *engine.NewRun) int64 { return int64(r.Priority) }),
		texts(func(r *engine.NewRun) string { return r.Queue }),
		ints(func(r *engine.NewRun) int64 { kind, _ := dueOf(r); return kind }),
		ints(func(r *engine.NewRun) int64 { _, micro := dueOf(r); return micro }),
		texts(func(r *engine.NewRun) string { return r.RetriedFrom }),
		texts(func(r *engine.NewRun) string { return string(r.Input) }),
		texts(func(r *engine.NewRun) string { return string(r.Failure) }),
		texts(func(r *engine.NewRun) string { return arrayText(r.Tags) }),
		texts(func(r *engine.NewRun) string { return arrayText(fieldTexts(r.Fields)) }),
	}
}

// createdArguments are the parameters of createdSQL.
func createdArguments(runs []engine.NewRun) []any {
	return []any{
		column(runs, func(r *engine.NewRun) string { return r.ID }),
		column(runs, func(r *engine.NewRun) string { return r.WriteID }),
		column(runs, func(r *engine.NewRun) string { return r.Reactor }),
		column(runs, func(r *engine.NewRun) string { return r.StartKey }),
	}
}

// fieldTexts is the fields of an input as they are stored and searched.
func fieldTexts(fields map[string]string) []string {
	texts := make([]string, 0, len(fields))
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		texts = append(texts, field+"="+fields[field])
	}
	return texts
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayText is an array of texts as PostgreSQL writes it, "" for an empty one:
// an array of arrays is no parameter, so each is a text.
func arrayText(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = `"` + arrayEscapes.Replace(text) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

package pgtest

import (
	"fmt"
	"slices"
)

// A transition is a change of a run's status, as the history has it.
type transition struct {
	Run           string // one of those that made it
	Kind          string
	Was           string // "" of a new run
	IsNow         string
	Rollback      string // what started its rollback, after the change
	HowManyOthers int64
}

// transitions are those that there are, without those out of a final status.
var transitions = map[string][]string{
	"":             {"pending", "running", "failed"},
	"pending":      {"running", "cancelled", "rolling_back"},
	"running":      {"completed", "halted", "paused", "rolling_back", "failed", "aborted", "cancelled"},
	"paused":       {"running", "rolling_back", "failed", "cancelled"},
	"rolling_back": {"failed", "cancelled"},
}

// undone are the final statuses that a rollback reaches, by kind of run: that of
// roots and children by Undo, that of elements by the run that has their map.
var undone = map[string][]string{
	"root":    {"completed", "halted", "failed", "cancelled", "aborted"},
	"child":   {"completed", "halted", "failed", "cancelled", "aborted"},
	"element": {"completed", "halted"},
}

// problem says what is wrong with a transition, "" if nothing is.
func (c transition) problem() string {
	allowed := transitions[c.Was]
	if slices.Contains(undone[c.Kind], c.Was) {
		allowed = []string{"rolling_back", "cancelled"}
	}
	element := c.Kind == "element" // its rollback may be a part of another
	switch {
	case !slices.Contains(allowed, c.IsNow):
		return "is no transition"
	case c.IsNow == "rolling_back" && c.Rollback == "" && !element:
		return "has no stored cause"
	case c.IsNow == "rolling_back" && final(c.Was) && c.Rollback != "undo" && !element:
		return "needs Undo as its cause"
	case c.Was == "rolling_back" && c.IsNow == "failed" && c.Rollback != "failure" && !element:
		return "needs a failure as the cause of the rollback"
	case c.Was == "rolling_back" && c.IsNow == "cancelled" && c.Rollback != "undo" && !element:
		return "needs Undo as the cause of the rollback"
	}
	return ""
}

func final(status string) bool { return status != "" && transitions[status] == nil }

// String is a transition as people read it.
func (c transition) String() string {
	was := c.Was
	if was == "" {
		was = "(new)"
	}
	others := ""
	if c.HowManyOthers > 0 {
		others = fmt.Sprintf(" and %d more", c.HowManyOthers)
	}
	return fmt.Sprintf("%s %s%s: %s -> %s with rollback %q", c.Kind, c.Run, others, was, c.IsNow, c.Rollback)
}

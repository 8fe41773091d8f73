package engine

import (
	"encoding/json"
	"time"
)

// A View is a run as operators see it; values are JSON and redacted.
type View struct {
	RunID, ParentID, RootID string
	Reactor                 string
	Version                 int
	Kind                    string // root, child, unit, element
	Status                  Status
	Input, Output           json.RawMessage
	Failure                 *RunError
	Nodes                   []NodeView // in source order, those that have not begun included
	Trace                   []string   // run charge, undo charge
	ToUndo                  []string   // paths, in the order in which Undo would take them
	Waiting                 string     // for what, in words; "" if it does not wait
	Blocked, Suspended      string     // why; "" if it is not
	Reason                  string     // of a halt, or why it was cancelled
	Tags                    []string
	Queue                   string
	Priority                int
	Owner                   string // the process that drives it; "" for nobody
	Created, Started, Ended time.Time
}

// nodePending is the state of a node that has no row, because it has not begun.
const nodePending NodeState = "pending"

// A NodeView is one node of a View.
type NodeView struct {
	Path, Kind, State string
	Attempts          int
	Recovered         int // take-overs
	Input, Output     json.RawMessage
	Reason            string // of a skip or halt
	Failure           string // of the last failed attempt
	Hook, HookState   string // what a rollback did with it
	Started, Ended    time.Time
	RunID             string // of the run that it dispatched
}

// A Query filters List; zero values filter nothing.
type Query struct {
	Reactor      string
	Status       []Status
	Kind         string // default: roots
	Tags         []string
	IDPrefix     string
	Input        map[string]string // equality on top-level fields of the input
	Since, Until time.Time         // of the start
	Blocked      bool
	Waiting      string // for what: time
	Inbox        bool   // those that wait for an operator
	Limit        int    // default 50, at most 500
	Cursor       string // Page.Next of the page before
}

// A Page is a page of runs.
type Page struct {
	Runs []View // without Input, Output, Nodes and Trace
	Next string // "" on the last page
}

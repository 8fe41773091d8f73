package ctl

import (
	"encoding/json"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A runView is a run in JSON: the fields of engine.View.
type runView struct {
	RunID     string          `json:"run_id"`
	ParentID  string          `json:"parent_id,omitempty"`
	RootID    string          `json:"root_id"`
	Reactor   string          `json:"reactor"`
	Version   int             `json:"version"`
	Kind      string          `json:"kind"`
	Status    engine.Status   `json:"status"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Failure   *failureView    `json:"failure,omitempty"`
	Nodes     []nodeView      `json:"nodes,omitempty"`
	Trace     []string        `json:"trace,omitempty"`
	ToUndo    []string        `json:"to_undo,omitempty"`
	Waiting   string          `json:"waiting,omitempty"`
	Blocked   string          `json:"blocked,omitempty"`
	Suspended string          `json:"suspended,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Queue     string          `json:"queue"`
	Priority  int             `json:"priority"`
	Owner     string          `json:"owner,omitempty"`
	Created   time.Time       `json:"created"`
	Started   time.Time       `json:"started,omitzero"`
	Ended     time.Time       `json:"ended,omitzero"`
}

// A nodeView is one node of a run in JSON.
type nodeView struct {
	Path      string          `json:"path"`
	Kind      string          `json:"kind"`
	State     string          `json:"state"`
	Attempts  int             `json:"attempts"`
	Recovered int             `json:"recovered,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Failure   string          `json:"failure,omitempty"`
	Hook      string          `json:"hook,omitempty"`
	HookState string          `json:"hook_state,omitempty"`
	Started   time.Time       `json:"started,omitzero"`
	Ended     time.Time       `json:"ended,omitzero"`
	RunID     string          `json:"run_id,omitempty"`
}

// A failureView is how a run failed in JSON: the fields of engine.RunError.
type failureView struct {
	Message   string             `json:"message"`
	Node      string             `json:"node,omitempty"`
	NodeKind  string             `json:"node_kind,omitempty"`
	Attempt   int                `json:"attempt,omitempty"`
	Attempts  int                `json:"attempts,omitempty"`
	Code      string             `json:"code,omitempty"`
	Type      string             `json:"type,omitempty"`
	Permanent bool               `json:"permanent,omitempty"`
	Fields    engine.FieldErrors `json:"fields,omitempty"`
	Input     json.RawMessage    `json:"input,omitempty"`
	Stack     []string           `json:"stack,omitempty"`
	Rollback  []rollbackView     `json:"rollback,omitempty"`
}

// A rollbackView is a compensate or undo that did not do its work, in JSON.
type rollbackView struct {
	Node     string    `json:"node"`
	Kind     string    `json:"kind"`
	Reason   string    `json:"reason"`
	Key      string    `json:"key,omitempty"`
	Message  string    `json:"message"`
	At       time.Time `json:"at,omitzero"`
	Resolved string    `json:"resolved,omitempty"`
}

func viewOf(v *engine.View) runView {
	r := runView{
		RunID: v.RunID, ParentID: v.ParentID, RootID: v.RootID, Reactor: v.Reactor, Version: v.Version, Kind: v.Kind,
		Status: v.Status, Input: v.Input, Output: v.Output, Failure: failureOf(v.Failure), Trace: v.Trace, ToUndo: v.ToUndo,
		Waiting: v.Waiting, Blocked: v.Blocked, Suspended: v.Suspended, Reason: v.Reason, Tags: v.Tags,
		Queue: v.Queue, Priority: v.Priority, Owner: v.Owner,
		Created: v.Created.UTC(), Started: v.Started.UTC(), Ended: v.Ended.UTC(),
	}
	for _, n := range v.Nodes {
		r.Nodes = append(r.Nodes, nodeView{
			Path: n.Path, Kind: n.Kind, State: n.State, Attempts: n.Attempts, Recovered: n.Recovered, Input: n.Input,
			Output: n.Output, Reason: n.Reason, Failure: n.Failure, Hook: n.Hook, HookState: n.HookState,
			Started: n.Started.UTC(), Ended: n.Ended.UTC(), RunID: n.RunID,
		})
	}
	return r
}

func failureOf(e *engine.RunError) *failureView {
	if e == nil {
		return nil
	}
	f := &failureView{
		Message: messageOf(e.Err), Node: e.Node, NodeKind: e.NodeKind, Attempt: e.Attempt, Attempts: e.Attempts,
		Code: e.Code, Type: e.Type, Permanent: e.Permanent, Fields: e.Fields, Input: e.Input, Stack: e.Stack,
	}
	for _, r := range e.Rollback {
		f.Rollback = append(f.Rollback, rollbackView{
			Node: r.Node, Kind: r.Kind, Reason: r.Reason, Key: r.Key, Message: messageOf(r.Err), At: r.At.UTC(), Resolved: r.Resolved,
		})
	}
	return f
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

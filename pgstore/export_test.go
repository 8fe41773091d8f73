package pgstore

import (
	"encoding/json"

	"github.com/pgreactor/reactor/engine"
)

// Statements are all statements of the package, by name.
func Statements() map[string]string { return statements }

// InSchema is the text of a statement as this store sends it.
func (s *Store) InSchema(text string) string { return s.sql(text) }

// SaveArguments are the parameters of a save of one node of a run.
func SaveArguments(run, token, write string) []any {
	fence, changes := oneStep(run, token, write)
	return saveArguments(fence, changes)
}

// StepArguments are the parameters of the same as a step.
func StepArguments(run, token, write string) []any {
	fence, changes := oneStep(run, token, write)
	return stepArguments(fence, changes)
}

func oneStep(run, token, write string) (engine.Fence, *engine.Changes) {
	return engine.Fence{Run: run, Token: token, Version: 2}, &engine.Changes{
		WriteID: write, Output: json.RawMessage(`1`),
		Nodes: []engine.NodeChange{{NodeRow: engine.NodeRow{Path: "a", Kind: "step", State: engine.NodeDone, Seq: 1}}},
	}
}

// CreateArguments are the parameters of a creation of one run.
func CreateArguments(run, write, key string) []any {
	return createArguments([]engine.NewRun{{
		Header: engine.Header{
			ID: run, Root: run, Kind: engine.Root, Reactor: "checkout", Definition: 1, Fingerprint: "f1",
			Status: engine.Pending, StartKey: key, Queue: "reactor", Priority: 2,
		},
		WriteID: write, Input: json.RawMessage(`1`),
	}})
}

// ListStatement is the statement of a list and its parameters.
func ListStatement(q engine.Query) (name string, arguments []any) {
	ids, _ := idsWith(q.IDPrefix)
	after, _ := readCursor(q.Cursor)
	text, arguments := listStatement(q, append([]any{51}, listArguments(q, ids, after)...))
	for name, listed := range statements {
		if listed == text {
			return name, arguments
		}
	}
	return "", nil
}

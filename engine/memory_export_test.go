package engine

import "time"

// NewMemoryStore is the store of InMemory for tests outside this package: the
// conformance suite imports the engine.
func NewMemoryStore() Store { return newMemory(time.Now) }

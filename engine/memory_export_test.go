package engine

import "time"

// NewMemoryStore is the store of InMemory for tests outside this package: the
// conformance suite imports the engine.
func NewMemoryStore() Store { return NewMemoryStoreAt(time.Now) }

// NewMemoryStoreAt is NewMemoryStore with a clock of its own, as a database has
// one.
func NewMemoryStoreAt(clock func() time.Time) Store { return newMemory(clock) }

// Package storetest is the conformance suite of engine.Store: what the seam
// promises, written once as tests that every store passes, that of the engine
// in memory and that on Postgres among them.
//
// It uses the interface alone. Ids are UUIDs, a lease is lapsed by a heartbeat
// of zero length, and where a test has to wait it looks again until the store's
// clock has come so far.
//
// Imports: engine, go-cmp; must not know: any store.
package storetest

import (
	"slices"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

// Run runs the suite, each test in a parallel subtest on a store of its own.
// open returns an empty store whose schema is in place and that is attached to
// nothing; it may register clean-up with t.
func Run(t *testing.T, open func(t *testing.T) engine.Store) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newFixture(t, open))
		})
	}
}

// Names returns the names of the suite's tests, sorted: a test that claims to
// prove a requirement by one of them can check that it is there.
func Names() []string {
	names := make([]string, 0, len(suite))
	for _, c := range suite {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

// promise is one test of the suite.
type promise struct {
	name string
	run  func(*fixture)
}

var suite = slices.Concat(
	attachPromises, createPromises, keyPromises, claimPromises, takeoverPromises,
	savePromises, fencePromises, statusPromises, releasePromises, nodePromises, valuePromises,
	processPromises, sweepPromises, recoveryPromises, wakePromises, readPromises, listPromises,
)

package engine_test

import (
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/sequence"
)

func inMemory(_ *testing.T, l *sequence.Ledger, _ *engine.Reactor[int, int]) *engine.Engine {
	return engine.InMemoryWith(l.Middleware)
}

func TestSequences(t *testing.T) {
	t.Parallel()
	for _, c := range sequence.Cases {
		for name, place := range map[string]sequence.Placement{"here": sequence.Here, "by workers": sequence.ByWorkers} {
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				sequence.Check(t, c, place, inMemory)
			})
		}
	}
}

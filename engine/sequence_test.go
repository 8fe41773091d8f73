package engine_test

import (
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/sequence"
)

func inMemory(_ *testing.T, l *sequence.Ledger, _ *engine.Reactor[int, int]) *engine.Engine {
	return engine.InMemoryWith(l.Middleware)
}

// spec: C-244, C-259, C-261, C-262, C-264, C-265
// spec: C-267, C-290, C-291, K-591..K-595
// spec: K-597, K-598, K-601, K-602
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

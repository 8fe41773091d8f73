package engine_test

import (
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/engine/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) engine.Store { return engine.NewMemoryStore() })
}

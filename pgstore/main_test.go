package pgstore_test

import (
	"testing"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/engine/storetest"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	for check, why := range map[string]string{
		"G1":    "the suite releases runs that nothing wakes, to see them refused",
		"G3":    "the suite rolls runs back without a cause, to see which statuses may follow",
		"G4":    "the suite writes settled nodes over, to see what is kept",
		"nodes": "the suite completes runs whatever their nodes are at",
	} {
		pgtest.Allow(t, check, why)
	}
	storetest.Run(t, func(t *testing.T) engine.Store { return pgstore.New(pgtest.Pool(t)) })
}

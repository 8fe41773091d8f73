package demo

import (
	"context"
	"os"
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// The test binary is also the program of the demo's workers.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "demo-worker" {
		if err := Work(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

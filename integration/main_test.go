package integration

import (
	"os"
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(callerRole) != "" {
		call()
		return
	}
	if os.Getenv(workerRole) != "" {
		work()
		return
	}
	pgtest.Fallback = StartContainer
	pgtest.Main(m)
}

package river_test

import (
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

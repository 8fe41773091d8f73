package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/internal/sequence"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// openOnPostgres is an engine with workers on a database of its own.
func openOnPostgres(t *testing.T, l *sequence.Ledger, r *engine.Reactor[int, int]) *engine.Engine {
	t.Helper()
	eng, _ := open(t, pgtest.Pool(t), engine.Config{Middleware: []func(engine.Next) engine.Next{l.Middleware}}, r)
	return eng
}

// open is an engine with workers in this process. Stop ends both; the end of
// the test does too.
func open(t *testing.T, pool *pgxpool.Pool, c engine.Config, reactors ...engine.Definition) (eng *engine.Engine, stop func()) {
	t.Helper()
	c.Store, c.Dispatcher = pgstore.New(pool), reactorriver.NewDispatcher(pool)
	eng, err := engine.New(short(c), reactors...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := workers(pool, eng)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(client.Stop(ctx), eng.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return eng, stop
}

// spec: C-715, C-717..C-720
// spec: C-721..C-724, C-726
// spec: C-728..C-731, C-1055..C-1057
func TestSequencesOnPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range sequence.Cases {
		for name, place := range map[string]sequence.Placement{"here": sequence.Here, "by workers": sequence.ByWorkers} {
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				sequence.Check(t, c, place, openOnPostgres)
			})
		}
	}
}

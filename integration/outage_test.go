package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgdev"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

// The database is gone for longer than the lease while a body returns its
// result. The result is stored once it is back, the body is not called again,
// and nothing is compensated.
// spec: C-992, C-977, K-382, K-803, K-805, K-808
func TestDatabaseGoesAwayUnderABody(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	url := server.URL("postgres")
	pgtest.Migrate(t, url)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	at, goOn := make(chan context.Context), make(chan struct{})
	calls := make(chan string, 20)
	r := engine.MustDefine("outage", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { calls <- "a"; return n, nil }).
			Undo(func(context.Context, int, int) error { calls <- "undo a"; return nil })
		n := engine.Step(b, "b", a, func(ctx context.Context, n int) (int, error) {
			calls <- "b"
			at <- ctx
			<-goOn
			return n + 1, nil
		}).Compensate(func(context.Context, int, error) error { calls <- "compensate b"; return nil })
		return engine.Step(b, "c", n, func(_ context.Context, n int) (int, error) { calls <- "c"; return n, nil })
	})
	eng, _ := open(t, pool, engine.Config{}, r)
	h, err := r.Start(t.Context(), eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx := <-at
	if err := server.Down(pgdev.Immediate); err != nil {
		t.Fatal(err)
	}
	select { // the lease lapses, and the body is told
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, engine.ErrLeaseLost) {
			t.Errorf("the body's context ended with %v", cause)
		}
	case <-time.After(patience):
		t.Fatal("the lease does not lapse")
	}
	close(goOn)
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	res, err := h.Wait(t.Context())
	if err != nil || res.Value != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	close(calls)
	var got []string
	for call := range calls {
		got = append(got, call)
	}
	if strings.Join(got, " ") != "a b c" {
		t.Errorf("calls %v", got)
	}
}

// spec: C-900, K-424, C-76
func TestBrokenDatabases(t *testing.T) {
	t.Parallel()
	r := engine.MustDefine("broken", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { t.Error("a ran"); return n, nil })
	})
	for name, c := range map[string]struct {
		url  string
		shut bool
		want string
	}{
		"missing schema": {url: pgtest.Empty(t), want: "run reactorctl migrate"},
		"closed pool":    {url: pgtest.Empty(t), shut: true, want: "closed pool"},
		"no server":      {url: "postgres://reactor:topsecret@127.0.0.1:1/none", want: "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(t.Context(), c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if c.shut {
				pool.Close()
			}
			eng, err := engine.New(short(engine.Config{Store: pgstore.New(pool)}), r) // no I/O
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = eng.Close(context.Background()) }()
			_, err = r.Run(t.Context(), eng, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Run: %v, want it to say %q", err, c.want)
			}
			for _, secret := range []string{"topsecret", "postgres://", "SQLSTATE"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q is in the error: %v", secret, err)
				}
			}
		})
	}
}

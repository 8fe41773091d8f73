package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgproxy"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// A peer is a process inside the test: an engine with workers whose way to the
// database is a proxy of its own, so that the test can cut it off.
type peer struct {
	*engine.Engine
	proxy  *pgproxy.Proxy
	client *river.Client[pgx.Tx]
	stop   func() // client and engine, once
}

// newPeer starts one on the database at url. The end of the test stops it.
func newPeer(t *testing.T, url string, c engine.Config, reactors ...engine.Definition) *peer {
	t.Helper()
	return newPeerWith(t, url, reactorriver.AttachOptions{}, c, reactors...)
}

func newPeerWith(t *testing.T, url string, o reactorriver.AttachOptions, c engine.Config, reactors ...engine.Definition) *peer {
	t.Helper()
	proxy, through, err := pgproxy.Before(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	pool := poolOn(t, through)
	c.Store, c.Dispatcher = pgstore.New(pool), reactorriver.NewDispatcher(pool)
	eng, err := engine.New(short(c), reactors...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := workers(pool, eng, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := &peer{Engine: eng, proxy: proxy, client: client}
	p.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(client.Stop(ctx), eng.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// cut takes the database away from this peer alone.
func (p *peer) cut() {
	p.proxy.Refuse(true)
	p.proxy.Cut()
}

func (p *peer) mend() { p.proxy.Refuse(false) }

func poolOn(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// starter is an engine that starts and reads runs, and works and sweeps none.
func starter(t *testing.T, pool *pgxpool.Pool, reactors ...engine.Definition) *engine.Engine {
	t.Helper()
	eng, err := engine.New(short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), NoSweep: true}), reactors...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng
}

// stored is everything that is kept of a run, as text.
func stored(t *testing.T, pool *pgxpool.Pool, run string) (text string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `
		select r::text || (select p::text from reactor.run_payloads p where run_id = $1)
		    || coalesce((select string_agg(n::text, ' ' order by path) from reactor.nodes n where run_id = $1), '')
		  from reactor.runs r where id = $1`, run).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// one reads a single value.
func one[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", strings.Join(strings.Fields(sql), " "), err)
	}
	return v
}

// final waits until a run has ended, as the engine sees it.
func final(t *testing.T, eng *engine.Engine, run string) engine.View {
	t.Helper()
	var v engine.View
	eventually(t, "run "+run+" ends", func() bool {
		v, _ = eng.Get(t.Context(), run)
		return v.Status.Final()
	})
	return v
}

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// behindPooler is an engine with workers that poll, on a pool of more
// connections than the pooler has sessions.
func behindPooler(t *testing.T, through string, mode pgx.QueryExecMode, r engine.Definition) (*engine.Engine, *pgxpool.Pool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode, config.MaxConns = mode, 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	eng, err := engine.New(short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool)}), r)
	if err != nil {
		t.Fatal(err)
	}
	c := riverConfig()
	c.PollOnly, c.FetchPollInterval, c.FetchCooldown = true, 50*time.Millisecond, 50*time.Millisecond
	if err := reactorriver.Attach(c, eng); err != nil {
		t.Fatal(err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := eng.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return eng, pool
}

// Behind a pooler that lends its sessions for one transaction each, everything
// works by polling: starts, also in the application's transaction, retries,
// rollback, waiting and take-over; and nothing is left in any session.
// spec: C-999, K-343
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			server := pgtest.URL(t)
			p, through := newPooler(t, server, 3)
			o := newOutcomes(false)
			eng, pool := behindPooler(t, through, mode, o.r)
			var runs []string
			for i := range 10 {
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				h, err := o.r.StartTx(t.Context(), eng, pgstore.Tx(tx), fmt.Sprint("works ", i))
				if err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				runs = append(runs, h.ID)
			}
			for how, want := range map[string]engine.Status{"fails": engine.Completed, "panics": engine.Failed} {
				h, err := o.r.Start(t.Context(), eng, how)
				if err != nil {
					t.Fatal(err)
				}
				if res, _ := h.Wait(t.Context()); res.Status != want {
					t.Errorf("%s: %s, want %s", how, res.Status, want)
				}
			}
			for _, run := range runs {
				if v := final(t, eng, run); v.Status != engine.Completed {
					t.Errorf("%s", v.Status)
				}
			}
			takenOverBehind(t, pool, eng, o)
			p.clean(t)
		})
	}
}

// takenOverBehind has a run of a dead process finished.
func takenOverBehind(t *testing.T, pool *pgxpool.Pool, eng *engine.Engine, o *outcomes) {
	t.Helper()
	h, err := o.r.Start(t.Context(), eng, "works at last", engine.StartOptions{Queue: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	change(t, pool, `update reactor.runs set owner = gen_random_uuid(), process = gen_random_uuid(), status = 'running', started_at = now(),
		due = null, wake_at = null, queue = 'reactor' where id = $1`, h.ID)
	if v := final(t, eng, h.ID); v.Status != engine.Completed || len(v.Trace) != 3 {
		t.Errorf("taken over: %s, %v", v.Status, v.Trace)
	}
}

// leftInASession is what a session may keep between two transactions.
const leftInASession = `select concat_ws(' ',
	(select string_agg(name || '=' || setting, ' ') from pg_settings where source = 'session'),
	(select 'prepared: ' || string_agg(statement, ' ') from pg_prepared_statements),
	(select 'listens: ' || string_agg(c, ' ') from pg_listening_channels() c),
	(select 'advisory locks: ' || count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() having count(*) > 0),
	(select 'cursors: ' || string_agg(name, ' ') from pg_cursors where is_holdable),
	(select 'temporary: ' || string_agg(relname, ' ') from pg_class where relpersistence = 't' and relnamespace = pg_my_temp_schema()))`

// clean wants all sessions to have been used, in turn, and nothing to be left in
// any of them.
func (p *pooler) clean(t *testing.T) {
	t.Helper()
	for range cap(p.free) {
		s := <-p.free
		p.mu.Lock()
		lent := p.lent[s.pid]
		p.mu.Unlock()
		if lent < 20 {
			t.Errorf("session %d was lent for %d transactions: the pooler does not rotate", s.pid, lent)
		}
		c, err := pgconn.Construct(s.hijacked)
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.Exec(t.Context(), leftInASession).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if left := string(results[0].Rows[0][0]); left != "" {
			t.Errorf("left in a session: %s", left)
		}
		p.free <- s
	}
}

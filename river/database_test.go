package river_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// noPoll is a poll interval that no test lives to see.
const noPoll = 10 * time.Minute

// tx is what package pgstore makes of a transaction.
type tx struct{ pgx.Tx }

func (tx) EngineTx()     {}
func (t tx) Pgx() pgx.Tx { return t.Tx }

// within runs f in a transaction that is committed.
func within(t *testing.T, pool *pgxpool.Pool, f func(tx pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, f); err != nil {
		t.Fatal(err)
	}
}

// A jobRow is what a job's row says.
type jobRow struct {
	ID          int64
	Kind, Queue string
	Priority    int
	MaxAttempts int
	Attempt     int
	State       string
	Args        json.RawMessage
	Metadata    json.RawMessage
	Errors      int
}

const jobsSQL = `
select id, kind, queue, priority, max_attempts, attempt, state::text, args, metadata, coalesce(cardinality(errors), 0) as errors
  from river_job order by id`

func jobsIn(t *testing.T, pool *pgxpool.Pool) []jobRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), jobsSQL)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[jobRow])
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// notices is a connection that listens as River's clients do.
func notices(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `listen "public.river_insert"`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// queuesUntil is the queues of the notices that come before one of a mark that
// is sent now.
func queuesUntil(t *testing.T, conn *pgx.Conn, pool *pgxpool.Pool) (queues []string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `select pg_notify('public.river_insert', '{"queue": "mark"}')`); err != nil {
		t.Fatal(err)
	}
	for {
		queue := nextNotice(t, conn)
		if queue == "mark" {
			return queues
		}
		queues = append(queues, queue)
	}
}

func nextNotice(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var payload struct{ Queue string }
	if err := json.Unmarshal([]byte(n.Payload), &payload); err != nil {
		t.Fatal(err)
	}
	return payload.Queue
}

// startClient is a started River client that is stopped with the test.
func startClient(t *testing.T, pool *pgxpool.Pool, config *river.Config) *river.Client[pgx.Tx] {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	config.TestOnly = true
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopClient(t, client) })
	return client
}

func stopClient(t *testing.T, client *river.Client[pgx.Tx]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.StopAndCancel(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

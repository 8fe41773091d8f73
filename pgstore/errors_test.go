package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

var codes = regexp.MustCompile(`(?i)sqlstate|\b[0-9]{2}[0-9A-Z]{3}\b|postgres(ql)?://|user=|s3cr3t|from reactor`)

// away wants an error that the engine asks again after, in words for people.
func (f *fixture) away(err error) {
	f.Helper()
	_, fenced := errors.AsType[*engine.FenceError](err)
	if err == nil || fenced || errors.Is(err, engine.ErrUnstorable) {
		f.Fatalf("error %v, want one that the engine asks again after", err)
	}
	f.readable(err)
}

// readable wants a text without codes, statements and connection settings.
func (f *fixture) readable(err error) {
	f.Helper()
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	if found := codes.FindString(ids.ReplaceAllString(err.Error(), "")); found != "" {
		f.Errorf("%q in %q", found, err)
	}
}

// spec: C-992
func TestErrorOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	pool := open(t, "postgres://ada:s3cr3t@127.0.0.1:1/orders?connect_timeout=5", nil)
	f := &fixture{T: t, pool: pool, store: pgstore.New(pool)}
	id := newID()
	_, err := f.store.Save(t.Context(), engine.Fence{Run: id, Token: newID(), Version: 1}, step("a", 1))
	f.away(err)
	if !strings.HasPrefix(err.Error(), "save run "+id+": the database can't be reached: ") {
		t.Errorf("error %q", err)
	}
	_, err = f.store.Create(t.Context(), nil, []engine.NewRun{newRun()})
	f.away(err)
	_, err = f.store.Sweep(t.Context(), engine.SweepPass{})
	f.away(err)
	f.away(f.store.Check(t.Context()))
}

// What the database refuses for good says so; the connection is good again.
func TestUnstorable(t *testing.T) {
	t.Parallel()
	f := on(t, open(t, pgtest.URL(t), func(c *pgxpool.Config) { c.MaxConns = 1 }))
	fence := f.owned()
	twice := step("a", 1)
	twice.Nodes = append(twice.Nodes, done("a", 2))
	broken, odd, text := step("a", 1), step("a", 1), step("a", 1)
	broken.Nodes[0].Output = json.RawMessage(`{`)
	odd.Nodes[0].State = "resting"
	text.Nodes[0].Reason = "a\x00b"
	for what, c := range map[string]engine.Changes{
		"no JSON": broken, "a check": odd, "a NUL": text, "a node twice": twice,
		"no write id": {}, "a status that can't follow": {WriteID: newID(), Status: engine.Pending},
	} {
		_, err := f.store.Save(t.Context(), fence, c)
		if !errors.Is(err, engine.ErrUnstorable) || !strings.HasPrefix(err.Error(), "save run "+fence.Run) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		f.readable(err)
	}
	priority, key := newRun(), newRun()
	priority.Priority = 7
	for range 500 {
		key.StartKey += newID() // so long that no index takes it
	}
	for _, r := range []engine.NewRun{priority, key} {
		_, err := f.store.Create(t.Context(), nil, []engine.NewRun{r})
		if !errors.Is(err, engine.ErrUnstorable) || !strings.HasPrefix(err.Error(), "create run "+r.ID) {
			t.Errorf("error %v", err)
		}
	}
	f.complete(fence)
}

// A lock that somebody forgets is waited for only so long; then the save is
// asked for again, and accepted.
//
// spec: K-942
func TestSaveBehindALock(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `select from reactor.runs where id = $1 for update`, fence.Run)
	f.must(err)
	c := step("a", 1)
	_, err = f.store.Save(t.Context(), fence, c)
	f.away(err)
	if !strings.Contains(err.Error(), "lock") {
		t.Errorf("error %v", err)
	}
	f.must(tx.Rollback(t.Context()))
	f.save(&fence, c)
	f.complete(fence)
}

// A caller that leaves gets its own error.
func TestContextOfTheCaller(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fence := f.owned()
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := f.store.Save(gone, fence, step("a", 1))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	f.complete(fence)
}

// A transaction that meets a deadlock is made again.
//
// spec: K-445
func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	url := pgtest.Expecting(pgtest.URL(t))
	f := on(t, open(t, url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["deadlock_timeout"] = "100ms" }))
	fence, other := f.owned(), f.owned()
	// Somebody has the other run and waits for this one while the save, which
	// has this one, waits for the other in the dispatcher's place.
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `set local deadlock_timeout = '1h'; select from reactor.runs where id = '`+other.Run+`' for update`)
	f.must(err)
	waits := make(chan error, 1)
	tries := 0
	f.queue.standing(func(ctx context.Context, in engine.Tx) error {
		if tries++; tries > 1 {
			return nil
		}
		go func() {
			_, err := tx.Exec(ctx, `select from reactor.runs where id = $1 for update`, fence.Run)
			waits <- errors.Join(err, tx.Rollback(ctx))
		}()
		f.waitsForLock()
		_, err := pgstore.FromTx(in).Exec(ctx, `select from reactor.runs where id = $1 for update`, other.Run)
		return err
	})
	f.save(&fence, engine.Changes{WriteID: newID(), Release: true, Due: true})
	f.must(<-waits)
	if tries != 2 || f.get(fence.Run).Version != 2 {
		t.Errorf("%d tries, version %d", tries, f.get(fence.Run).Version)
	}
	f.complete(other)
}

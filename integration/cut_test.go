package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	reactorriver "github.com/pgreactor/reactor/river"
)

// outcomes is a -> b. The first attempt of b waits for the test in the process
// that is held, and then ends as the input says; the second one works, but for
// the panic.
type outcomes struct {
	r     *engine.Reactor[string, string]
	held  bool
	at    chan context.Context
	goOn  chan struct{}
	mu    sync.Mutex
	calls map[string][]string // by input
	keys  map[string][]string // of the body of b
}

func newOutcomes(held bool) *outcomes {
	o := &outcomes{held: held, at: make(chan context.Context, 100), goOn: make(chan struct{}), calls: map[string][]string{}, keys: map[string][]string{}}
	o.r = engine.MustDefine("outcomes", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		a := engine.Step(b, "a", in, func(_ context.Context, how string) (string, error) { o.note(how, "a"); return how, nil }).
			Undo(func(_ context.Context, how, _ string) error { o.note(how, "undo a"); return nil })
		return engine.Step(b, "b", a, o.body).Timeout(300*time.Millisecond).Retry(2, engine.Fixed(10*time.Millisecond)).
			Compensate(func(_ context.Context, how string, _ error) error { o.note(how, "compensate b"); return nil })
	})
	return o
}

func (o *outcomes) note(how, call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[how] = append(o.calls[how], call)
}

func (o *outcomes) body(ctx context.Context, how string) (string, error) {
	i := engine.RunFrom(ctx)
	o.note(how, fmt.Sprintf("b#%d", i.Attempt))
	o.mu.Lock()
	o.keys[how] = append(o.keys[how], i.IdempotencyKey())
	o.mu.Unlock()
	if o.held && i.Attempt == 1 {
		o.at <- ctx
		<-o.goOn
	}
	switch {
	case how == "panics":
		panic("no way")
	case i.Attempt == 2 || strings.HasPrefix(how, "works"):
		return how, nil
	case how == "times out":
		<-ctx.Done()
		return how, ctx.Err()
	}
	return how, errors.New("not yet")
}

// keysFor are the idempotency keys with which a body was called.
func (o *outcomes) keysFor(how string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.keys[how])
}

func (o *outcomes) want(t *testing.T, want map[string][]string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(want, o.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

var fourWays = []string{"works", "fails", "panics", "times out"}

// cutUnder starts a run for each of the inputs, takes the database away under
// their bodies, and lets these end.
func cutUnder(t *testing.T, p *peer, o *outcomes, inputs ...string) (runs map[string]string) {
	t.Helper()
	handles, err := o.r.StartMany(t.Context(), p.Engine, inputs)
	if err != nil {
		t.Fatal(err)
	}
	runs = map[string]string{}
	for i, h := range handles {
		runs[inputs[i]] = h.ID
		<-o.at
	}
	p.cut()
	close(o.goOn)
	return runs
}

// lapsedFor waits until no process has had a lease for so long.
func lapsedFor(t *testing.T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	eventually(t, "the lease is over", func() bool {
		return one[bool](t, pool, `select max(lease_until) < clock_timestamp() - $1::bigint * interval '1 ms' from reactor.processes`, d.Milliseconds())
	})
}

// Four bodies end, each its own way, while the database is away for longer than
// the lease: what each did is stored once it is back, no body is called for an
// outcome that was there already, and all seats are free again.
// spec: C-992, K-808, K-805
func TestOutcomesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	o := newOutcomes(true)
	p := newPeerWith(t, url, reactorriver.AttachOptions{Seats: 4}, engine.Config{}, o.r)
	runs := cutUnder(t, p, o, fourWays...)
	lapsedFor(t, poolOn(t, url), time.Second)
	p.mend()
	for how, run := range runs {
		v := final(t, p.Engine, run)
		if want := map[bool]engine.Status{true: engine.Failed, false: engine.Completed}[how == "panics"]; v.Status != want {
			t.Errorf("%s: %s, want %s", how, v.Status, want)
		}
	}
	want := map[string][]string{
		"works": {"a", "b#1"}, "fails": {"a", "b#1", "b#2"}, "times out": {"a", "b#1", "b#2"},
		"panics": {"a", "b#1", "b#2", "compensate b", "undo a"},
	}
	o.want(t, want)
	more, err := o.r.StartMany(t.Context(), p.Engine, []string{"works too", "works too", "works too", "works too"})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range more {
		if v := final(t, p.Engine, h.ID); v.Status != engine.Completed {
			t.Errorf("a run afterwards: %s", v.Status)
		}
	}
}

// The same, but the process is stopped before the database is back: the stop
// returns within its limit, and another process repeats what could not be
// stored, at the same attempt and with the same key.
// spec: C-997, C-998, K-382
func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	o, next := newOutcomes(true), newOutcomes(false)
	p := newPeer(t, url, engine.Config{}, o.r)
	runs := cutUnder(t, p, o, fourWays...)
	stopped := make(chan error, 1)
	go func() {
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = p.client.Stop(limit) // River's own limit
		stopped <- p.Close(limit)
	}()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the stop does not return")
	}
	o.want(t, map[string][]string{"works": {"a", "b#1"}, "fails": {"a", "b#1"}, "times out": {"a", "b#1"}, "panics": {"a", "b#1"}})
	successor := newPeer(t, url, engine.Config{}, next.r)
	for how, run := range runs {
		v := final(t, successor.Engine, run)
		if want := map[bool]engine.Status{true: engine.Failed, false: engine.Completed}[how == "panics"]; v.Status != want {
			t.Errorf("%s: %s, want %s", how, v.Status, want)
		}
		if keys := slices.Compact(append(o.keysFor(how), next.keysFor(how)...)); len(keys) != 1 {
			t.Errorf("%s: the body was called with the keys %v", how, keys)
		}
	}
	next.want(t, map[string][]string{
		"works": {"b#1"}, "fails": {"b#1", "b#2"}, "times out": {"b#1", "b#2"}, "panics": {"b#1", "b#2", "compensate b", "undo a"},
	})
	p.mend()
}

// A caller goes away while the database does: what it leaves behind is aborted
// if that can be stored, else the run goes on forward, like that of a dead
// caller.
// spec: C-997
func TestAbortThatCannotBeStored(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	o, next := newOutcomes(true), newOutcomes(false)
	p := newPeer(t, url, engine.Config{}, o.r)
	ctx, leave := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := o.r.Run(ctx, p.Engine, "fails")
		returned <- err
	}()
	run := engine.RunFrom(<-o.at).RunID
	p.cut()
	leave()
	close(o.goOn)
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not return to a caller that has gone")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.client.Stop(over)
	_ = p.Close(over)
	successor := newPeer(t, url, engine.Config{}, next.r)
	if v := final(t, successor.Engine, run); v.Status != engine.Completed {
		t.Errorf("%s: %s", v.Status, v.Reason)
	}
	next.want(t, map[string][]string{"fails": {"b#1", "b#2"}})
	p.mend()
}

// However many runs wait for the database, an outage is one line a second.
// spec: K-809, C-992
func TestOutageIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	o, log := newOutcomes(true), &logs{}
	p := newPeer(t, url, engine.Config{Logger: log.logger(slog.LevelInfo)}, o.r)
	inputs := make([]string, 40)
	for i := range inputs {
		inputs[i] = fmt.Sprint("works ", i)
	}
	runs := cutUnder(t, p, o, inputs...)
	lapsedFor(t, poolOn(t, url), 2*time.Second)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) < 2 {
		t.Errorf("%d lines about an outage:\n%s", len(lines), log.String())
	}
	var last time.Time
	for _, line := range lines {
		stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			t.Fatal(err)
		}
		if at.Sub(last) < 900*time.Millisecond { // stamps are those of the writing
			t.Errorf("%s after the line before: %s", at.Sub(last), line)
		}
		last = at
	}
	p.mend()
	for _, run := range runs {
		if v := final(t, p.Engine, run); v.Status != engine.Completed {
			t.Errorf("%s", v.Status)
		}
	}
}

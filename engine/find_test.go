package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// counter adds one; it is there in several versions.
func counter(version int) *engine.Reactor[int, int] {
	return engine.MustDefine("counter", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		b.Version(version)
		return engine.Step(b, "add", in, func(_ context.Context, n int) (int, error) { return n + version, nil })
	})
}

// stranger is another reactor.
func stranger() *engine.Reactor[int, int] {
	return engine.MustDefine("stranger", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "only", in, func(_ context.Context, n int) (int, error) { return n, nil })
	})
}

// spec: C-1, C-2
func TestFind(t *testing.T) {
	t.Parallel()
	first, second, other := counter(1), counter(2), stranger()
	h := newHost(t, engine.Config{}, first, second, other)
	for _, r := range []*engine.Reactor[int, int]{first, second} {
		res, err := r.Run(t.Context(), h.Engine, 1)
		if err != nil {
			t.Fatal(err)
		}
		if rec := h.record(t, res.RunID); rec.Reactor != "counter" || rec.Definition != res.Value-1 || rec.Fingerprint != r.Fingerprint() {
			t.Errorf("stored: reactor %s, version %d, fingerprint %s", rec.Reactor, rec.Definition, rec.Fingerprint)
		}
		for _, finder := range []*engine.Reactor[int, int]{first, second} {
			found, err := finder.Find(t.Context(), h.Engine, res.RunID)
			if err != nil || found.ID != res.RunID || found.Existing {
				t.Fatalf("%+v, %v", found, err)
			}
			if again, err := found.Wait(t.Context()); err != nil || again != res {
				t.Errorf("%+v, %v", again, err)
			}
		}
		_, err = other.Find(t.Context(), h.Engine, res.RunID)
		if !errors.Is(err, engine.ErrRunNotFound) || err.Error() != "run not found: "+res.RunID+" is a run of reactor counter, not of stranger" {
			t.Errorf("run of another reactor: %v", err)
		}
	}
	if first.Fingerprint() == second.Fingerprint() {
		t.Error("two versions have one fingerprint")
	}
}

// spec: C-2
func TestUnknownRun(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	for _, id := range []string{"0199c0de-0000-7000-8000-000000000000", "no uuid", ""} {
		_, found := r.Find(t.Context(), h.Engine, id)
		_, got := h.Get(t.Context(), id)
		for what, err := range map[string]error{"Find": found, "Get": got} {
			if !errors.Is(err, engine.ErrRunNotFound) || err.Error() != "run not found: "+id {
				t.Errorf("%s of %q: %v", what, id, err)
			}
		}
	}
}

type basket struct {
	Items []string `json:"items"`
	Card  string   `json:"card" reactor:"redact"`
}

// failing is pick, pack (twice), ship, post: ship fails and post is not reached.
func failing() *engine.Reactor[basket, string] {
	return engine.MustDefine("failing", func(b *engine.Builder, in engine.Ref[basket]) engine.Ref[string] {
		pick := engine.Step(b, "pick", in, func(_ context.Context, bk basket) (int, error) { return len(bk.Items), nil }).
			Undo(func(context.Context, basket, int) error { return errors.New("shelf is full") })
		tries := 0
		pack := engine.Step(b, "pack", pick, func(context.Context, int) (string, error) {
			if tries++; tries == 1 {
				return "", errors.New("no tape")
			}
			return "box", nil
		}).Retry(2, engine.Fixed(0))
		ship := engine.Step(b, "ship", pack, func(context.Context, string) (string, error) { return "", errors.New("truck is gone") })
		return engine.Step(b, "post", ship, func(_ context.Context, s string) (string, error) { return s, nil })
	})
}

// spec: C-4, C-144, C-149
func TestGetShowsARun(t *testing.T) {
	t.Parallel()
	r := failing()
	h := newHost(t, engine.Config{}, r)
	res, err := r.Run(t.Context(), h.Engine, basket{Items: []string{"a", "b"}, Card: "4111"})
	if err == nil {
		t.Fatal("no failure")
	}
	for where, e := range map[string]*host{"here": h, "in a process that knows it": h.beside(t, engine.Config{}, failing()), "in one that does not": h.beside(t, engine.Config{})} {
		v := e.view(t, res.RunID)
		if v.RunID != res.RunID || v.RootID != res.RunID || v.ParentID != "" || v.Reactor != "failing" || v.Version != 1 || v.Kind != "root" || v.Status != engine.Failed {
			t.Errorf("%s: %+v", where, v)
		}
		if got, want := string(v.Input), `{"items":["a","b"],"card":"[REDACTED]"}`; got != want {
			t.Errorf("%s: input %s, want %s", where, got, want)
		}
		var nodes []string
		for _, n := range v.Nodes {
			nodes = append(nodes, fmt.Sprintf("%s %s %s, %d attempt(s): %s -> %s, %s %s %s", n.Kind, n.Path, n.State, n.Attempts, n.Input, n.Output, n.Failure, n.Hook, n.HookState))
		}
		want := []string{
			`step pick done, 1 attempt(s): {"items":["a","b"],"card":"[REDACTED]"} -> 2,  undo failed`,
			`step pack done, 2 attempt(s): 2 -> "box",  undo skipped`,
			`step ship failed, 1 attempt(s): "box" -> , truck is gone compensate skipped`,
			`step post pending, 0 attempt(s):  -> ,   `,
		}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", where, diff)
		}
		if diff := cmp.Diff([]string{"run pick", "run pack", "run pack", "run ship", "undo pick"}, v.Trace); diff != "" {
			t.Errorf("%s: trace (-want +got):\n%s", where, diff)
		}
		if v.Failure == nil || v.Failure.Error() != err.Error() || len(v.ToUndo) != 0 {
			t.Errorf("%s: failure %v, to undo %v", where, v.Failure, v.ToUndo)
		}
	}
}

// spec: C-4, C-84
func TestGetShowsAnUnfinishedRun(t *testing.T) {
	t.Parallel()
	define := func(first string, pause time.Duration) *engine.Reactor[int, int] {
		return engine.MustDefine("slow", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
			a := engine.Step(b, first, in, func(_ context.Context, n int) (int, error) { return n, nil })
			return engine.Step(b, "b", a, func(context.Context, int) (int, error) { return 0, errors.New("not yet") }).Retry(9, engine.Fixed(pause))
		})
	}
	r := define("a", time.Hour)
	h := newHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	if v := h.view(t, started.ID); v.Status != engine.Pending || v.Waiting != "a worker" || state(v, "a") != "pending" || len(v.Trace) != 0 {
		t.Errorf("before it began: %+v", v)
	}
	h.drive(t)
	v := h.view(t, started.ID)
	if v.Status != engine.Running || !strings.HasPrefix(v.Waiting, "retry of b at ") || state(v, "a") != "done" || state(v, "b") != "waiting" {
		t.Errorf("between two attempts: %+v", v)
	}
	if diff := cmp.Diff([]string{"a"}, v.ToUndo); diff != "" {
		t.Error(diff)
	}

	soon := h.beside(t, engine.Config{}, define("a", time.Millisecond))
	if started, err = r.Start(t.Context(), h.Engine, 1); err != nil {
		t.Fatal(err)
	}
	if err := soon.Drive(t.Context(), h.jobs.take()[0]); err != nil {
		t.Fatal(err)
	}
	changed := h.beside(t, engine.Config{}, define("renamed", time.Hour))
	until(t, "the run is blocked", func() bool {
		if err := h.store.Wake(t.Context(), []string{started.ID}); err != nil {
			t.Fatal(err)
		}
		changed.drive(t)
		return h.view(t, started.ID).Blocked != ""
	})
	if v := h.view(t, started.ID); v.Status != engine.Running || !strings.Contains(v.Blocked, "removed: a") || state(v, "a") != "done" {
		t.Errorf("blocked: %+v", v)
	}
}

// progress is a Result's fields, none of which is of a node.
var progress = []string{"RunID", "Status", "Value", "Reason", "Node"}

// spec: C-84, C-818
func TestWait(t *testing.T) {
	t.Parallel()
	at, goOn := make(chan string, 1), make(chan struct{})
	r := engine.MustDefine("held", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n + 1, nil })
		return engine.Step(b, "b", a, func(ctx context.Context, n int) (int, error) {
			at <- engine.RunFrom(ctx).RunID
			<-goOn
			return n, context.Cause(ctx)
		})
	})
	h := newHost(t, engine.Config{}, r)
	go func() { _, _ = r.Run(t.Context(), h.Engine, 1) }()
	id := <-at
	found, err := r.Find(t.Context(), h.Engine, id)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if res, err := found.Wait(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, enough) || res.RunID != id || res.Status != "" {
		t.Errorf("a wait that was ended: %+v, %v", res, err)
	}
	if v := h.view(t, id); v.Status != engine.Running || state(v, "a") != "done" || string(nodeAt(v, "a").Output) != "2" || state(v, "b") != "pending" {
		t.Errorf("after it: %+v", v)
	}
	came := make(chan engine.Result[int], 1)
	go func() {
		res, err := found.Wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		came <- res
	}()
	select {
	case res := <-came:
		t.Errorf("Wait came back before the end: %+v", res)
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	if res := <-came; res.Status != engine.Completed || res.Value != 2 {
		t.Errorf("%+v", res)
	}
	for f := range reflect.TypeFor[engine.Result[int]]().Fields() {
		if !strings.Contains(strings.Join(progress, " ")+" Await Correlation Until", f.Name) {
			t.Errorf("a Result has %s", f.Name)
		}
	}
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// spec: C-7
func TestRunIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		newID func() string
		want  *regexp.Regexp
	}{
		"by default":  {nil, uuid7},
		"of the user": {func() string { return "AAAAAAAA-0000-4000-8000-0000000000ff" }, regexp.MustCompile("^aaaaaaaa-0000-4000-8000-0000000000ff$")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var inBody string
			var h *host
			r := engine.MustDefine("ids", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				return engine.Step(b, "a", in, func(ctx context.Context, _ int) (int, error) {
					inBody = engine.RunFrom(ctx).RunID
					if v := h.view(t, inBody); v.Status != engine.Running {
						t.Errorf("in the body the run is %q", v.Status)
					}
					return 0, errors.New("no")
				})
			})
			h = newHost(t, engine.Config{NewID: c.newID}, r)
			res, err := r.Run(t.Context(), h.Engine, 1)
			failure := failureIn(t, err)
			if !c.want.MatchString(res.RunID) || inBody != res.RunID || failure.RunID != res.RunID || !strings.Contains(err.Error(), "run "+res.RunID) {
				t.Errorf("result %s, body %s, failure %s: %v", res.RunID, inBody, failure.RunID, err)
			}
		})
	}
	r := counter(1)
	h := newHost(t, engine.Config{NewID: func() string { return "order-7" }}, r)
	if _, err := r.Run(t.Context(), h.Engine, 1); err == nil || err.Error() != `Config.NewID gave "order-7", which is not a UUID` || h.runs(t) != 0 {
		t.Errorf("%v, and %d runs", err, h.runs(t))
	}
}

// In the process that ran the hooks their errors are the user's own; what is
// shown of them is what is stored.
//
// spec: C-298, C-299, C-305
func TestErrorsOfHooksHere(t *testing.T) {
	t.Parallel()
	bank := errors.New("bank is down")
	r := engine.MustDefine("hooks_here", func(b *engine.Builder, in engine.Ref[basket]) engine.Ref[int] {
		a := engine.Step(b, "a", in, func(context.Context, basket) (int, error) { return 1, nil }).
			Undo(func(_ context.Context, in basket, _ int) error { return fmt.Errorf("refund of %s: %w", in.Card, bank) })
		return engine.Step(b, "b", engine.Join2(a, in, func(_ int, in basket) basket { return in }), func(context.Context, basket) (int, error) { return 0, errors.New("no") }).
			Compensate(func(context.Context, basket, error) error { return fmt.Errorf("void: %w", bank) })
	})
	h := newHost(t, engine.Config{}, r)
	_, err := r.Run(t.Context(), h.Engine, basket{Card: "4111222233334444"})
	failure := failureIn(t, err)
	stored := h.view(t, failure.RunID).Failure
	if len(failure.Rollback) != 2 || len(stored.Rollback) != 2 {
		t.Fatalf("%v, stored %v", failure.Rollback, stored.Rollback)
	}
	for i, f := range failure.Rollback {
		if !errors.Is(f.Err, bank) || errors.Is(stored.Rollback[i].Err, bank) {
			t.Errorf("%v: live %#v, stored %#v", f, f.Err, stored.Rollback[i].Err)
		}
		if f.Error() != stored.Rollback[i].Error() || strings.Contains(f.Error(), "4111222233334444") {
			t.Errorf("live %v, stored %v", f, stored.Rollback[i])
		}
	}
	if want := "compensate b: void: bank is down; undo a: refund of [REDACTED]: bank is down"; !strings.HasSuffix(err.Error(), want) || stored.Error() != err.Error() {
		t.Errorf("%v, stored %v", err, stored)
	}
}

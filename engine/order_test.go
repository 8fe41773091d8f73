package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

// A diary notes what happened, from any goroutine.
type diary struct {
	mu      sync.Mutex
	entries []string
}

// note adds an entry, unless it is the last one already.
func (d *diary) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.entries); n == 0 || d.entries[n-1] != entry {
		d.entries = append(d.entries, entry)
	}
}

func (d *diary) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = nil
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.entries, ", ")
}

// diaryOfOne is that of TestOneAttempt, because methods of values know no other.
var diaryOfOne diary

// asked is an input and given a result that say what is done with them.
type (
	asked struct{ N int }
	given struct{ N int }
)

func (a asked) MarshalJSON() ([]byte, error) {
	diaryOfOne.note("input encoded")
	return json.Marshal(a.N)
}

func (a *asked) UnmarshalJSON(raw []byte) error {
	diaryOfOne.note("input decoded")
	return json.Unmarshal(raw, &a.N)
}

func (a asked) Validate() error { diaryOfOne.note("input checked"); return nil }

func (g given) MarshalJSON() ([]byte, error) {
	diaryOfOne.note("result encoded")
	return json.Marshal(g.N)
}

func (g *given) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &g.N) }
func (g given) Validate() error                 { diaryOfOne.note("result checked"); return nil }

// spec: C-120, C-857
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	diaryOfOne.clear() // of an earlier count
	r := engine.MustDefine("attempt", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		made := engine.Pick(in, func(n int) asked { diaryOfOne.note("input made"); return asked{n} })
		a := engine.Step(b, "a", made, func(ctx context.Context, in asked) (given, error) {
			diaryOfOne.note("body")
			if engine.RunFrom(ctx).Attempt == 1 {
				return given{}, errDeclined
			}
			return given(in), nil
		}).Retry(2, engine.Fixed(0)).Guard(func(context.Context, asked) error { diaryOfOne.note("guard hook"); return nil })
		return engine.Pick(a, func(g given) int { return g.N })
	})
	h, store := frailHost(t, engine.Config{}, r)
	store.after = func(call string) error {
		if call == "Save" {
			diaryOfOne.note("saved")
		}
		return nil
	}
	if res, err := r.Run(t.Context(), h.Engine, 7); err != nil || res.Value != 7 {
		t.Fatal(res, err)
	}
	want := "input made, input encoded, input decoded, input checked, guard hook, body, saved, " +
		"input decoded, input checked, guard hook, body, result encoded, result checked, saved"
	if diff := cmp.Diff(strings.Split(want, ", "), strings.Split(diaryOfOne.text(), ", ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An input is made once: later attempts and hooks, in other processes too, get
// what was stored.
// spec: C-121, C-122
func TestInputIsMadeOnce(t *testing.T) {
	t.Parallel()
	var d diary
	made := 0
	r := engine.MustDefine("made_once", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		pick := engine.Pick(in, func(n int) int { made++; return n + made })
		a := engine.Step(b, "a", pick, func(ctx context.Context, n int) (int, error) {
			if engine.RunFrom(ctx).Attempt < 3 {
				return 0, errDeclined
			}
			return n, nil
		}).Retry(3, engine.Fixed(time.Millisecond)).Undo(func(_ context.Context, in, out int) error {
			if in != 11 || out != 11 {
				t.Errorf("undo got %d and %d", in, out)
			}
			d.note("undo a")
			return nil
		})
		return engine.Step(b, "b", engine.Join2(a, pick, func(a, _ int) int { return a }), func(context.Context, int) (int, error) {
			made = 100
			return 0, errDeclined
		}).Compensate(func(_ context.Context, in int, _ error) error {
			if in != 11 {
				t.Errorf("compensate got %d", in)
			}
			d.note("compensate b")
			return nil
		})
	})
	h := newHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 10)
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	if made != 1 {
		t.Errorf("made %d times for one attempt", made)
	}
	until(t, "the run ends, one attempt a process", func() bool {
		h.beside(t, engine.Config{}, r).drive(t)
		return h.view(t, started.ID).Status.Final()
	})
	if got := d.text(); got != "compensate b, undo a" || made != 100 {
		t.Errorf("%s; made %d times", got, made)
	}
}

// A body that is called by hand is a function like any other.
// spec: C-125
func TestBodyCalledByHand(t *testing.T) {
	t.Parallel()
	double := func(ctx context.Context, p positive) (positive, error) {
		if info := engine.RunFrom(ctx); info.Path != "" && info.Path != "outer" {
			t.Errorf("called as %s", info.Path)
		}
		return positive{2 * p.N}, nil
	}
	if got, err := double(t.Context(), positive{-1}); err != nil || got.N != -2 {
		t.Errorf("%v, %v", got, err)
	}
	e := engine.InMemoryWith()
	r := engine.MustDefine("by_hand", func(b *engine.Builder, in engine.Ref[positive]) engine.Ref[int] {
		outer := engine.Step(b, "outer", in, func(ctx context.Context, p positive) (int, error) {
			got, err := double(ctx, positive{-p.N}) // no contract inside
			return got.N, err
		})
		return engine.Step(b, "last", outer, func(_ context.Context, n int) (int, error) { return n, nil })
	})
	res, err := r.Run(t.Context(), e, positive{4})
	if err != nil || res.Value != -8 {
		t.Fatal(res, err)
	}
	if v, err := e.Get(t.Context(), res.RunID); err != nil || strings.Join(v.Trace, ", ") != "run outer, run last" {
		t.Errorf("%v, %v", v.Trace, err)
	}
}

// scattered has a, b and c, which depend on nothing but the input, c2 on c, and
// e on nothing; b waits for its second attempt, d fails, and e would be ready
// all the time.
func scattered(d *diary) *engine.Reactor[int, *int] {
	undo := func(ctx context.Context, _ int, _ *int) error { d.note("undo " + engine.RunFrom(ctx).Path); return nil }
	return engine.MustDefine("scattered", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[*int] {
		step := func(name string, in engine.Ref[int], do func(ctx context.Context) error) *engine.StepNode[int, *int] {
			return engine.Step(b, name, in, func(ctx context.Context, _ int) (*int, error) {
				d.note(name)
				if do == nil {
					return nil, nil
				}
				return nil, do(ctx)
			}).Undo(undo)
		}
		step("a", in, nil)
		step("b", in, func(ctx context.Context) error {
			if engine.RunFrom(ctx).Attempt == 1 {
				d.note("b again")
				return errDeclined
			}
			return nil
		}).Retry(2, engine.Fixed(30*time.Millisecond))
		c := step("c", in, nil)
		step("c2", engine.Pick(c, func(p *int) int {
			if p != nil {
				d.note("the result of c was replaced")
			}
			return 1
		}), nil)
		step("d", in, func(context.Context) error { return errDeclined })
		return step("e", in, nil)
	})
}

// Nodes run one at a time in source order, whatever they depend on; while one
// waits, the run waits. Another process goes on at the node that was at work,
// never calls what has settled, whatever its value, and after the failure walks
// the one list of done nodes back.
// spec: C-167, C-168, C-170, C-171, C-173..C-175
func TestOrderAcrossProcesses(t *testing.T) {
	t.Parallel()
	var d diary
	r := scattered(&d)
	h := newHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	if got := d.text(); got != "a, b, b again" {
		t.Errorf("until the run waits: %s", got)
	}
	until(t, "the run ends", func() bool {
		h.beside(t, engine.Config{}, r).drive(t)
		return h.view(t, started.ID).Status.Final()
	})
	if got, want := d.text(), "a, b, b again, b, c, c2, d, undo c2, undo c, undo b, undo a"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// However often a run is delivered, one executor drives it, one node at a time.
// spec: C-169, C-211, K-243
func TestDeliveredTwice(t *testing.T) {
	t.Parallel()
	g := newGate()
	var d diary
	r := pair(g.pass, func(b *engine.Builder, n *engine.StepNode[int, int]) {
		engine.Step(b, "c", n, func(_ context.Context, n int) (int, error) { d.note("c"); return n, nil })
	})
	h := newHost(t, engine.Config{}, r)
	other := h.beside(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	wake := h.jobs.take()[0]
	first := make(chan error, 1)
	go func() { first <- h.Drive(t.Context(), wake) }()
	<-g.at
	before := h.record(t, started.ID)
	for _, again := range []*host{h, other} {
		if err := again.Drive(t.Context(), wake); err != nil {
			t.Error(err)
		}
	}
	if after := h.record(t, started.ID); after.Version != before.Version || after.Owner != before.Owner || d.text() != "" || len(g.at) > 0 {
		t.Errorf("a second delivery changed something: version %d to %d, calls %q", before.Version, after.Version, d.text())
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if v := h.view(t, started.ID); v.Status != engine.Completed || strings.Join(v.Trace, ", ") != "run a, run b, run c" {
		t.Errorf("%s, %v", v.Status, v.Trace)
	}
}

// spec: C-176
func TestResultIsStoredBeforeItIsRead(t *testing.T) {
	t.Parallel()
	var h *host
	r := pair(func(_ context.Context, n int) (int, error) { return n + 1, nil }, func(b *engine.Builder, n *engine.StepNode[int, int]) {
		engine.Step(b, "c", n, func(ctx context.Context, _ int) (int, error) {
			if v := h.view(t, engine.RunFrom(ctx).RunID); state(v, "b") != "done" || string(nodeAt(v, "b").Output) != "3" {
				return 0, errors.New("the result of b is not stored yet")
			}
			return 0, nil
		})
	})
	h = newHost(t, engine.Config{}, r)
	if res, err := r.Run(t.Context(), h.Engine, 1); err != nil || res.Status != engine.Completed {
		t.Errorf("here: %+v, %v", res, err)
	}
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.drive(t)
	if res, err := started.Wait(t.Context()); err != nil || res.Status != engine.Completed {
		t.Errorf("by workers: %+v, %v", res, err)
	}
}

// spec: C-178, C-192
func TestDependencyOnASkippedNode(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			r := engine.MustDefine("on_skipped", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				s := engine.Step(b, "s", in, func(context.Context, int) (int, error) { return 7, engine.Skip("nothing to do") })
				ordered := engine.Do(b, "ordered", in, func(context.Context, int) error { return nil }).After(s)
				return engine.Step(b, "reader", s, func(_ context.Context, n int) (int, error) { return n, nil }).After(ordered)
			})
			h, res, err := runAt(t, place, r, engine.Config{}, 1)
			if err != nil || res.Status != engine.Completed || res.Value != 7 {
				t.Fatalf("%+v, %v", res, err)
			}
			if got := strings.Join(h.view(t, res.RunID).Trace, ", "); got != "run s, skipped s, run ordered, run reader" {
				t.Errorf("trace %s", got)
			}
		})
	}
}

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// A tip is the input of diamond.
type tip struct {
	N     int
	Skips bool // B does
	Fails bool // D does
}

// diamond is A -> (B, C) -> D: B gives 7 and may skip, C gives the input, D sums
// up. Only D is in the ledger.
func diamond(l *ledger) *engine.Reactor[tip, int] {
	return engine.MustDefine("diamond", func(d *engine.Builder, in engine.Ref[tip]) engine.Ref[int] {
		undo := func(context.Context, tip, int) error { return nil }
		a := engine.Step(d, "a", in, func(_ context.Context, t tip) (tip, error) { return t, nil }).
			Undo(func(context.Context, tip, tip) error { return nil })
		b := engine.Step(d, "b", a, func(_ context.Context, t tip) (int, error) {
			if t.Skips {
				return 7, engine.Skip("nothing to do")
			}
			return 7, nil
		}).Undo(undo)
		c := engine.Step(d, "c", a, func(_ context.Context, t tip) (int, error) { return t.N, nil }).Undo(undo)
		sum := engine.Join3(a, b, c, func(a tip, b, c int) [3]int { return [3]int{b, c, map[bool]int{true: 1}[a.Fails]} })
		return engine.Step(d, "d", sum, func(ctx context.Context, in [3]int) (int, error) {
			l.note(ctx, "do")
			if in[2] > 0 {
				return 0, errScripted
			}
			return in[0] + in[1], nil
		})
	})
}

// spec: C-178, C-192, C-282, C-686
func TestJoinAfterASkippedStep(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	makeLedger(t, pool)
	r := diamond(&ledger{pool: pool})
	eng, _ := open(t, pool, engine.Config{}, r)
	for _, c := range []struct {
		tip    tip
		value  int
		status engine.Status
		trace  string
	}{
		{tip{N: 1, Skips: true}, 8, engine.Completed, "run a, run b, skipped b, run c, run d"},
		{tip{N: 1, Skips: true, Fails: true}, 0, engine.Failed, "run a, run b, skipped b, run c, run d, undo c, undo a"},
		{tip{N: 1}, 8, engine.Completed, "run a, run b, run c, run d"},
	} {
		h, err := r.Start(t.Context(), eng, c.tip)
		if err != nil {
			t.Fatal(err)
		}
		res, _ := h.Wait(t.Context())
		v, err := eng.Get(t.Context(), h.ID)
		if err != nil || res.Value != c.value || v.Status != c.status || strings.Join(v.Trace, ", ") != c.trace {
			t.Errorf("%+v: %s with %d, trace %v, %v", c.tip, v.Status, res.Value, v.Trace, err)
		}
		if got := string(nodeOf(v, "d").Input); got != fmt.Sprintf("[7,1,%d]", map[bool]int{true: 1}[c.tip.Fails]) {
			t.Errorf("d got %s", got)
		}
		if got := effects(t, pool, h.ID); got != "do d#1" {
			t.Errorf("effects %s", got)
		}
	}
}

// A thousand runs on two worker processes, and nothing that repairs a lost
// wake-up: each run ends, once, with what both branches gave.
// spec: C-175, K-811, K-854
func TestThousandJoins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := diamond(&ledger{pool: b.pool})
	eng := starter(t, b.pool, r)
	tips := make([]tip, 1000)
	for i := range tips {
		tips[i].N = i
	}
	startWorker(t, "w1", b.url, callerRole+"="+sweeplessWorker)
	startWorker(t, "w2", b.url, callerRole+"="+sweeplessWorker)
	handles, err := r.StartMany(t.Context(), eng, tips)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range handles {
		if res, err := h.Wait(t.Context()); err != nil || res.Value != i+7 {
			t.Fatalf("run %d: %+v, %v", i, res, err)
		}
	}
	if n := one[int](t, b.pool, `select count(*) from (select run from qa_effect where step = 'd' group by run having count(*) = 1) once`); n != len(tips) {
		t.Errorf("d was called once in %d of %d runs", n, len(tips))
	}
	eventually(t, "no job is left", func() bool {
		return one[int](t, b.pool, `select count(*) from river_job where finalized_at is null`) == 0
	})
	if n := one[int](t, b.pool, `select count(*) from reactor.runs where ended_at is null`); n != 0 {
		t.Errorf("%d runs have not ended", n)
	}
}

// After a failure no further step of the run starts, however independent; what
// was done before, in source order, is undone.
// spec: C-171, C-167, C-281
func TestNothingStartsAfterAFailure(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]string{
		"a c b d": "do a#1, do c#1, do b#1, compensate b#1, undo c#1, undo a#1",
		"a b c d": "do a#1, do b#1, compensate b#1, undo a#1",
	} {
		for _, place := range []string{"here", "by workers"} {
			t.Run(order+"/"+place, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.Pool(t)
				makeLedger(t, pool)
				l := &ledger{pool: pool}
				r := engine.MustDefine("stops", func(b *engine.Builder, in engine.Ref[job]) engine.Ref[job] {
					a, last := l.step(b, "a", in), (*engine.StepNode[job, job])(nil)
					for _, name := range strings.Fields(order)[1:] {
						from := engine.Ref[job](a)
						if name != "d" {
							from = in
						}
						last = l.step(b, name, from)
					}
					return last
				})
				eng, _ := open(t, pool, engine.Config{}, r)
				v := ranAt(t, place, eng, r, job{Fail: "b"})
				if v.Status != engine.Failed || v.Failure.Node != "b" {
					t.Errorf("%s, %v", v.Status, v.Failure)
				}
				if diff := cmp.Diff(want, effects(t, pool, v.RunID)); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				if n := one[int](t, pool, `select count(*) from qa_effect where at > $1`, v.Ended); n != 0 {
					t.Errorf("%d effects after the end of the run", n)
				}
				if n := one[int](t, pool, `select count(*) from reactor.nodes n where n.run_id = $1 and n.ended_at > (select min(hook_ended_at) from reactor.nodes where run_id = $1)`, v.RunID); n != 0 {
					t.Errorf("%d steps settled after the rollback had begun", n)
				}
			})
		}
	}
}

// ranAt has a run driven at a place, to its end.
func ranAt[In, Out any](t *testing.T, place string, eng *engine.Engine, r *engine.Reactor[In, Out], in In) engine.View {
	t.Helper()
	if place == "here" {
		res, _ := r.Run(t.Context(), eng, in)
		return final(t, eng, res.RunID)
	}
	h, err := r.Start(t.Context(), eng, in)
	if err != nil {
		t.Fatal(err)
	}
	return final(t, eng, h.ID)
}

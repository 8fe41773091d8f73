package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// build is one build of a reactor that other builds must go on with: names of
// its steps in order. The step "wait" fails once, so that a run of the first
// build waits there when the next one takes over.
type buildOf struct {
	steps   string
	changed bool // the type of the result of a is another
	ran     chan string
}

func (b buildOf) reactor() *engine.Reactor[int, int] {
	return engine.MustDefine("built", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		last := in
		for _, name := range strings.Fields(b.steps) {
			if name == "a" && b.changed {
				last = engine.Pick(engine.Step(d, name, last, func(context.Context, int) (string, error) { b.ran <- "a"; return "1", nil }), func(string) int { return 1 })
				continue
			}
			last = engine.Step(d, name, last, func(ctx context.Context, n int) (int, error) {
				b.ran <- name
				if name == "wait" && engine.RunFrom(ctx).Attempt == 1 {
					return 0, errors.New("not yet")
				}
				return n, nil
			}).Retry(3, engine.Fixed(400*time.Millisecond))
		}
		return last
	})
}

// spec: C-989, C-990, C-995, C-821, K-368, K-817
// spec: K-902, C-209, C-811
func TestDefinitionChangedUnderARun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next    string
		changed bool
		blocked string // "" if the run goes on
		ran     string // by the next build, or by the first one again
	}{
		"the same":                  {next: "a b wait c", ran: "wait c"},
		"a step added at the end":   {next: "a b wait c d", ran: "wait c d"},
		"a later step added":        {next: "a b wait x c", ran: "wait x c"},
		"a later step removed":      {next: "a b wait", ran: "wait"},
		"a done step renamed":       {next: "a b2 wait c", blocked: "removed: b; changed: wait; added before what is done: b2", ran: "wait c"},
		"a done step removed":       {next: "a wait c", blocked: "removed: b; changed: wait", ran: "wait c"},
		"a step inserted before":    {next: "a n b wait c", blocked: "changed: b; added before what is done: n", ran: "wait c"},
		"the type of a done step":   {next: "a b wait c", changed: true, blocked: "changed: a", ran: "wait c"},
		"the step that it waits at": {next: "a b other c", blocked: "removed: wait", ran: "wait c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			ran := make(chan string, 20)
			first := buildOf{steps: "a b wait c", ran: ran}.reactor()
			eng, stop := open(t, pool, engine.Config{}, first)
			h, err := first.Start(t.Context(), eng, 1)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				<-ran
			}
			eventually(t, "the run waits", func() bool { v, _ := eng.Get(t.Context(), h.ID); return strings.HasPrefix(v.Waiting, "retry") })
			stop()
			next, stopNext := open(t, pool, engine.Config{}, buildOf{steps: c.next, changed: c.changed, ran: ran}.reactor())
			if c.blocked != "" {
				eventually(t, "the run is blocked", func() bool { v, _ := next.Get(t.Context(), h.ID); return v.Blocked != "" })
				v, _ := next.Get(t.Context(), h.ID)
				if !strings.Contains(v.Blocked, c.blocked) || v.Status != engine.Running || v.Owner != "" {
					t.Errorf("%s, owner %q, blocked: %s\nwant %s", v.Status, v.Owner, v.Blocked, c.blocked)
				}
				if page, err := next.List(t.Context(), engine.Query{Blocked: true}); err != nil || len(page.Runs) != 1 {
					t.Errorf("%d runs are listed as blocked, %v", len(page.Runs), err)
				}
				if why, err := next.Why(t.Context(), h.ID); err != nil || !strings.Contains(why, c.blocked) {
					t.Errorf("why: %s, %v", why, err)
				}
				if len(ran) > 0 {
					t.Errorf("the next build ran %s", <-ran)
				}
				stopNext()
				next, _ = open(t, pool, engine.Config{}, first)
			}
			eventually(t, "the run is done", func() bool { v, _ := next.Get(t.Context(), h.ID); return v.Status == engine.Completed })
			close(ran)
			var got []string
			for step := range ran {
				got = append(got, step)
			}
			if strings.Join(got, " ") != c.ran {
				t.Errorf("ran %v, want %s", got, c.ran)
			}
			if v, _ := next.Get(t.Context(), h.ID); v.Blocked != "" {
				t.Errorf("still blocked: %s", v.Blocked)
			}
		})
	}
}

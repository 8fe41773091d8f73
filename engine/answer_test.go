package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

// ends are reactors by the status in which their runs end.
func ends(status engine.Status, cancel func()) *engine.Reactor[int, int] {
	return engine.MustDefine("ends", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(ctx context.Context, n int) (int, error) {
			switch status {
			case engine.Halted:
				return 9, fmt.Errorf("stop here: %w", engine.Halt("out of stock"))
			case engine.Failed:
				return 9, errors.New("no")
			case engine.Aborted:
				cancel()
			}
			return n + 1, ctx.Err()
		})
	})
}

// spec: C-5, C-128, C-130, C-131, C-132, C-147
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want engine.Result[int]
		text string
		is   error
	}{
		{want: engine.Result[int]{Status: engine.Completed, Value: 2}},
		{want: engine.Result[int]{Status: engine.Halted, Reason: "out of stock", Node: "a"}},
		{want: engine.Result[int]{Status: engine.Failed}, text: "reactor ends, run RUN: step a failed (attempt 1 of 1): no"},
		{
			want: engine.Result[int]{Status: engine.Aborted}, is: engine.ErrAborted,
			text: "reactor ends, run RUN was aborted: the caller's context ended: context canceled; left to undo: a",
		},
	} {
		for _, place := range places {
			if place == "by workers" && c.want.Status == engine.Aborted {
				continue // no worker aborts a run
			}
			t.Run(string(c.want.Status)+"/"+place, func(t *testing.T) {
				t.Parallel()
				want := c.want
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := ends(want.Status, cancel)
				h := newHost(t, engine.Config{}, r)
				run := ""
				if place == "here" {
					res, err := r.Run(ctx, h.Engine, 1)
					run, want.RunID = res.RunID, res.RunID
					if aborted := want.Status == engine.Aborted; aborted && !errors.Is(err, context.Canceled) || !aborted && errorText(err) != strings.ReplaceAll(c.text, "RUN", run) {
						t.Errorf("Run: %v", err)
					}
					if res != want {
						t.Errorf("Run: %+v, want %+v", res, want)
					}
				} else {
					started, err := r.Start(ctx, h.Engine, 1)
					if err != nil {
						t.Fatal(err)
					}
					run, want.RunID = started.ID, started.ID
					h.beside(t, engine.Config{}, r).drive(t)
				}
				for name, e := range map[string]*host{"this process": h, "another": h.beside(t, engine.Config{}, r)} {
					found, err := r.Find(t.Context(), e.Engine, run)
					if err != nil {
						t.Fatal(err)
					}
					res, err := found.Wait(t.Context())
					if res != want || errorText(err) != strings.ReplaceAll(c.text, "RUN", run) || c.is != nil && !errors.Is(err, c.is) {
						t.Errorf("Wait in %s: %+v, %v", name, res, err)
					}
				}
			})
		}
	}
}

// spec: C-5
func TestAnswerOfACancelledRun(t *testing.T) {
	t.Parallel()
	r := counter(1)
	h := newHost(t, engine.Config{}, r)
	started, err := r.Start(t.Context(), h.Engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.seize(t, started.ID, engine.Changes{Status: engine.Cancelled, Reason: "customer left"})
	res, err := started.Wait(t.Context())
	if !errors.Is(err, engine.ErrCancelled) || err.Error() != "reactor counter, run "+started.ID+" was cancelled: customer left" {
		t.Errorf("%v", err)
	}
	if want := (engine.Result[int]{RunID: started.ID, Status: engine.Cancelled, Reason: "customer left"}); res != want {
		t.Errorf("%+v, want %+v", res, want)
	}
}

// A process that stops between two hooks of a rollback answers with that status.
//
// spec: C-5
func TestAnswerOfARunThatRollsBackElsewhere(t *testing.T) {
	t.Parallel()
	var h *host
	closed := make(chan error, 1)
	r := engine.MustDefine("leaving", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		undo := func(context.Context, int, int) error { t.Error("undone by a process that stops"); return nil }
		a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).Undo(undo)
		return engine.Step(b, "b", a, func(context.Context, int) (int, error) { return 0, errors.New("no") }).
			Compensate(func(ctx context.Context, _ int, _ error) error {
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				go func() { closed <- h.Close(ended) }()
				<-ctx.Done()
				return nil
			})
	})
	h = newHost(t, engine.Config{}, r)
	res, err := r.Run(t.Context(), h.Engine, 1)
	if want := (engine.Result[int]{RunID: res.RunID, Status: engine.RollingBack}); err != nil || res != want {
		t.Errorf("%+v, %v", res, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if rec := h.record(t, res.RunID); rec.Status != engine.RollingBack || rec.Owner != "" {
		t.Errorf("stored: %s, owner %q", rec.Status, rec.Owner)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

var errDeclined = errors.New("card declined")

// coded is a user's error with a code.
type coded struct{ code string }

func (c *coded) Error() string     { return "refused with " + c.code }
func (c *coded) ErrorCode() string { return c.code }

// retryCase says what the attempts of a step return, and how often it may try.
type retryCase struct {
	errs     []error // of successive attempts; nil works
	attempts int     // 0 is no policy
	only     func(error) bool
	ran      []int    // attempt numbers that the body saw
	asked    []string // of the backoff
	failed   bool
}

// spec: C-141, C-142, C-220, C-236..C-238, C-243
// spec: C-245..C-247, C-251, C-888, C-885, C-600
// spec: C-258
func TestWhatIsRetried(t *testing.T) {
	t.Parallel()
	deep := fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", engine.Permanent(errDeclined)))
	yes := func(error) bool { return true }
	for name, c := range map[string]retryCase{
		"no policy":             {errs: []error{errDeclined}, ran: []int{1}, failed: true},
		"one attempt":           {errs: []error{errDeclined}, attempts: 1, ran: []int{1}, failed: true},
		"until it works":        {errs: []error{errDeclined, errDeclined, nil}, attempts: 5, ran: []int{1, 2, 3}, asked: []string{"1 card declined", "2 card declined"}},
		"all used up":           {errs: []error{errDeclined, errDeclined, &coded{"empty"}}, attempts: 3, ran: []int{1, 2, 3}, asked: []string{"1 card declined", "2 card declined"}, failed: true},
		"permanent":             {errs: []error{engine.Permanent(errDeclined)}, attempts: 3, ran: []int{1}, failed: true},
		"permanent deep inside": {errs: []error{deep}, attempts: 3, ran: []int{1}, failed: true},
		"RetryIf says no":       {errs: []error{&coded{"gone"}}, attempts: 3, only: func(err error) bool { return err == errDeclined }, ran: []int{1}, failed: true},
		"RetryIf says yes":      {errs: []error{errDeclined, nil}, attempts: 3, only: func(err error) bool { return err == errDeclined }, ran: []int{1, 2}, asked: []string{"1 card declined"}},
		"RetryIf of permanent":  {errs: []error{engine.Permanent(errDeclined)}, attempts: 3, only: yes, ran: []int{1}, failed: true},
		"RetryIf panics":        {errs: []error{errDeclined}, attempts: 3, only: func(error) bool { panic("no") }, ran: []int{1}, failed: true},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func (c retryCase) check(t *testing.T) {
	var ran []int
	var asked []string
	compensated := 0
	r := engine.MustDefine("retried", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		n := engine.Step(b, "b", in, func(ctx context.Context, _ int) (int, error) {
			ran = append(ran, engine.RunFrom(ctx).Attempt)
			return 0, c.errs[len(ran)-1]
		}).Compensate(func(context.Context, int, error) error { compensated++; return nil })
		if c.attempts > 0 {
			n.Retry(c.attempts, func(attempt int, err error) time.Duration {
				asked = append(asked, fmt.Sprint(attempt, " ", err))
				return time.Millisecond
			})
		}
		if c.only != nil {
			n.RetryIf(c.only)
		}
		return n
	})
	_, err := r.Run(t.Context(), engine.InMemoryWith(), 1)
	if diff := cmp.Diff(c.ran, ran); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.asked, asked); diff != "" {
		t.Errorf("asked of the backoff (-want +got):\n%s", diff)
	}
	failure, failed := errors.AsType[*engine.RunError](err)
	if failed != c.failed || failed != (compensated == 1) {
		t.Fatalf("%v, compensated %d times", err, compensated)
	}
	if last := c.errs[len(c.errs)-1]; failed && (!errors.Is(err, last) || failure.Attempt != len(c.errs) || failure.Attempts != max(c.attempts, 1)) {
		t.Errorf("attempt %d of %d: %v", failure.Attempt, failure.Attempts, err)
	}
}

// A broken contract is never retried.
// spec: C-103, C-104, C-239, C-241, C-118, C-101
func TestContractsAreNotRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, out     int
		compensated bool
	}{"input": {in: -1, out: 1}, "result": {in: 1, out: -1, compensated: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undone, compensated := false, false
			r := engine.MustDefine("contract", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
				a := engine.Step(b, "a", in, func(_ context.Context, n int) (int, error) { return n, nil }).
					Undo(func(context.Context, int, int) error { undone = true; return nil })
				n := engine.Step(b, "b", engine.Pick(a, func(n int) positive { return positive{n} }), func(context.Context, positive) (positive, error) {
					return positive{c.out}, nil
				}).Retry(3, engine.Fixed(0)).Compensate(func(_ context.Context, in positive, _ error) error {
					compensated = in.N == c.in
					return nil
				})
				return engine.Pick(n, func(p positive) int { return p.N })
			})
			e := engine.InMemoryWith()
			_, err := r.Run(t.Context(), e, c.in)
			failure, ok := errors.AsType[*engine.RunError](err)
			if !ok || failure.Attempt != 1 || !failure.Permanent || failure.Code != "contract" || failure.Fields["N"] == "" {
				t.Fatalf("%+v", err)
			}
			if !undone || compensated != c.compensated {
				t.Errorf("undone %t, compensated %t", undone, compensated)
			}
			view, err := e.Get(t.Context(), failure.RunID)
			if err != nil || !view.Failure.Permanent || view.Failure.Fields["N"] == "" {
				t.Errorf("reloaded: %+v, %v", view.Failure, err)
			}
		})
	}
}

// positive is a contract.
type positive struct{ N int }

// Validate refuses what is not above 0.
func (p positive) Validate() error {
	if p.N <= 0 {
		return engine.FieldErrors{"N": "must be above 0"}
	}
	return nil
}

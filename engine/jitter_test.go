package engine

import (
	"math"
	"testing"
	"time"
)

// No attempt number makes a pause that is none, or longer than the cap.
//
// spec: C-234, C-884
func TestPausesAtHighAttempts(t *testing.T) {
	t.Parallel()
	const longest = 24 * time.Hour
	for name, b := range map[string]Backoff{
		"default":     nil,
		"exponential": Exponential(time.Hour).Jitter(0.5),
		"linear":      Linear(math.MaxInt64).Jitter(0.9),
		"fixed":       Fixed(math.MaxInt64).Jitter(0.9),
		"small":       Exponential(time.Millisecond).Jitter(0.5),
		"capped":      Exponential(time.Second).Cap(time.Hour).Jitter(0.5),
		"nil, capped": Backoff(nil).Cap(time.Hour),
		"nil, moved":  Backoff(nil).Jitter(0.1),
	} {
		for attempt := -1; attempt <= 300; attempt++ {
			for range 20 {
				if got := b.pause(attempt, nil, longest); got <= 0 || got > longest {
					t.Fatalf("%s: attempt %d pauses %s", name, attempt, got)
				}
			}
		}
	}
	negative := Backoff(func(int, error) time.Duration { return math.MinInt64 }).Jitter(1)
	for range 20 {
		if got := negative.pause(1, nil, longest); got != 0 {
			t.Fatalf("a negative pause that is moved is %s", got)
		}
	}
	if got := Backoff(nil).Cap(time.Millisecond).pause(1, nil, longest); got != time.Millisecond {
		t.Errorf("the default under a cap pauses %s", got)
	}
}

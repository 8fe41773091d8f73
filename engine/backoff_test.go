package engine

import (
	"errors"
	"math"
	"testing"
	"time"
)

// spec: C-221, C-232..C-235
func TestBackoffSequences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    Backoff
		want []time.Duration
	}{
		"exponential": {Exponential(time.Second), []time.Duration{1, 2, 4, 8}},
		"linear":      {Linear(5 * time.Second), []time.Duration{5, 10, 15}},
		"fixed":       {Fixed(10 * time.Second), []time.Duration{10, 10, 10}},
		"none":        {Exponential(0), []time.Duration{0, 0, 0}},
		"capped":      {Exponential(time.Second).Cap(3 * time.Second), []time.Duration{1, 2, 3, 3}},
	} {
		for i, want := range c.want {
			if got := c.b.pause(i+1, nil, 24*time.Hour); got != want*time.Second {
				t.Errorf("%s: pause after attempt %d is %s, want %s", name, i+1, got, want*time.Second)
			}
		}
	}
}

// spec: C-218, C-224, C-234, C-884, C-885, C-672
func TestBackoffBounds(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]Backoff{"exponential": Exponential(time.Hour), "linear": Linear(time.Hour), "fixed": Fixed(math.MaxInt64)} {
		last := time.Duration(0)
		for _, attempt := range []int{1, 2, 10, 62, 63, 64, 65, 1 << 20, math.MaxInt} {
			got := b.pause(attempt, nil, 24*time.Hour)
			if got < last || got > 24*time.Hour {
				t.Errorf("%s: pause after attempt %d is %s, after the one before %s", name, attempt, got, last)
			}
			last = got
		}
	}
	if got := Backoff(func(int, error) time.Duration { return -time.Hour }).pause(1, nil, time.Hour); got != 0 {
		t.Errorf("a negative pause counts as %s", got)
	}
	if got := Exponential(time.Second)(-3, nil); got != time.Second {
		t.Errorf("attempt -3 pauses %s, want that of attempt 1", got)
	}
	for range 1000 {
		if got := Fixed(time.Second).Jitter(0.5)(1, errors.New("x")); got < 500*time.Millisecond || got > 1500*time.Millisecond {
			t.Fatalf("jitter of a half made %s of 1s", got)
		}
		if got := Backoff(nil).pause(2, nil, time.Hour); got < time.Second || got > 3*time.Second {
			t.Fatalf("the default paused %s after attempt 2, want 2s, more or less a half", got)
		}
	}
	spread := map[time.Duration]bool{}
	for range 20 {
		spread[Fixed(time.Second).Jitter(0.5)(1, nil)] = true
	}
	if len(spread) < 2 {
		t.Error("jitter does not move the pause")
	}
}

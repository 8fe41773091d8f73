package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"
)

// A Backoff is the pause after attempt (from 1) failed with err, at most
// Config.BackoffCap; a negative pause counts as 0. A nil Backoff is
// Exponential(time.Second).Jitter(0.5).
type Backoff func(attempt int, err error) time.Duration

// defaultBackoff is that of a Retry without one, and of a nil Backoff.
func defaultBackoff() Backoff { return Exponential(time.Second).Jitter(0.5) }

func (b Backoff) orDefault() Backoff {
	if b == nil {
		return defaultBackoff()
	}
	return b
}

// Exponential waits base, 2*base, 4*base and so on. A negative base is a
// problem of the definition that uses it.
func Exponential(base time.Duration) Backoff {
	if base < 0 {
		return refused(fmt.Sprintf("Exponential(%s): a pause can't be negative", base))
	}
	return func(attempt int, _ error) time.Duration {
		return times(base, 1<<min(max(attempt, 1)-1, 62))
	}
}

// Linear waits base, 2*base, 3*base and so on. A negative base is a problem of
// the definition that uses it.
func Linear(base time.Duration) Backoff {
	if base < 0 {
		return refused(fmt.Sprintf("Linear(%s): a pause can't be negative", base))
	}
	return func(attempt int, _ error) time.Duration { return times(base, int64(max(attempt, 1))) }
}

// Fixed waits d each time. A negative d is a problem of the definition that
// uses it.
func Fixed(d time.Duration) Backoff {
	if d < 0 {
		return refused(fmt.Sprintf("Fixed(%s): a pause can't be negative", d))
	}
	return func(int, error) time.Duration { return d }
}

// Cap bounds the pause. A negative bound is a problem of the definition that
// uses it.
func (b Backoff) Cap(longest time.Duration) Backoff {
	if b.refusal() != "" {
		return b
	}
	if longest < 0 {
		return refused(fmt.Sprintf("Cap(%s): a pause can't be negative", longest))
	}
	b = b.orDefault()
	return func(attempt int, err error) time.Duration { return min(b(attempt, err), longest) }
}

// Jitter moves each pause at random by up to part of itself, either way. A part
// that is not from 0 to 1 is a problem of the definition that uses it.
func (b Backoff) Jitter(part float64) Backoff {
	if b.refusal() != "" {
		return b
	}
	if !(part >= 0 && part <= 1) {
		return refused(fmt.Sprintf("Jitter(%v): the part must be from 0 to 1", part))
	}
	b = b.orDefault()
	return func(attempt int, err error) time.Duration {
		d := max(0, min(b(attempt, err), maxDuration/2)) // so that no jitter makes it overflow
		return d + time.Duration((2*rand.Float64()-1)*part*float64(d))
	}
}

const maxDuration = time.Duration(1<<63 - 1)

// times is base*n without overflow.
func times(base time.Duration, n int64) time.Duration {
	if base > 0 && n > int64(maxDuration/base) {
		return maxDuration
	}
	return base * time.Duration(n)
}

// pause asks a backoff, within bounds whatever it says.
func (b Backoff) pause(attempt int, err error, longest time.Duration) time.Duration {
	return max(0, min(b.orDefault()(max(attempt, 1), err), longest))
}

// refused is a backoff that only says why it can't be used. All of them share
// the code of one closure, and are known by it.
//
//go:noinline
func refused(why string) Backoff {
	return func(int, error) time.Duration { panic(why) }
}

var refusedCode = reflect.ValueOf(refused("")).Pointer()

// refusal is why a backoff can't be used, "" if it can.
func (b Backoff) refusal() (why string) {
	if b == nil || reflect.ValueOf(b).Pointer() != refusedCode {
		return ""
	}
	defer func() { why, _ = recover().(string) }()
	b(1, nil)
	return ""
}

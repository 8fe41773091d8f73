package river

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A notice is what a bell sent, and how long after the start of the test.
type notice struct {
	at     time.Duration
	queues string
}

// listenTo is a bell whose notices are kept.
func listenTo(failing bool) (b *bell, notices func() []notice) {
	begin := time.Now()
	var sent []notice
	b = newBell(func(_ context.Context, queues []string) error {
		slices.Sort(queues)
		sent = append(sent, notice{time.Since(begin), fmt.Sprint(queues)})
		if failing {
			return errors.New("the database is away")
		}
		return nil
	})
	return b, func() []notice { synctest.Wait(); return sent }
}

// spec: K-855
func TestBellAnswersRingsInAPauseAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(false)
		for range 100 {
			b.ring([]string{"a"})
		}
		synctest.Wait() // the first notice is out, the bell rests
		for range 100 {
			b.ring([]string{"a"})
		}
		<-time.After(time.Second)
		b.ring([]string{"a"})
		want := []notice{{0, "[a]"}, {10 * time.Millisecond, "[a]"}, {time.Second, "[a]"}}
		if diff := cmp.Diff(want, notices(), cmp.AllowUnexported(notice{})); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}) // ends only if no goroutine of the bell is left
}

// spec: K-855
func TestBellIsBoundedOverAllQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(false)
		for range 1000 {
			b.ring([]string{"a", "b", "c"})
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		count := 0
		last := time.Duration(-1)
		for _, n := range notices() {
			count += 3
			if n.queues != "[a b c]" && n.queues != "[a]" {
				t.Errorf("notice of %s", n.queues)
			}
			if last >= 0 && n.at-last < 10*time.Millisecond {
				t.Errorf("notices %s and %s after the start", last, n.at)
			}
			last = n.at
		}
		if count > 103 || count < 90 {
			t.Errorf("%d notices in a second, want about 100", count)
		}
		if last < time.Second-time.Millisecond {
			t.Errorf("last notice after %s: the last ring, after 999 ms, was lost", last)
		}
	})
}

func TestBellForgetsWhatIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(true)
		b.ring([]string{"a"})
		<-time.After(time.Second)
		b.ring(nil)
		b.ring([]string{"b"})
		want := []notice{{0, "[a]"}, {time.Second, "[b]"}}
		if diff := cmp.Diff(want, notices(), cmp.AllowUnexported(notice{})); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

package river

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// A notice is what a bell sent, and how long after the start of the test.
type notice struct {
	at    time.Duration
	queue string
}

// listenTo is a bell whose notices are kept, and a function that waits for its
// end and returns them. A bell that leaves a goroutine fails the test's bubble.
func listenTo(result error) (b *bell, notices func() []notice) {
	begin := time.Now()
	var sent []notice
	b = &bell{send: func(_ context.Context, queue string) error {
		sent = append(sent, notice{time.Since(begin), queue})
		return result
	}}
	return b, func() []notice {
		<-time.After(time.Second)
		synctest.Wait()
		return sent
	}
}

func ring(b *bell, times int, queues ...string) {
	for range times {
		b.ring(queues)
	}
	synctest.Wait()
}

// spec: K-855
func TestBellAnswersRingsInAPauseAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(nil)
		ring(b, 100, "a")
		ring(b, 100, "a") // the first notice is out and the bell rests
		<-time.After(15 * ms)
		ring(b, 1, "b")
		ring(b, 100, "a", "c")
		<-time.After(time.Second)
		ring(b, 1, "a")
		want := []notice{{0, "a"}, {10 * ms, "a"}, {20 * ms, "b"}, {30 * ms, "a"}, {40 * ms, "c"}, {1015 * ms, "a"}}
		if diff := cmp.Diff(want, notices(), cmp.AllowUnexported(notice{})); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// spec: K-855
func TestBellIsBoundedOverAllQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(nil)
		for range 2000 {
			ring(b, 1, "a", "b", "c")
			<-time.After(ms)
		}
		sent := notices()
		last := map[string]time.Duration{}
		for i, n := range sent {
			if n.at != time.Duration(i)*10*ms {
				t.Fatalf("notice %d after %s", i, n.at)
			}
			last[n.queue] = n.at
		}
		for _, queue := range []string{"a", "b", "c"} {
			if last[queue] < 1999*ms {
				t.Errorf("the last ring of %s, after 1999 ms, was lost: its last notice is of %s", queue, last[queue])
			}
		}
	})
}

func TestBellForgetsWhatIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, notices := listenTo(errors.New("the database is away"))
		ring(b, 1, "a")
		<-time.After(time.Second)
		ring(b, 1)
		ring(b, 1, "b")
		want := []notice{{0, "a"}, {time.Second, "b"}}
		if diff := cmp.Diff(want, notices(), cmp.AllowUnexported(notice{})); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

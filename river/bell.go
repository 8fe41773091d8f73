package river

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	bellPause   = 10 * time.Millisecond // after each notice
	bellTimeout = 2 * time.Second       // of sending one
)

// A bell sends notices about queues, one after the other and coalesced: a queue
// that is rung several times before its notice goes out gets one. It has a
// goroutine only while there is something to send or a pause to keep.
type bell struct {
	send func(ctx context.Context, queue string) error

	mu      sync.Mutex
	wanted  []string // rung and not sent yet, oldest first
	ringing bool     // a goroutine is at work
}

func (b *bell) ring(queues []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range queues {
		if !slices.Contains(b.wanted, q) {
			b.wanted = append(b.wanted, q)
		}
	}
	if len(b.wanted) > 0 && !b.ringing {
		b.ringing = true
		go b.work()
	}
}

// work sends what is wanted until nothing is.
func (b *bell) work() {
	for queue, ok := b.next(); ok; queue, ok = b.next() {
		ctx, cancel := context.WithTimeout(context.Background(), bellTimeout)
		if err := b.send(ctx, queue); err != nil {
			slog.Debug("a notice to River's clients was not sent; polling finds the jobs", "queue", queue, "error", err)
		}
		cancel()
		<-time.After(bellPause)
	}
}

// next takes the oldest of what is wanted; without any the work is over. A queue
// that is rung while its notice is on the way needs another one: its job may be
// committed after that notice is read.
func (b *bell) next() (queue string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wanted) == 0 {
		b.ringing = false
		return "", false
	}
	queue = b.wanted[0]
	b.wanted = slices.Delete(b.wanted, 0, 1)
	return queue, true
}

// noticeSQL is River's own notice of a new job, as its clients listen for it.
const noticeSQL = `
select pg_notify(concat(coalesce(nullif($1::text, ''), current_schema()), '.river_insert'),
                 json_build_object('queue', $2::text)::text)`

// noticesOn sends notices through pool.
func noticesOn(pool *pgxpool.Pool, schema string) func(context.Context, string) error {
	return func(ctx context.Context, queue string) error {
		_, err := pool.Exec(ctx, noticeSQL, schema, queue)
		return err
	}
}

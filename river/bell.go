package river

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	bellPause   = 10 * time.Millisecond // after each notice, for each queue in it
	bellTimeout = 2 * time.Second       // of sending one
)

// A bell sends notices about queues, coalesced: what is rung during a pause is
// sent at its end. It has a goroutine only while there is something to send or
// a pause to keep.
type bell struct {
	send func(ctx context.Context, queues []string) error

	mu      sync.Mutex
	wanted  map[string]struct{} // rung and not sent yet
	ringing bool                // a goroutine is at work
}

func newBell(send func(context.Context, []string) error) *bell {
	return &bell{send: send, wanted: map[string]struct{}{}}
}

func (b *bell) ring(queues []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range queues {
		b.wanted[q] = struct{}{}
	}
	if len(b.wanted) > 0 && !b.ringing {
		b.ringing = true
		go b.work()
	}
}

// work sends what is wanted until nothing is. It rests longer the more queues
// it told, so that the number of notices is bounded whatever the queues.
func (b *bell) work() {
	for queues := b.take(); len(queues) > 0; queues = b.take() {
		ctx, cancel := context.WithTimeout(context.Background(), bellTimeout)
		if err := b.send(ctx, queues); err != nil {
			slog.Debug("a notice to River's clients was not sent; polling finds the jobs", "queues", queues, "error", err)
		}
		cancel()
		<-time.After(time.Duration(len(queues)) * bellPause)
	}
}

// take empties what is wanted; with nothing left the work is over. What is rung
// while a notice is on its way needs another one: its job may be committed
// after that notice is read.
func (b *bell) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	queues := make([]string, 0, len(b.wanted))
	for q := range b.wanted {
		queues = append(queues, q)
	}
	clear(b.wanted)
	b.ringing = len(queues) > 0
	return queues
}

// noticeSQL is River's own notice of new jobs, as its clients listen for it.
const noticeSQL = `
select pg_notify(concat(coalesce(nullif($1::text, ''), current_schema()), '.river_insert'),
                 json_build_object('queue', q)::text)
  from unnest($2::text[]) as q`

// noticesOn sends notices through pool.
func noticesOn(pool *pgxpool.Pool, schema string) func(context.Context, []string) error {
	return func(ctx context.Context, queues []string) error {
		_, err := pool.Exec(ctx, noticeSQL, schema, queues)
		return err
	}
}

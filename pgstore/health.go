package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/migrations/schema"
)

const unworkedSQL = `
select r.queue, count(*) from reactor.runs r
 where ` + isLate + `
   and not exists (select from reactor.processes q where q.lease_until > clock_timestamp() and r.queue = any(q.queues))
 group by r.queue
 order by r.queue`

// unworked lists the queues with runs that have been due for 30 s and that no
// live process works.
func (s *Store) unworked(ctx context.Context) (found []engine.Unworked, err error) {
	err = s.do(ctx, work{options: reading, queue: func(b *pgx.Batch) {
		b.Queue(s.sql(unworkedSQL)).Query(collect(&found, unworkedFields))
	}})
	return found, err
}

func unworkedFields(u *engine.Unworked) []any { return []any{&u.Queue, &u.Runs} }

const serverSQL = `select current_setting('server_version'), clock_timestamp()`

const processesSQL = `
select p.id::text, p.host, p.pid, p.started_at, p.beat_at, p.lease_until, p.knows, p.queues,
       (select count(*) from reactor.runs r where r.process = p.id and r.owner is not null)
  from reactor.processes p
 order by p.id`

const countsSQL = `select r.status, count(*) from reactor.runs r where r.ended_at is null group by r.status`

// stuckSQL lists unfinished runs that nothing will wake, or that something
// should have woken long ago.
const stuckSQL = `
select r.id::text, r.reactor, r.status, r.due, r.owner is not null, r.queue, r.definition,
       exists (select from reactor.processes q where q.lease_until > clock_timestamp() and r.queue = any(q.queues)),
       exists (select from reactor.processes q where q.lease_until > clock_timestamp() and r.queue = any(q.queues)
               and r.reactor || '@' || r.definition::text = any(q.knows))
  from reactor.runs r
 where r.ended_at is null and r.status <> 'paused' and r.blocked is null and r.suspended is null
   and coalesce((select p.lease_until from reactor.processes p where p.id = r.process) <= clock_timestamp(), true)
   and (r.due is null and r.owner is null or r.due < clock_timestamp() - interval '30 seconds')
 order by r.created_at
 limit 100`

// Health says what an operator must know of the database and of the processes
// that work on it. It names at most 100 stuck runs.
func (s *Store) Health(ctx context.Context) (*engine.Health, error) {
	version, err := schema.Current(ctx, s.pool, s.schema)
	if err != nil {
		return nil, described("look at the database", err)
	}
	h := &engine.Health{Schema: version.Number, Want: schema.Latest}
	if h.Schema == 0 {
		return h, nil // there is nothing to look at
	}
	var counts []statusCount
	err = s.do(ctx, work{options: snapshot, queue: func(b *pgx.Batch) {
		b.Queue(serverSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&h.Server, timeOf{&h.Clock}) })
		b.Queue(s.sql(processesSQL)).Query(collect(&h.Processes, processFields))
		b.Queue(s.sql(countsSQL)).Query(collect(&counts, countFields))
		b.Queue(s.sql(stuckSQL)).Query(func(rows pgx.Rows) error { return scanStuck(rows, h) })
		b.Queue(s.sql(unworkedSQL)).Query(collect(&h.Unworked, unworkedFields))
	}})
	if err != nil {
		return nil, described("look at the database", err)
	}
	h.Counts = map[engine.Status]int{}
	for _, c := range counts {
		h.Counts[c.status] = c.runs
	}
	return h, nil
}

// statusCount is how many runs have a status.
type statusCount struct {
	status engine.Status
	runs   int
}

func countFields(c *statusCount) []any { return []any{&c.status, &c.runs} }

func processFields(p *engine.ProcessHealth) []any {
	return []any{
		&p.ID, &p.Host, &p.PID, timeOf{&p.Started}, timeOf{&p.Beat}, timeOf{&p.Lease}, &p.Knows, &p.Queues, &p.Owned,
	}
}

func scanStuck(rows pgx.Rows, h *engine.Health) error {
	h.Stuck = nil
	for rows.Next() {
		var (
			s                    engine.Stuck
			due                  time.Time
			queue                string
			definition           int
			dead, worked, driven bool // its owner, its queue, its reactor on it
		)
		if err := rows.Scan(&s.Run, &s.Reactor, &s.Status, timeOf{&due}, &dead, &queue, &definition, &worked, &driven); err != nil {
			return err
		}
		s.Reason = stuckReason(due, dead)
		if worked && !driven {
			s.Reason += fmt.Sprintf(": reactor %s v%d is not registered on any worker of queue %q", s.Reactor, definition, queue)
		}
		h.Stuck = append(h.Stuck, s)
	}
	return rows.Err()
}

func stuckReason(due time.Time, dead bool) string {
	switch at := due.Format(time.RFC3339); {
	case due.IsZero():
		return "no owner and no due time: nothing will wake it"
	case dead:
		return fmt.Sprintf("its owner died, and nobody has claimed it since %s", at)
	default:
		return fmt.Sprintf("due since %s and not claimed", at)
	}
}

// collect reads all rows into to, replacing what an earlier try has left there.
func collect[T any](to *[]T, fields func(*T) []any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*to = nil
		for rows.Next() {
			var v T
			if err := rows.Scan(fields(&v)...); err != nil {
				return err
			}
			*to = append(*to, v)
		}
		return rows.Err()
	}
}

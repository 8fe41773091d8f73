package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// wakeSQL notes of those of the runs that can be woken, and that nobody has
// locked, that a wake-up is queued; the pause until the next one grows from 1 s
// to 1 min. With $2 a sweep asks: then a run of a dead process counts as due,
// and one whose last wake-up may still be on its way is left alone. The
// conditions beside the id are cases, so that they imply no partial index.
const wakeSQL = `
with found as (
	select r.id
	  from unnest($1::text[]::uuid[]) as w(id)
	 cross join lateral (
		select y.id from reactor.runs y
		 where y.id = w.id
		   and case when y.ended_at is null and y.suspended is null
		            then y.due <= clock_timestamp() or $2::int <> 0 and y.owner is not null else false end
		   and coalesce((select p.lease_until from reactor.processes p where p.id = y.process) <= clock_timestamp(), true)
		   and ($2::int = 0 or y.wake_at is null or y.wake_at <= clock_timestamp())
		   for no key update skip locked) r
)
update reactor.runs r
   set wake_at = clock_timestamp() + least(60, 1 << least(r.wakes, 6))::float8 * interval '1 second',
       wakes = r.wakes + 1, due = coalesce(r.due, clock_timestamp())
  from found f
 where r.id = f.id
returning r.id::text, r.queue, r.priority, r.owner is not null`

// Wake queues the wake-ups of those of the runs that are due and have no live
// owner. A run that somebody else has locked is left to the sweep.
func (s *Store) Wake(ctx context.Context, runs []string) error {
	if _, err := s.wake(ctx, runs, false); err != nil {
		return described("wake runs", err)
	}
	return nil
}

// wake is Wake, for a sweep or not, and returns the runs that were woken.
func (s *Store) wake(ctx context.Context, runs []string, sweep bool) (woken []dueRun, err error) {
	ids := known(runs)
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.do(ctx, work{
		queue: func(b *pgx.Batch) {
			b.Queue(s.sql(wakeSQL), ids, flag(sweep)).Query(func(rows pgx.Rows) (err error) {
				woken, err = scanWoken(rows, ids)
				return err
			})
		},
		wakes: func() []engine.Wake { return wakesOf(woken) },
	})
	return woken, err
}

// scanWoken reads the runs of wakeSQL in the order in which they were given.
func scanWoken(rows pgx.Rows, given []string) (woken []dueRun, err error) {
	for rows.Next() {
		var d dueRun
		if err := rows.Scan(&d.id, &d.queue, &d.priority, &d.dead); err != nil {
			return nil, err
		}
		woken = append(woken, d)
	}
	sortAs(woken, given)
	return woken, rows.Err()
}

// sortAs puts runs into the order in which their ids were given.
func sortAs(runs []dueRun, given []string) {
	place := make(map[string]int, len(given))
	for i, id := range given {
		place[id] = i
	}
	slices.SortFunc(runs, func(a, b dueRun) int { return place[a.id] - place[b.id] })
}

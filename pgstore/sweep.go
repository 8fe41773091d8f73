package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// deadOwners is the processes that own runs and have no live lease. They are found
// by going from one owner to the next in the index, whatever each owns, so that
// one without a row is found too.
const deadOwners = `
with recursive owners as (
	(select r.process from reactor.runs r where r.owner is not null order by r.process limit 1)
	union all
	select (select r.process from reactor.runs r where r.owner is not null and r.process > o.process order by r.process limit 1)
	  from owners o
	 where o.process is not null
), dead as (
	select o.process from owners o
	 where o.process is not null
	   and coalesce((select p.lease_until from reactor.processes p where p.id = o.process) <= clock_timestamp(), true)
)`

// isLeftover is the condition on a process p that it is long gone and that no
// run names it. Here and in beginPassSQL a run is looked for process by process,
// so that no statistics make it a look through all owned ones.
const isLeftover = `p.lease_until < clock_timestamp() - interval '1 hour'
	   and (select 1 from reactor.runs r where r.process = p.id and r.owner is not null limit 1) is null`

// isLate is the condition on a run r that it has been due for 30 s and that
// nobody owns it. No run that is due is left alone for more than a minute, so
// those that wait for a time further off are not even looked at.
const isLate = `r.wake_at is not null and r.wake_at <= (select clock_timestamp() + interval '61 seconds')
	   and r.due <= (select clock_timestamp() - interval '30 seconds') and r.suspended is null
	   and coalesce((select p.lease_until from reactor.processes p where p.id = r.process) <= clock_timestamp(), true)`

// beginPassSQL begins a pass, unless one began within the interval, and looks
// at the head of each index for work. It is a transaction by itself: at rest it is all
// that a pass sends.
const beginPassSQL = deadOwners + `, mine as (
	update reactor.sweeps s set began_at = clock_timestamp()
	 where $1::bigint <= 0 or s.began_at <= clock_timestamp() - $1::bigint::float8 * interval '1 microsecond'
	returning 1
)
select exists (select from dead d where (
	       select 1 from reactor.runs r where r.process = d.process and r.owner is not null and r.wake_at is null limit 1) = 1),
       coalesce((select r.wake_at from reactor.runs r where r.wake_at is not null order by r.wake_at limit 1) <= clock_timestamp(), false),
       exists (select from reactor.processes p where ` + isLeftover + `),
       (select 1 from reactor.runs r where ` + isLate + ` order by r.wake_at limit 1) is not null
  from mine`

// deadRunsSQL lists runs of dead processes that no sweep has seen yet.
const deadRunsSQL = deadOwners + `
select r.id::text
  from dead d
 cross join lateral (
	select y.id from reactor.runs y
	 where y.process = d.process and y.owner is not null and y.wake_at is null and y.suspended is null
	   and y.id <> all($2::text[]::uuid[])
	 limit $1::bigint) r
 limit $1::bigint`

// dueRunsSQL lists the runs whose next wake-up is to be queued, oldest first.
const dueRunsSQL = `
select r.id::text from reactor.runs r
 where r.wake_at is not null and r.wake_at <= (select clock_timestamp()) and r.suspended is null
   and coalesce((select p.lease_until from reactor.processes p where p.id = r.process) <= clock_timestamp(), true)
   and r.id <> all($2::text[]::uuid[])
 order by r.wake_at
 limit $1::bigint`

const leftoversSQL = `
with found as (
	select p.id from reactor.processes p where ` + isLeftover + ` order by p.id limit $1::bigint for update skip locked
)
delete from reactor.processes p using found f where p.id = f.id returning 1`

// sweepLimit is how many rows a statement takes if the pass does not say.
const sweepLimit = 1000

// Sweep runs one pass: it queues the wake-ups of runs that are due or whose
// owner died and that nothing else will wake, and removes the rows of processes
// that are long gone. Its counts are by step. A run that can't be handled does
// not stop the others: it is named in the error, which then comes beside a
// result, and is tried again after a pause that grows to 1 min.
func (s *Store) Sweep(ctx context.Context, p engine.SweepPass) (engine.SweepResult, error) {
	found, err := s.beginPass(ctx, p)
	if err != nil {
		return engine.SweepResult{}, described("begin a sweep", err)
	}
	if !found.mine {
		return engine.SweepResult{}, nil
	}
	if p.Limit <= 0 {
		p.Limit = sweepLimit
	}
	w := &sweeping{store: s, limit: p.Limit, found: map[string]int{
		engine.SweepDead: 0, engine.SweepDue: 0, engine.SweepLeftovers: 0,
	}}
	unworked, err := w.steps(ctx, found)
	result := engine.SweepResult{Ran: true, Found: w.found, Unworked: unworked}
	if err != nil {
		return result, described("sweep", err)
	}
	return result, w.bad.err()
}

// A pass is what there is to do in a pass of a sweep.
type pass struct {
	mine                       bool // else it is left to another process
	dead, due, leftovers, late bool
}

func (s *Store) beginPass(ctx context.Context, p engine.SweepPass) (found pass, err error) {
	err = s.lone(ctx, beginPassSQL, func(rows pgx.Rows) error {
		if found.mine = rows.Next(); found.mine {
			return rows.Scan(&found.dead, &found.due, &found.leftovers, &found.late)
		}
		return nil
	}, micros(p.Interval))
	return found, err
}

// sweeping is a pass at work.
type sweeping struct {
	store *Store
	limit int
	found map[string]int
	skip  []string // runs that are left alone for the rest of the pass
	bad   badRuns
}

// steps does what the beginning of the pass has found.
func (w *sweeping) steps(ctx context.Context, found pass) (unworked []engine.Unworked, err error) {
	w.skip = append([]string{}, w.store.failing.pausing()...)
	if found.dead {
		err = w.runs(ctx, deadRunsSQL)
	}
	if found.due && err == nil {
		err = w.runs(ctx, dueRunsSQL)
	}
	if found.leftovers && err == nil {
		err = w.leftovers(ctx)
	}
	if found.late && err == nil {
		unworked, err = w.store.unworked(ctx)
	}
	return unworked, err
}

// runs wakes the runs that a statement lists; a full batch is followed by the
// next at once.
func (w *sweeping) runs(ctx context.Context, list string) error {
	for {
		ids, err := w.store.ids(ctx, list, w.limit, w.skip)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := w.wake(ctx, ids); err != nil {
			return err
		}
		if len(ids) < w.limit {
			return nil
		}
	}
}

// wake wakes runs, all in one transaction unless one of them is to blame that
// this can't be done: that one is found by halving and left out.
func (w *sweeping) wake(ctx context.Context, ids []string) error {
	woken, err := w.store.wake(ctx, ids, true)
	switch half := len(ids) / 2; {
	case err == nil:
		w.count(ids, woken)
		return nil
	case !toBlame(err):
		return err
	case half == 0:
		w.skip = append(w.skip, ids...)
		w.store.failing.failed(ids[0])
		w.bad.add(ids[0], err)
		return nil
	default:
		if err := w.wake(ctx, ids[:half]); err != nil {
			return err
		}
		return w.wake(ctx, ids[half:])
	}
}

// count notes what became of ids: those that were not woken were locked or
// claimed, and are not looked at again in this pass.
func (w *sweeping) count(ids []string, woken []dueRun) {
	done := make(map[string]bool, len(woken))
	for _, r := range woken {
		done[r.id] = true
		if r.dead {
			w.found[engine.SweepDead]++
		} else {
			w.found[engine.SweepDue]++
		}
	}
	for _, id := range ids {
		if !done[id] {
			w.skip = append(w.skip, id)
		}
	}
	w.store.failing.forget(ids)
}

func (w *sweeping) leftovers(ctx context.Context) error {
	for {
		n := 0
		err := w.store.do(ctx, work{queue: func(b *pgx.Batch) {
			b.Queue(w.store.sql(leftoversSQL), w.limit).Query(func(rows pgx.Rows) error {
				for n = 0; rows.Next(); n++ {
				}
				return rows.Err()
			})
		}})
		w.found[engine.SweepLeftovers] += n
		if err != nil || n < w.limit {
			return err
		}
	}
}

// ids runs a statement that lists runs.
func (s *Store) ids(ctx context.Context, list string, limit int, skip []string) (ids []string, err error) {
	err = s.do(ctx, work{options: reading, queue: func(b *pgx.Batch) {
		b.Queue(s.sql(list), limit, skip).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}})
	return ids, err
}

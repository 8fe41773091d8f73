package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgreactor/reactor/engine"
)

// createSQL adds the runs that are not there yet, or none of them if one is
// there that another write has added, and returns those that are due now. They
// are added in the order of their start keys, so that two creations with the
// same keys wait for each other one after the other.
const createSQL = `
with given as (
	select g.*,
	       (select case when p.create_id::text = g.write_id then 'ours'
	                    when r.reactor = g.reactor and r.start_key = g.start_key then 'key' else 'clash' end
	          from reactor.runs r join reactor.run_payloads p on p.run_id = r.id
	         where r.id = g.id) as there,
	       case g.due_kind when 1 then clock_timestamp() + g.due_micros::float8 * interval '1 microsecond'
	                       when 2 then timestamptz 'epoch' + g.due_micros::float8 * interval '1 microsecond' end as due,
	       clock_timestamp() as now
	  from unnest($1::text[]::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
	              $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
	              $16::text[], $17::text[], $18::text[], $19::bigint[], $20::text[], $21::bigint[], $22::bigint[],
	              $23::text[], $24::text[], $25::text[], $26::text[], $27::text[])
	       as g(id, root_id, parent_id, parent_path, kind, reactor, definition, fingerprint, status, element, owner,
	            process, write_id, wake_reason, blocked, suspended, rollback, start_key, priority, queue, due_kind,
	            due_micros, retried_from, input, failure, tags, fields)
), added as (
	insert into reactor.runs (id, root_id, parent_id, parent_path, kind, reactor, definition, fingerprint, status,
	       element, owner, process, write_id, wake_reason, blocked, suspended, rollback, start_key, priority, queue,
	       retried_from, version, created_at, started_at, ended_at, due, wake_at, wakes)
	select g.id, coalesce(nullif(g.root_id, '')::uuid, g.id), nullif(g.parent_id, '')::uuid, nullif(g.parent_path, ''),
	       g.kind, g.reactor, g.definition, g.fingerprint, g.status, nullif(g.element, 0), nullif(g.owner, '')::uuid,
	       nullif(g.process, '')::uuid, nullif(g.write_id, '')::uuid, nullif(g.wake_reason, ''), nullif(g.blocked, ''),
	       nullif(g.suspended, ''), nullif(g.rollback, ''), nullif(g.start_key, ''), g.priority, g.queue,
	       nullif(g.retried_from, '')::uuid, 1, g.now, case g.status when 'running' then g.now end,
	       case when g.status not in ('pending', 'running') then g.now end, g.due,
	       case when g.due <= g.now then g.now + interval '1 second' else g.due end,
	       case when g.due <= g.now then 1 else 0 end
	  from given g
	 where g.there is null
	   and not exists (select from given o where o.there = 'clash')
	 order by g.reactor, g.start_key, g.id
	    on conflict (reactor, start_key) where start_key is not null do nothing
	returning id, wakes, queue, priority
), payload as (
	insert into reactor.run_payloads (run_id, create_id, input, failure, tags, fields)
	select a.id, nullif(g.write_id, '')::uuid, nullif(g.input, '')::json, nullif(g.failure, '')::json,
	       nullif(g.tags, '')::text[], nullif(g.fields, '')::text[]
	  from added a join given g on g.id = a.id
)
select a.id::text, a.queue, a.priority from added a where a.wakes > 0`

// createdSQL reads, in a later statement, the run that is there under the id
// of each given one, and else the one that has its start key.
const createdSQL = `
select g.place - 1, r.id::text, r.version, coalesce(r.owner::text, ''), coalesce(r.process::text, ''), r.status,
       o.ours, coalesce(r.reactor = g.reactor and r.start_key = g.start_key, false),
       case when not o.ours then p.input::text end, clock_timestamp()
  from unnest($1::text[]::uuid[], $2::text[], $3::text[], $4::text[])
       with ordinality as g(id, write_id, reactor, start_key, place)
 cross join lateral (
	select y.* from reactor.runs y where y.id = g.id
	 union all
	select y.* from reactor.runs y where y.reactor = g.reactor and y.start_key = nullif(g.start_key, '') and y.id <> g.id) r
 cross join lateral (select y.create_id, y.input from reactor.run_payloads y where y.run_id = r.id limit 1) p
 cross join lateral (select r.id = g.id and coalesce(p.create_id::text, '') = g.write_id as ours) o
 order by g.place, r.id = g.id desc`

// Create adds runs and queues the wake-ups of those that are due, all or none:
// in tx, made with Tx, if it is not nil, else in a transaction of its own. A
// run whose start key is taken is not added: its Created names the run that has
// the key. A run that is there already is an *engine.FenceError, unless this
// very write had added it. In tx it waits for another transaction with the same
// start key for at most 5 s.
func (s *Store) Create(ctx context.Context, tx engine.Tx, runs []engine.NewRun) ([]engine.Created, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	c := &creation{store: s, runs: runs, arguments: createArguments(runs)}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := checkTexts(c.arguments); err != nil {
		return nil, refused(c.what(), err)
	}
	err := c.create(ctx, tx)
	if fence, ok := errors.AsType[*engine.FenceError](err); ok {
		return nil, fence
	}
	if err != nil {
		return nil, refused(c.what(), err)
	}
	return c.created, nil
}

// A creation is one call of Create and what came of it.
type creation struct {
	store     *Store
	runs      []engine.NewRun
	arguments []any
	due       []dueRun
	created   []engine.Created
	clash     *engine.FenceError // a run that another write has added
}

// what names the operation and its run.
func (c *creation) what() string {
	if len(c.runs) == 1 {
		return "create run " + c.runs[0].ID
	}
	return fmt.Sprintf("create run %s and %d more", c.runs[0].ID, len(c.runs)-1)
}

func (c *creation) create(ctx context.Context, tx engine.Tx) error {
	if tx != nil {
		in, err := unwrap(tx)
		if err != nil {
			return err
		}
		return c.inside(ctx, in)
	}
	w := work{queue: c.queue, verdict: c.verdict}
	if c.mayBeDue() {
		w.wakes = c.wakes
	}
	return c.store.do(ctx, w)
}

// queue adds the statements of a creation to b.
func (c *creation) queue(b *pgx.Batch) {
	c.due, c.created, c.clash = nil, make([]engine.Created, len(c.runs)), nil
	b.Queue(c.store.sql(createSQL), c.arguments...).Query(c.added)
	b.Queue(c.store.sql(createdSQL), createdArguments(c.runs)...).Query(c.there)
}

// mayBeDue reports whether a run may be due at once; whether one given a time
// is, the database's clock says.
func (c *creation) mayBeDue() bool {
	return slices.ContainsFunc(c.runs, func(r engine.NewRun) bool {
		return r.Status == engine.Pending && (!r.DueAt.IsZero() || r.DueIn <= 0)
	})
}

// added reads the runs to be woken.
func (c *creation) added(rows pgx.Rows) error {
	for rows.Next() {
		var d dueRun
		if err := rows.Scan(&d.id, &d.queue, &d.priority); err != nil {
			return err
		}
		c.due = append(c.due, d)
	}
	return again(rows.Err())
}

// again makes a race for an id one that is tried once more: the other may be
// this very write, whose connection broke.
func again(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == pgerrcode.UniqueViolation {
		return errors.Join(errAgain, err)
	}
	return err
}

// wakes is the wake-ups of the due runs, in the order in which they were given.
func (c *creation) wakes() []engine.Wake {
	place := make(map[string]int, len(c.runs))
	for i, r := range c.runs {
		place[r.ID] = i
	}
	slices.SortFunc(c.due, func(a, b dueRun) int { return place[a.id] - place[b.id] })
	return wakesOf(c.due)
}

// there reads what is there for each given run: first what has its id.
func (c *creation) there(rows pgx.Rows) error {
	for rows.Next() {
		var (
			i           int
			found       engine.FenceError
			ours, byKey bool
			input       json.RawMessage
			now         time.Time
		)
		err := rows.Scan(&i, &found.Run, &found.Found, &found.Owner, &found.Process, &found.Status, &ours, &byKey,
			jsonOf(&input), timeOf{&now})
		switch {
		case err != nil:
			return err
		case c.created[i].ID != "": // found by its id already
		case ours || byKey:
			c.created[i] = engine.Created{ID: found.Run, Existing: !ours, Input: input, Now: now}
		default:
			c.clash = &found
		}
	}
	return rows.Err()
}

// verdict says whether all runs are there.
func (c *creation) verdict() error {
	if c.clash != nil {
		return c.clash
	}
	if slices.ContainsFunc(c.created, func(r engine.Created) bool { return r.ID == "" }) {
		return errAgain // the run that had a key was deleted meanwhile
	}
	return nil
}

package pgstore

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// fenced is where a save may write: run, token, version and the statuses that it
// may follow are its first parameters, its write id the fifth. The lease is read
// by a subquery for the one header, and the owner is compared so that no partial
// index seems to fit: the header is found by its id whatever the statistics say.
const fenced = `
	 where r.id = $1::text::uuid
	   and r.owner is not distinct from nullif($2::text, '')::uuid
	   and r.version = $3::bigint
	   and r.write_id is distinct from $5::text::uuid
	   and r.status = any($4::text[])
	   and (select p.lease_until from reactor.processes p where p.id = r.process) > clock_timestamp()
	returning r.id, r.version, r.queue, r.priority
`

// The fence and everything that it lets in are one statement.
const saveSQL = `
with ok as (
	update reactor.runs r
	   set version = r.version + 1,
	       write_id = $5::text::uuid,
	       status = coalesce(nullif($6::text, ''), r.status),
	       rollback = coalesce(nullif($7::text, ''), r.rollback),
	       fingerprint = coalesce(nullif($8::text, ''), r.fingerprint),
	       blocked = case $9::int when 0 then r.blocked else nullif($10::text, '') end,
	       wake_reason = coalesce(nullif($11::text, ''), r.wake_reason),
	       owner = case $12::int when 0 then r.owner end,
	       process = case $12::int when 0 then r.process end,
	       due = case when $13::int > 0 then clock_timestamp() + $14::bigint::float8 * interval '1 microsecond' end,
	       wake_at = case $13::int when 1 then clock_timestamp() + $14::bigint::float8 * interval '1 microsecond'
	                               when 2 then clock_timestamp() + interval '1 second' end,
	       wakes = case $13::int when 2 then 1 else 0 end,
	       ended_at = case $15::int when 0 then r.ended_at else clock_timestamp() end` + fenced + `), payload as (
	update reactor.run_payloads p
	   set output = coalesce(nullif($16::text, '')::json, p.output),
	       failure = coalesce(nullif($17::text, '')::json, p.failure),
	       reason = coalesce(nullif($18::text, ''), p.reason),
	       reason_path = coalesce(nullif($19::text, ''), p.reason_path)
	 where p.run_id = $1::text::uuid and $20::int <> 0 and exists (select from ok)
)` + saveNodes + `
select ok.version, ok.queue, ok.priority from ok`

// savedSQL finds out what became of a save, in a later statement: by then a
// take-over that the save waited for is seen.
const savedSQL = `
select r.version, coalesce(r.owner::text, ''), coalesce(r.process::text, ''), r.status,
       r.write_id is not distinct from $2::text::uuid,
       coalesce((select p.lease_until from reactor.processes p where p.id = r.process) > clock_timestamp(), false)
  from reactor.runs r
 where r.id = $1::text::uuid`

// Save changes a run as c says, all or nothing, if the fence still holds, and
// returns the new version. A refused save is an *engine.FenceError and leaves
// nothing behind. A save whose WriteID had landed before is a success; its
// version is the one that the run has now.
func (s *Store) Save(ctx context.Context, f engine.Fence, c engine.Changes) (version int64, err error) {
	if err := checkChanges(f, &c); err != nil {
		return 0, err
	}
	text, arguments := saveSQL, saveArguments
	if isStep(&c) {
		text, arguments = saveStepSQL, stepArguments
	}
	parameters := arguments(f, &c)
	if err := checkTexts(parameters); err != nil {
		return 0, refused("save run "+f.Run, err)
	}
	var v verdict
	w := work{
		lone: text == saveStepSQL,
		queue: func(b *pgx.Batch) {
			v = verdict{fence: f, changes: &c}
			b.Queue(s.sql(text), parameters...).Query(v.accepted)
			b.Queue(s.sql(savedSQL), f.Run, c.WriteID).Query(v.found)
		},
		verdict: func() error { return v.refusal },
	}
	if dueNow(&c) {
		w.wakes = func() []engine.Wake { return wakesOf(v.due) }
	}
	err = s.do(ctx, w)
	if fence, ok := errors.AsType[*engine.FenceError](err); ok {
		return 0, fence
	}
	if err != nil {
		return 0, refused("save run "+f.Run, err)
	}
	return v.version, nil
}

// A verdict is what became of a save.
type verdict struct {
	fence   engine.Fence
	changes *engine.Changes
	version int64    // 0 if the save was not accepted
	due     []dueRun // to be woken now
	refusal error
}

// accepted reads the answer of saveSQL, which has a row if the fence held.
func (v *verdict) accepted(rows pgx.Rows) error {
	for rows.Next() {
		d := dueRun{id: v.fence.Run}
		if err := rows.Scan(&v.version, &d.queue, &d.priority); err != nil {
			return err
		}
		v.due = append(v.due, d)
	}
	return rows.Err()
}

// found reads the header as it is after the save.
func (v *verdict) found(rows pgx.Rows) error {
	e := &engine.FenceError{Run: v.fence.Run, Lost: true, Expected: v.fence.Version}
	landed, live := false, false
	for rows.Next() {
		if err := rows.Scan(&e.Found, &e.Owner, &e.Process, &e.Status, &landed, &live); err != nil {
			return err
		}
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case v.version > 0:
		return nil
	case landed:
		v.version = e.Found
		return nil
	}
	v.refusal = v.judge(e, live)
	return nil
}

// judge says why the fence refused: token and lease come before the version.
func (v *verdict) judge(e *engine.FenceError, live bool) error {
	e.Lost = e.Owner == "" || e.Owner != v.fence.Token || !live
	switch to := v.changes.Status; {
	case e.Lost || e.Found != v.fence.Version:
		return e
	case !slices.Contains(before(to), string(e.Status)):
		return unstorableError("status %s can't follow %s", to, e.Status)
	}
	e.Lost = true // by then; the lease was renewed since, so another try may fit
	return errors.Join(errAgain, e)
}

// transitions are the statuses that a save may give a run, and those that each
// may follow; staying is not among them. A final status never changes by a
// save.
var transitions = map[engine.Status][]engine.Status{
	engine.Running:     {engine.Pending, engine.Paused},
	engine.Paused:      {engine.Running},
	engine.RollingBack: {engine.Pending, engine.Running, engine.Paused},
	engine.Completed:   {engine.Running},
	engine.Halted:      {engine.Running},
	engine.Aborted:     {engine.Running},
	engine.Failed:      {engine.Running, engine.Paused, engine.RollingBack},
	engine.Cancelled:   {engine.Pending, engine.Running, engine.Paused, engine.RollingBack},
}

// before is the statuses that a run may have before a save that gives it the
// status to, or leaves it as it is if that is "".
func before(to engine.Status) []string {
	if to == "" {
		return []string{string(engine.Pending), string(engine.Running), string(engine.Paused), string(engine.RollingBack)}
	}
	var from []string
	for _, status := range transitions[to] {
		from = append(from, string(status))
	}
	if !to.Final() {
		from = append(from, string(to))
	}
	return from
}

// dueNow reports whether the save makes the run due at once.
func dueNow(c *engine.Changes) bool { return c.Release && c.Due && c.DueIn <= 0 && !c.Status.Final() }

// checkChanges finds what the database would not say clearly.
func checkChanges(f engine.Fence, c *engine.Changes) error {
	switch {
	case !isUUID(f.Run):
		return &engine.FenceError{Run: f.Run, Lost: true, Expected: f.Version}
	case !isUUID(c.WriteID):
		return unstorableError("save run %s: its write id %q is no UUID", f.Run, c.WriteID)
	}
	seen := make(map[string]bool, len(c.Nodes))
	for _, n := range c.Nodes {
		if seen[n.Path] {
			return unstorableError("save run %s: node %s is in it twice", f.Run, n.Path)
		}
		seen[n.Path] = true
	}
	return nil
}

// saveArguments are the parameters of saveSQL.
func saveArguments(f engine.Fence, c *engine.Changes) []any {
	final := c.Status.Final()
	due := 0
	switch {
	case dueNow(c):
		due = 2
	case c.Release && c.Due && !final:
		due = 1
	}
	blocked := ""
	if c.Blocked != nil {
		blocked = *c.Blocked
	}
	values := len(c.Output) > 0 || len(c.Failure) > 0 || c.Reason != "" || c.ReasonPath != ""
	return append([]any{
		f.Run, uuidOr(f.Token), f.Version, before(c.Status), c.WriteID,
		string(c.Status), string(c.Rollback), c.Fingerprint, flag(c.Blocked != nil), blocked, c.WakeReason,
		flag(c.Release || final), due, micros(c.DueIn), flag(final),
		string(c.Output), string(c.Failure), c.Reason, c.ReasonPath, flag(values),
	}, nodeArguments(c.Nodes)...)
}

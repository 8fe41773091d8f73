package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// claimSQL locks those of the wanted runs that can be had and that nobody else
// has locked, and makes the process their owner. Each header is looked up by
// itself, so that no statistics make it another way, and the conditions beside
// its id are cases, so that they imply no partial index.
const claimSQL = `
with wants as (
	select w.* from unnest($2::text[]::uuid[], $3::text[]::uuid[], $4::text[]::uuid[]) as w(id, token, write_id)
	 order by w.id
), free as (
	select r.id, w.token, w.write_id, r.owner, r.process
	  from wants w
	 cross join lateral (
		select o.id, o.owner, o.process from reactor.runs o
		 where o.id = w.id
		   and o.status in ('pending', 'running', 'rolling_back')
		   and case when o.owner is null then o.due <= clock_timestamp()
		            else coalesce((select p.lease_until from reactor.processes p where p.id = o.process) <= clock_timestamp(), true) end
		   and case when o.suspended is null then o.reactor || '@' || o.definition::text = any($5::text[]) else false end
		   for no key update skip locked) r
	 where (select p.lease_until from reactor.processes p where p.id = $1::text::uuid) > clock_timestamp()
)
update reactor.runs r
   set owner = f.token, process = $1::text::uuid, version = r.version + 1, write_id = f.write_id,
       dead_owner = f.owner, dead_process = f.process,
       due = null, wake_at = null, wakes = 0,
       started_at = coalesce(r.started_at, clock_timestamp()),
       status = case r.status when 'pending' then 'running' else r.status end
  from free f
 where r.id = f.id`

// claimedSQL loads, in a later statement, the runs that are owned under the
// tokens of the claim, whether it has made them so or an earlier try of it.
const claimedSQL = `
select ` + recordColumns + `, coalesce(r.dead_owner::text, ''), coalesce(r.dead_process::text, '')
  from unnest($1::text[]::uuid[], $2::text[]::uuid[]) with ordinality as w(id, token, place)
 cross join lateral (select y.* from reactor.runs y where y.id = w.id and y.owner is not distinct from w.token limit 1) r
 cross join lateral (select y.* from reactor.run_payloads y where y.run_id = r.id limit 1) p
  join reactor.processes o on o.id = r.process and o.lease_until > clock_timestamp()
 order by w.place`

const claimedNodesSQL = `
select ` + nodeColumns + `
  from unnest($1::text[]::uuid[], $2::text[]::uuid[]) as w(id, token)
 cross join lateral (select y.id from reactor.runs y where y.id = w.id and y.owner is not distinct from w.token limit 1) r
 cross join lateral (select y.* from reactor.nodes y where y.run_id = r.id offset 0) n`

// refusedSQL says of the other runs why not, as they are in this later
// statement. What can be had by then was locked by somebody else.
const refusedSQL = `
select w.id::text, coalesce(r.status, ''), coalesce(r.reactor, ''),
       case when r.id is null then '` + string(engine.WhyGone) + `'
            when r.ended_at is not null then '` + string(engine.WhyFinal) + `'
            when me.over then '` + string(engine.WhyNoLease) + `'
            when r.owner is not null and r.live then '` + string(engine.WhyOwned) + `'
            when not r.reactor || '@' || r.definition::text = any($4::text[]) then '` + string(engine.WhyUnknown) + `'
            when r.suspended is not null then '` + string(engine.WhyStopped) + `'
            when r.owner is not null then '` + string(engine.WhyLocked) + `'
            when r.blocked is not null and not r.is_due then '` + string(engine.WhyStopped) + `'
            when r.status = 'paused' or not r.is_due then '` + string(engine.WhyNotDue) + `'
            else '` + string(engine.WhyLocked) + `' end
  from unnest($2::text[]::uuid[], $3::text[]::uuid[]) with ordinality as w(id, token, place)
 cross join (select coalesce((select p.lease_until from reactor.processes p where p.id = $1::text::uuid)
                             <= clock_timestamp(), true) as over) me
  left join lateral (
	select y.*, coalesce(y.due <= clock_timestamp(), false) as is_due,
	       coalesce((select p.lease_until from reactor.processes p where p.id = y.process) > clock_timestamp(), false) as live
	  from reactor.runs y where y.id = w.id limit 1) r on true
 where r.owner is distinct from w.token or me.over
 order by w.place`

// Claim makes the process the owner of those of the wanted runs that are due
// and have no live owner, and whose definition it knows, and loads them; of
// each of the others it says why not. A header that somebody else has locked is
// not waited for. Rest is queued in the same transaction.
func (s *Store) Claim(ctx context.Context, c engine.Claim) (engine.Claims, error) {
	l := &claiming{claim: c}
	l.wants()
	w := work{queue: func(b *pgx.Batch) {
		l.reset()
		b.Queue(s.sql(claimSQL), c.Process, l.ids, l.tokens, l.writes, l.knows)
		b.Queue(s.sql(claimedSQL), l.ids, l.tokens).Query(l.claimed)
		b.Queue(s.sql(claimedNodesSQL), l.ids, l.tokens).Query(l.nodes)
		b.Queue(s.sql(refusedSQL), c.Process, l.ids, l.tokens, l.knows).Query(l.refused)
	}}
	if len(c.Rest) > 0 {
		w.wakes = func() []engine.Wake { return c.Rest }
	}
	if err := s.do(ctx, w); err != nil {
		return engine.Claims{}, described(fmt.Sprintf("claim %d runs", len(c.Wants)), err)
	}
	return l.claims(), nil
}

// claiming is one call of Claim and its answers.
type claiming struct {
	claim                      engine.Claim
	ids, tokens, writes, knows []string // of the wants that can name a run

	owned []engine.Claimed
	at    map[string]int // of each run in owned
	why   map[string]engine.Refusal
}

// wants makes the parameters.
func (l *claiming) wants() {
	l.knows = append([]string{}, l.claim.Knows...)
	l.ids, l.tokens, l.writes = []string{}, []string{}, []string{}
	for _, w := range l.claim.Wants {
		if isUUID(w.Run) {
			l.ids, l.tokens, l.writes = append(l.ids, w.Run), append(l.tokens, w.Token), append(l.writes, w.WriteID)
		}
	}
}

func (l *claiming) reset() {
	l.owned, l.at, l.why = nil, map[string]int{}, map[string]engine.Refusal{}
}

func (l *claiming) claimed(rows pgx.Rows) error {
	for rows.Next() {
		var c engine.Claimed
		if err := rows.Scan(append(recordFields(&c.Record), &c.TakenFrom, &c.TakenFromProcess)...); err != nil {
			return err
		}
		l.at[c.ID] = len(l.owned)
		l.owned = append(l.owned, c)
	}
	return rows.Err()
}

func (l *claiming) nodes(rows pgx.Rows) error {
	return scanNodes(rows, func(run string) *engine.Record {
		if i, ok := l.at[run]; ok {
			return &l.owned[i].Record
		}
		return nil
	})
}

func (l *claiming) refused(rows pgx.Rows) error {
	for rows.Next() {
		var r engine.Refusal
		if err := rows.Scan(&r.Run, &r.Status, &r.Reactor, &r.Why); err != nil {
			return err
		}
		l.why[r.Run] = r
	}
	return rows.Err()
}

// claims is the answer: each wanted run is in it once.
func (l *claiming) claims() engine.Claims {
	out := engine.Claims{Claimed: l.owned}
	for _, w := range l.claim.Wants {
		if _, ok := l.at[w.Run]; ok {
			continue
		}
		r, ok := l.why[w.Run]
		if !ok {
			r = engine.Refusal{Run: w.Run, Why: engine.WhyGone}
		}
		out.Refused = append(out.Refused, r)
	}
	return out
}

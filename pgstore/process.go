package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

const registerSQL = `
insert into reactor.processes as o (id, host, pid, started_at, beat_at, lease_until, knows, queues)
select $1::text::uuid, $2::text, $3::bigint, n.now, n.now, n.now + $4::bigint::float8 * interval '1 microsecond', $5::text[], $6::text[]
  from (select clock_timestamp() as now) n
    on conflict (id) do update
   set host = excluded.host, pid = excluded.pid, beat_at = excluded.beat_at, lease_until = excluded.lease_until,
       knows = excluded.knows, queues = excluded.queues`

// The order keeps processes that start together from waiting for each other in
// a circle.
const registerGraphsSQL = `
insert into reactor.definitions (fingerprint, reactor, version, graph, form, seen_at)
select g.fingerprint, g.reactor, g.version, g.graph, g.form::json, clock_timestamp()
  from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[]) as g(fingerprint, reactor, version, graph, form)
 order by g.fingerprint
    on conflict (fingerprint) do update set seen_at = excluded.seen_at, graph = excluded.graph, form = excluded.form`

const unblockSQL = `
with found as (
	select r.id from reactor.runs r
	 where r.blocked is not null and r.owner is null and r.ended_at is null
	   and r.reactor || '@' || r.definition::text = any($1::text[])
	 order by r.id for no key update skip locked
)
update reactor.runs r set due = clock_timestamp(), wake_at = clock_timestamp(), wakes = 0
  from found f where r.id = f.id`

// Register adds the process with a lease that begins now, stores the graphs it
// knows, and makes the blocked runs of these reactors due: the next pass of a
// sweep wakes them.
func (s *Store) Register(ctx context.Context, p engine.Process, lease time.Duration) error {
	knows, queues := append([]string{}, p.Knows...), append([]string{}, p.Queues...)
	err := s.do(ctx, work{queue: func(b *pgx.Batch) {
		b.Queue(s.sql(registerSQL), p.ID, p.Host, p.PID, micros(lease), knows, queues)
		b.Queue(s.sql(registerGraphsSQL), graphArguments(p.Graphs)...)
		b.Queue(s.sql(unblockSQL), knows)
	}})
	if err != nil {
		return refused("register process "+p.ID, err)
	}
	return nil
}

// graphArguments are the parameters of registerGraphsSQL, each graph once.
func graphArguments(all []engine.StoredGraph) []any {
	var graphs []engine.StoredGraph
	seen := map[string]bool{}
	for _, g := range all {
		if !seen[g.Fingerprint] {
			graphs = append(graphs, g)
		}
		seen[g.Fingerprint] = true
	}
	return []any{
		column(graphs, func(g *engine.StoredGraph) string { return g.Fingerprint }),
		column(graphs, func(g *engine.StoredGraph) string { return g.Reactor }),
		column(graphs, func(g *engine.StoredGraph) int64 { return int64(g.Version) }),
		column(graphs, func(g *engine.StoredGraph) string { return g.Text }),
		column(graphs, func(g *engine.StoredGraph) string { return string(g.Form) }),
	}
}

const beatSQL = `
update reactor.processes
   set beat_at = clock_timestamp(), lease_until = clock_timestamp() + $2::bigint::float8 * interval '1 microsecond'
 where id = $1::text::uuid
returning 1`

// Beat renews the lease of a process, for as long as lease says from now; known
// is false if the process has no row any more. It is one statement, whatever
// the process owns.
func (s *Store) Beat(ctx context.Context, process string, lease time.Duration) (known bool, err error) {
	if !isUUID(process) {
		return false, nil
	}
	err = s.lone(ctx, beatSQL, func(rows pgx.Rows) error {
		known = rows.Next()
		return rows.Err()
	}, process, micros(lease))
	if err != nil {
		return false, described("renew the lease of process "+process, err)
	}
	return known, nil
}

const unregisterSQL = `delete from reactor.processes where id = $1::text::uuid`

// Unregister removes the row of a process that stops. Runs that still name it
// count as owned by a dead process.
func (s *Store) Unregister(ctx context.Context, process string) error {
	if !isUUID(process) {
		return nil
	}
	err := s.do(ctx, work{queue: func(b *pgx.Batch) { b.Queue(s.sql(unregisterSQL), process) }})
	if err != nil {
		return described("unregister process "+process, err)
	}
	return nil
}

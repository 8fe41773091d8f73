package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// headColumns are the columns of a run r without what is long, with its values
// p and the process o of its owner, which may be missing. headFields are where
// they go.
const headColumns = `r.id::text, r.kind, r.reactor, r.definition, r.fingerprint, r.status,
       coalesce(r.parent_id::text, ''), r.root_id::text, coalesce(r.parent_path, ''), coalesce(r.element, 0),
       coalesce(r.owner::text, ''), coalesce(r.process::text, ''), r.version,
       r.due, coalesce(r.wake_reason, ''), coalesce(r.blocked, ''), coalesce(r.suspended, ''), coalesce(r.rollback, ''),
       coalesce(r.start_key, ''), r.queue, r.priority, coalesce(r.retried_from::text, ''),
       r.created_at, r.started_at, r.ended_at,
       p.failure::text, coalesce(p.reason, ''), coalesce(p.reason_path, ''), p.tags,
       o.lease_until, o.beat_at, coalesce(o.host, ''), clock_timestamp()`

func headFields(r *engine.Record) []any {
	return []any{
		&r.ID, &r.Kind, &r.Reactor, &r.Definition, &r.Fingerprint, &r.Status,
		&r.Parent, &r.Root, &r.ParentPath, &r.Element,
		&r.Owner, &r.Process, &r.Version,
		timeOf{&r.Due}, &r.WakeReason, &r.Blocked, &r.Suspended, &r.Rollback,
		&r.StartKey, &r.Queue, &r.Priority, &r.RetriedFrom,
		timeOf{&r.Created}, timeOf{&r.Started}, timeOf{&r.Ended},
		jsonOf(&r.Failure), &r.Reason, &r.ReasonPath, &r.Tags,
		timeOf{&r.Lease}, timeOf{&r.Beat}, &r.Host, timeOf{&r.Now},
	}
}

// recordColumns are headColumns and the long values.
const recordColumns = headColumns + `, p.input::text, p.output::text`

func recordFields(r *engine.Record) []any {
	return append(headFields(r), jsonOf(&r.Input), jsonOf(&r.Output))
}

// nodeColumns are the columns of a node n, its run first.
const nodeColumns = `n.run_id::text, n.path, n.kind, n.state, n.seq, n.attempt, n.begun, n.recoveries, n.recovered,
       n.input::text, n.output::text, n.failure::text, coalesce(n.reason, ''),
       coalesce(n.hook, ''), coalesce(n.hook_state, ''), n.hook_seq, n.hook_recoveries, n.hook_failure::text,
       coalesce(n.child_id::text, ''), n.due, n.started_at, n.ended_at, n.hook_ended_at`

func nodeFields(n *engine.NodeRow) []any {
	return []any{
		&n.Path, &n.Kind, &n.State, &n.Seq, &n.Attempt, &n.Begun, &n.Recoveries, &n.Recovered,
		jsonOf(&n.Input), jsonOf(&n.Output), jsonOf(&n.Failure), &n.Reason,
		&n.Hook, &n.HookState, &n.HookSeq, &n.HookRecoveries, jsonOf(&n.HookFailure),
		&n.RunID, timeOf{&n.Due}, timeOf{&n.Started}, timeOf{&n.Ended}, timeOf{&n.HookEnded},
	}
}

const getSQL = `
select ` + recordColumns + `
  from reactor.runs r
  join reactor.run_payloads p on p.run_id = r.id
  left join reactor.processes o on o.id = r.process
 where r.id = $1::text::uuid`

const getNodesSQL = `
select ` + nodeColumns + ` from reactor.nodes n where n.run_id = $1::text::uuid`

// Get loads one run as it is; engine.ErrRunNotFound if there is none.
func (s *Store) Get(ctx context.Context, run string) (*engine.Record, error) {
	if !isUUID(run) {
		return nil, engine.ErrRunNotFound
	}
	var found *engine.Record
	err := s.do(ctx, work{options: snapshot, queue: func(b *pgx.Batch) {
		found = nil
		b.Queue(s.sql(getSQL), run).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				found = &engine.Record{}
				if err := rows.Scan(recordFields(found)...); err != nil {
					return err
				}
			}
			return rows.Err()
		})
		b.Queue(s.sql(getNodesSQL), run).Query(func(rows pgx.Rows) error {
			return scanNodes(rows, func(string) *engine.Record { return found })
		})
	}})
	switch {
	case err != nil:
		return nil, described("get run "+run, err)
	case found == nil:
		return nil, engine.ErrRunNotFound
	}
	return found, nil
}

// scanNodes adds nodes to the runs that they belong to; one that was not loaded
// is nil.
func scanNodes(rows pgx.Rows, of func(run string) *engine.Record) error {
	for rows.Next() {
		var (
			run string
			n   engine.NodeRow
		)
		if err := rows.Scan(append([]any{&run}, nodeFields(&n)...)...); err != nil {
			return err
		}
		if to := of(run); to != nil {
			to.Nodes = append(to.Nodes, n)
		}
	}
	return rows.Err()
}

const statusesSQL = `
select r.id::text, r.status
  from unnest($1::text[]::uuid[]) as w(id)
 cross join lateral (select y.id, y.status from reactor.runs y where y.id = w.id limit 1) r`

// Statuses gives the status of each of the runs that exist.
func (s *Store) Statuses(ctx context.Context, runs []string) (map[string]engine.Status, error) {
	found := map[string]engine.Status{}
	err := s.do(ctx, work{options: reading, queue: func(b *pgx.Batch) {
		b.Queue(s.sql(statusesSQL), known(runs)).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var (
					run    string
					status engine.Status
				)
				if err := rows.Scan(&run, &status); err != nil {
					return err
				}
				found[run] = status
			}
			return rows.Err()
		})
	}})
	if err != nil {
		return nil, described("look up the status of runs", err)
	}
	return found, nil
}

const graphSQL = `
select d.fingerprint, d.reactor, d.version, d.graph, d.form::text from reactor.definitions d where d.fingerprint = $1::text`

// Graph loads a stored graph by its fingerprint; nil if there is none.
func (s *Store) Graph(ctx context.Context, fingerprint string) (*engine.StoredGraph, error) {
	var found *engine.StoredGraph
	err := s.do(ctx, work{options: reading, queue: func(b *pgx.Batch) {
		found = nil
		b.Queue(s.sql(graphSQL), fingerprint).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				g := &engine.StoredGraph{}
				if err := rows.Scan(&g.Fingerprint, &g.Reactor, &g.Version, &g.Text, jsonOf(&g.Form)); err != nil {
					return err
				}
				found = g
			}
			return rows.Err()
		})
	}})
	if err != nil {
		return nil, described("load graph "+fingerprint, err)
	}
	return found, nil
}

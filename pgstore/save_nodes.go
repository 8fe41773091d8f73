package pgstore

import "github.com/pgreactor/reactor/engine"

// saveNodes is the part of saveSQL that writes nodes. Rows that keep their
// values are written by a statement of their own, which does not name these
// columns: a long value that stays is not read and stored again.
const saveNodes = `, given as (
	select ok.id as run_id, n.*, clock_timestamp() as now
	  from ok, unnest($21::text[], $22::text[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[],
	                  $28::bigint[], $29::text[], $30::text[], $31::bigint[], $32::bigint[], $33::text[], $34::bigint[],
	                  $35::bigint[], $36::bigint[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[])
	       as n(path, kind, state, seq, attempt, begun, recoveries, recovered, hook, hook_state, hook_seq,
	            hook_recoveries, child_id, took, due_in, keep, reason, input, output, failure, hook_failure)
), whole as (` + insertNodes + `
	  from given n where n.keep = 0` + updateNodes + `,
	       input = excluded.input, output = excluded.output
), kept as (` + insertNodes + `
	  from given n where n.keep <> 0` + updateNodes + `
)`

const insertNodes = `
	insert into reactor.nodes as o (run_id, path, kind, state, seq, attempt, begun, recoveries, recovered,
	       hook, hook_state, hook_seq, hook_recoveries, child_id, reason, input, output, failure, hook_failure,
	       started_at, ended_at, due, hook_ended_at)
	select n.run_id, n.path, n.kind, n.state, n.seq, n.attempt, n.begun <> 0, n.recoveries, n.recovered,
	       nullif(n.hook, ''), nullif(n.hook_state, ''), n.hook_seq, n.hook_recoveries, nullif(n.child_id, '')::uuid,
	       nullif(n.reason, ''), nullif(n.input, '')::json, nullif(n.output, '')::json, nullif(n.failure, '')::json,
	       nullif(n.hook_failure, '')::json,
	       n.now - n.took::float8 * interval '1 microsecond',
	       case when n.state in ('done', 'skipped', 'failed', 'halted', 'open') then n.now end,
	       case n.state when 'waiting' then n.now + n.due_in::float8 * interval '1 microsecond' end,
	       case when n.hook_state in ('completed', 'failed', 'skipped') then n.now end`

const updateNodes = `
	    on conflict (run_id, path) do update
	   set kind = excluded.kind, state = excluded.state, seq = excluded.seq, attempt = excluded.attempt,
	       begun = excluded.begun, recoveries = excluded.recoveries, recovered = excluded.recovered,
	       hook = excluded.hook, hook_state = excluded.hook_state, hook_seq = excluded.hook_seq,
	       hook_recoveries = excluded.hook_recoveries, child_id = excluded.child_id, reason = excluded.reason,
	       failure = excluded.failure, hook_failure = excluded.hook_failure, due = excluded.due,
	       started_at = coalesce(o.started_at, excluded.started_at),
	       ended_at = case when excluded.ended_at is not null then coalesce(o.ended_at, excluded.ended_at) end,
	       hook_ended_at = case when excluded.hook_ended_at is null then null
	                            when o.hook_state = excluded.hook_state and o.hook_seq = excluded.hook_seq then o.hook_ended_at
	                            else excluded.hook_ended_at end`

// nodeArguments are the parameters of saveNodes: one array a column.
func nodeArguments(nodes []engine.NodeChange) []any {
	texts := func(value func(n *engine.NodeChange) string) []string {
		return column(nodes, value)
	}
	ints := func(value func(n *engine.NodeChange) int64) []int64 {
		return column(nodes, value)
	}
	return []any{
		texts(func(n *engine.NodeChange) string { return n.Path }),
		texts(func(n *engine.NodeChange) string { return n.Kind }),
		texts(func(n *engine.NodeChange) string { return string(n.State) }),
		ints(func(n *engine.NodeChange) int64 { return n.Seq }),
		ints(func(n *engine.NodeChange) int64 { return int64(n.Attempt) }),
		ints(func(n *engine.NodeChange) int64 { return int64(flag(n.Begun)) }),
		ints(func(n *engine.NodeChange) int64 { return int64(n.Recoveries) }),
		ints(func(n *engine.NodeChange) int64 { return int64(n.Recovered) }),
		texts(func(n *engine.NodeChange) string { return n.Hook }),
		texts(func(n *engine.NodeChange) string { return string(n.HookState) }),
		ints(func(n *engine.NodeChange) int64 { return n.HookSeq }),
		ints(func(n *engine.NodeChange) int64 { return int64(n.HookRecoveries) }),
		texts(func(n *engine.NodeChange) string { return n.RunID }),
		ints(func(n *engine.NodeChange) int64 { return micros(n.Took) }),
		ints(func(n *engine.NodeChange) int64 { return micros(n.DueIn) }),
		ints(func(n *engine.NodeChange) int64 { return int64(flag(n.Keep)) }),
		texts(func(n *engine.NodeChange) string { return n.Reason }),
		texts(func(n *engine.NodeChange) string { return string(n.Input) }),
		texts(func(n *engine.NodeChange) string { return string(n.Output) }),
		texts(func(n *engine.NodeChange) string { return string(n.Failure) }),
		texts(func(n *engine.NodeChange) string { return string(n.HookFailure) }),
	}
}

package pgstore

import "github.com/pgreactor/reactor/engine"

// saveStepSQL is saveSQL for the save that there is most of: of one node, by an
// owner who goes on or whose run has ended. It has no arrays, so that one plan
// of it serves every execution: header and node are found by their keys
// whatever the statistics say.
const saveStepSQL = `
with ok as (
	update reactor.runs r
	   set version = r.version + 1,
	       write_id = $5::text::uuid,
	       status = coalesce(nullif($6::text, ''), r.status),
	       owner = case $7::int when 0 then r.owner end,
	       process = case $7::int when 0 then r.process end,
	       due = null, wake_at = null, wakes = 0,
	       ended_at = case $7::int when 0 then r.ended_at else clock_timestamp() end` + fenced + `), payload as (
	update reactor.run_payloads p
	   set output = coalesce(nullif($8::text, '')::json, p.output),
	       reason = coalesce(nullif($9::text, ''), p.reason),
	       reason_path = coalesce(nullif($10::text, ''), p.reason_path)
	 where p.run_id = $1::text::uuid and $11::int <> 0 and exists (select from ok)
), given as (
	select ok.id as run_id, $12::text as path, $13::text as kind, $14::text as state, $15::bigint as seq, $16::bigint as attempt,
	       $17::bigint as begun, $18::bigint as recoveries, $19::bigint as recovered, '' as hook, '' as hook_state, 0 as hook_seq,
	       0 as hook_recoveries, '' as child_id, $20::bigint as took, 0::bigint as due_in, $21::text as reason,
	       $22::text as input, $23::text as output, '' as failure, '' as hook_failure, clock_timestamp() as now
	  from ok
), node as (` + insertNodes + `
	  from given n` + updateNodes + `,
	       input = excluded.input, output = excluded.output
)
select ok.version, ok.queue, ok.priority from ok`

// isStep reports whether saveStepSQL can do a save.
func isStep(c *engine.Changes) bool {
	if len(c.Nodes) != 1 || c.Release || c.Blocked != nil || c.Fingerprint+c.WakeReason != "" || c.Rollback != "" || len(c.Failure) > 0 {
		return false
	}
	n := &c.Nodes[0]
	settled := n.State == engine.NodeDone || n.State == engine.NodeSkipped || n.State == engine.NodeHalted
	return settled && !n.Keep && n.Hook == "" && n.RunID == "" && len(n.Failure) == 0 && len(n.HookFailure) == 0
}

// stepArguments are the parameters of saveStepSQL.
func stepArguments(f engine.Fence, c *engine.Changes) []any {
	n := &c.Nodes[0]
	values := len(c.Output) > 0 || c.Reason != "" || c.ReasonPath != ""
	return []any{
		f.Run, uuidOr(f.Token), f.Version, before(c.Status), c.WriteID, string(c.Status), flag(c.Status.Final()),
		string(c.Output), c.Reason, c.ReasonPath, flag(values),
		n.Path, n.Kind, string(n.State), n.Seq, int64(n.Attempt), int64(flag(n.Begun)), int64(n.Recoveries), int64(n.Recovered),
		micros(n.Took), n.Reason, string(n.Input), string(n.Output),
	}
}

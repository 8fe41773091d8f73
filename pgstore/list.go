package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// The statements of List differ in where the runs come from: all of them in
// their order, those that have the wanted values, or those that wait for an
// operator, of which there are few. A filter that is not asked for is a
// constant by the time the statement is planned, and falls away.
const (
	listSQL = listBegin + `reactor.runs r
	 where true` + listEnd
	listByValueSQL = listBegin + `reactor.run_payloads v
	  join reactor.runs r on r.id = v.run_id` + listValues + listEnd
	listInboxSQL = listBegin + `(
		select y.id from reactor.runs y where y.blocked is not null or y.suspended is not null
		 union
		select y.run_id from reactor.nodes y where y.hook_state = 'failed') i
	  join reactor.runs r on r.id = i.id
	  join reactor.run_payloads v on v.run_id = r.id` + listValues + listEnd
)

const listBegin = `
with page as (
	select r.id from `

const listValues = `
	 where ($16::int = 0 or v.tags @> $17::text[]) and ($18::int = 0 or v.fields @> $19::text[])`

const listEnd = `
	   and r.kind = $2::text
	   and ($3::text = '' or r.reactor = $3::text)
	   and ($4::int = 0 or r.status = any($5::text[]))
	   and ($6::int = 0 or r.ended_at is null)
	   and ($7::int = 0 or r.id between $8::text::uuid and $9::text::uuid)
	   and ($10::bigint = 0 or r.created_at >= timestamptz 'epoch' + $10::bigint::float8 * interval '1 microsecond')
	   and ($11::bigint = 0 or r.created_at < timestamptz 'epoch' + $11::bigint::float8 * interval '1 microsecond')
	   and ($12::int = 0 or r.blocked is not null)
	   and ($13::int = 0 or r.owner is null and r.ended_at is null and r.due > clock_timestamp())
	   and ($14::bigint = 0 or (r.created_at, r.id) < (timestamptz 'epoch' + $14::bigint::float8 * interval '1 microsecond', $15::text::uuid))
	 order by r.created_at desc, r.id desc
	 limit $1::bigint
)
select ` + headColumns + `
  from page
 cross join lateral (select y.* from reactor.runs y where y.id = page.id limit 1) r
 cross join lateral (select y.* from reactor.run_payloads y where y.run_id = page.id limit 1) p
  left join reactor.processes o on o.id = r.process
 order by r.created_at desc, r.id desc`

// The size of a page.
const (
	defaultPage = 50
	largestPage = 500
)

// List gives headers with failure, reason and tags, newest first, and the
// cursor of the next page or "". A page has q.Limit runs, 50 if it is 0, and
// never more than 500. A cursor that is not from List is an error.
func (s *Store) List(ctx context.Context, q engine.Query) (page []engine.Record, next string, err error) {
	after, err := readCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	ids, ok := idsWith(q.IDPrefix)
	if !ok || q.Waiting != "" && q.Waiting != "time" {
		return nil, "", nil // nothing can match
	}
	limit := pageSize(q.Limit)
	text, arguments := listStatement(q, append([]any{limit + 1}, listArguments(q, ids, after)...))
	err = s.do(ctx, work{options: reading, queue: func(b *pgx.Batch) {
		b.Queue(s.sql(text), arguments...).Query(collect(&page, headFields))
	}})
	if err != nil {
		return nil, "", described("list runs", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = cursorOf(page[limit-1]).String()
	}
	return page, next, nil
}

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, largestPage)
}

// listStatement chooses where the runs of q come from, and adds the parameters
// for their values to the common ones.
func listStatement(q engine.Query, common []any) (text string, arguments []any) {
	values := []any{
		flag(len(q.Tags) > 0), append([]string{}, q.Tags...),
		flag(len(q.Input) > 0), fieldTexts(q.Input),
	}
	switch {
	case q.Inbox:
		return listInboxSQL, append(common, values...)
	case len(q.Tags)+len(q.Input) > 0:
		return listByValueSQL, append(common, values...)
	}
	return listSQL, common
}

// listArguments are the parameters that all statements of List have, after the
// limit.
func listArguments(q engine.Query, ids idRange, after cursor) []any {
	kind := q.Kind
	if kind == "" {
		kind = string(engine.Root)
	}
	unfinished := len(q.Status) > 0
	for _, status := range q.Status {
		unfinished = unfinished && !status.Final()
	}
	return []any{
		kind, q.Reactor,
		flag(len(q.Status) > 0), column(q.Status, func(s *engine.Status) string { return string(*s) }), flag(unfinished),
		flag(q.IDPrefix != ""), ids.low, ids.high,
		microsUp(q.Since), microsUp(q.Until),
		flag(q.Blocked), flag(q.Waiting != ""),
		after.created, after.id,
	}
}

// microsUp is a time in microseconds since the Unix epoch, rounded up as a
// bound for times that have no more precision; 0 is no bound.
func microsUp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Microsecond - 1).UnixMicro()
}

// idRange is all ids with a prefix.
type idRange struct{ low, high string }

// idsWith is the ids that begin with prefix; ok is false if no id does.
func idsWith(prefix string) (ids idRange, ok bool) {
	const lowest, highest = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(prefix) > len(lowest) {
		return idRange{}, false
	}
	ids = idRange{prefix + lowest[len(prefix):], prefix + highest[len(prefix):]}
	return ids, isUUID(ids.low)
}

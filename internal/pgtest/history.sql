-- What the rows of a run do not keep: how its status changed, and whether the
-- result of a settled node did.
create schema pgtest_history;

create table pgtest_history.statuses (
	id       bigint generated always as identity primary key,
	run_id   uuid not null,
	kind     text not null,
	was      text not null, -- '' of a new run
	is_now   text not null,
	rollback text not null
);

create table pgtest_history.results (
	run_id uuid not null,
	path   text not null,
	what   text not null
);

-- Security definer: sessions with rights on our tables alone write it too.
create function pgtest_history.status() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
	insert into pgtest_history.statuses (run_id, kind, was, is_now, rollback)
	values (new.id, new.kind, case when tg_op = 'UPDATE' then old.status else '' end, new.status, coalesce(new.rollback, ''));
	return null;
end $$;

create function pgtest_history.result() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
	insert into pgtest_history.results (run_id, path, what)
	values (old.run_id, old.path, case when new.state <> old.state then old.state || ' became ' || new.state else 'its result was replaced' end);
	return null;
end $$;

create trigger pgtest_created after insert on reactor.runs
	for each row execute function pgtest_history.status();

create trigger pgtest_status after update on reactor.runs
	for each row when (old.status is distinct from new.status) execute function pgtest_history.status();

create trigger pgtest_result after update on reactor.nodes
	for each row when (old.state in ('done', 'skipped') and (old.state <> new.state or old.output::text is distinct from new.output::text))
	execute function pgtest_history.result();

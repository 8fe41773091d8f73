-- Runs, their values and nodes, the processes that drive them, and what a
-- sweep needs. Values are json, not jsonb: the text is kept as it was written,
-- U+0000 included, and no statement takes a value apart.

-- +goose Up
create table reactor.runs (
	id           uuid primary key,
	root_id      uuid not null,
	parent_id    uuid,
	owner        uuid,                 -- token of the execution that owns the run
	process      uuid,                 -- of the owner
	write_id     uuid,                 -- of the last accepted save
	dead_owner   uuid,                 -- token that the present owner took the run from
	dead_process uuid,                 -- of that one
	retried_from uuid,
	version      bigint not null,      -- one more with each accepted save, claim and hand-back
	due          timestamptz,          -- from when on it has a reason to be driven
	wake_at      timestamptz,          -- when the sweep queues its next wake-up
	created_at   timestamptz not null,
	started_at   timestamptz,
	ended_at     timestamptz,
	wakes        integer not null default 0, -- wake-ups queued since it was last claimed
	definition   integer not null,
	element      integer,
	priority     smallint not null check (priority between 1 and 4),
	kind         text not null check (kind in ('root', 'child', 'unit', 'element')),
	status       text not null check (status in ('pending', 'running', 'paused', 'rolling_back',
	                                             'completed', 'halted', 'failed', 'cancelled', 'aborted')),
	reactor      text not null,
	fingerprint  text not null,
	queue        text not null,
	parent_path  text,
	start_key    text,
	wake_reason  text,
	blocked      text,
	suspended    text,
	rollback     text check (rollback in ('failure', 'undo')),
	check ((owner is null) = (process is null)),
	check ((status in ('completed', 'halted', 'failed', 'cancelled', 'aborted')) = (ended_at is not null))
) with (fillfactor = 70);

create index runs_wake on reactor.runs (wake_at) where wake_at is not null;
create index runs_owned on reactor.runs (process, wake_at) where owner is not null;
create unique index runs_start_key on reactor.runs (reactor, start_key) where start_key is not null;
create index runs_unfinished on reactor.runs (status, created_at) where ended_at is null;
create index runs_ended_badly on reactor.runs (status, created_at, id) where status in ('halted', 'failed', 'cancelled', 'aborted');
create index runs_list on reactor.runs (kind, created_at, id);
create index runs_reactor on reactor.runs (reactor, kind, created_at, id);
create index runs_parent on reactor.runs (parent_id) where parent_id is not null;
create index runs_stopped on reactor.runs (created_at, id) where blocked is not null or suspended is not null;

create table reactor.run_payloads (
	run_id      uuid primary key,
	create_id   uuid, -- write id of the creation, by which a repeat of it is recognised
	input       json,
	output      json,
	failure     json,
	reason      text, -- of a halt or a cancel
	reason_path text, -- of the node that halted
	tags        text[],
	fields      text[] -- top-level scalars of the input as field=value, for searching
) with (fillfactor = 85);

create index run_payloads_tags on reactor.run_payloads using gin (tags) where tags is not null;
create index run_payloads_fields on reactor.run_payloads using gin (fields) where fields is not null;

create table reactor.nodes (
	run_id          uuid not null,
	started_at      timestamptz,
	ended_at        timestamptz,
	due             timestamptz,
	hook_ended_at   timestamptz,
	child_id        uuid, -- the run that it dispatched
	seq             bigint not null default 0, -- order of completion
	hook_seq        bigint not null default 0,
	attempt         integer not null default 0,
	recoveries      integer not null default 0,
	recovered       integer not null default 0,
	hook_recoveries integer not null default 0,
	begun           boolean not null default false,
	path            text not null,
	kind            text not null,
	state           text not null check (state in ('running', 'waiting', 'dispatched', 'done', 'skipped', 'failed', 'halted', 'open')),
	hook            text check (hook in ('compensate', 'undo', 'undo_all')),
	hook_state      text check (hook_state in ('running', 'completed', 'failed', 'skipped')),
	reason          text,
	input           json,
	output          json,
	failure         json,
	hook_failure    json,
	primary key (run_id, path)
) with (fillfactor = 90);

create index nodes_unresolved on reactor.nodes (run_id) where hook_state = 'failed';

create table reactor.processes (
	id          uuid primary key,
	host        text not null,
	pid         integer not null,
	started_at  timestamptz not null,
	beat_at     timestamptz not null,
	lease_until timestamptz not null,
	knows       text[] not null, -- definitions, as name@version
	queues      text[] not null  -- of which it has workers
) with (fillfactor = 50);

create table reactor.definitions (
	fingerprint text primary key,
	reactor     text not null,
	version     integer not null,
	graph       text not null,
	form        json not null,
	seen_at     timestamptz not null
);

create table reactor.sweeps (
	one      boolean primary key default true check (one),
	began_at timestamptz not null -- when the last pass did
) with (fillfactor = 50);

insert into reactor.sweeps (began_at) values ('-infinity');

-- What others than the owner ask of a run: one row a run and kind.
create table reactor.requests (
	run_id     uuid not null,
	kind       text not null,
	path       text not null default '',
	id         uuid not null,
	reason     text,
	payload    json,
	actor      text,
	created_at timestamptz not null,
	done_at    timestamptz,
	answer     text,
	primary key (run_id, kind, path)
);

-- Who waits for what.
create table reactor.waits (
	run_id     uuid not null,
	path       text not null,
	kind       text not null,
	key        text not null,
	place      bigint generated always as identity,
	since      timestamptz not null,
	deadline   timestamptz,
	awaited_id uuid,
	primary key (run_id, path, kind, key)
);

create index waits_key on reactor.waits (kind, key, place);
create index waits_awaited on reactor.waits (awaited_id) where awaited_id is not null;

-- One row a fan-out map: counters that its elements touch.
create table reactor.maps (
	run_id  uuid not null,
	path    text not null,
	total   bigint,
	started bigint not null default 0,
	settled bigint not null default 0,
	failed  bigint not null default 0,
	primary key (run_id, path)
) with (fillfactor = 50);

-- What operators did, and what happened to runs that is not in their rows.
create table reactor.events (
	id     bigint generated always as identity primary key,
	run_id uuid,
	at     timestamptz not null,
	actor  text,
	event  text not null,
	detail json
);

create index events_run on reactor.events (run_id, id) where run_id is not null;

-- +goose Down
drop table reactor.events;
drop table reactor.maps;
drop table reactor.waits;
drop table reactor.requests;
drop table reactor.sweeps;
drop table reactor.definitions;
drop table reactor.processes;
drop table reactor.nodes;
drop table reactor.run_payloads;
drop table reactor.runs;

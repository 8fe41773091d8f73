package ctl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/migrations/schema"
)

// oldestServer is the first version of PostgreSQL that the library works on.
const oldestServer = 150000

// mostSkew is how far the clocks of this machine and of the server may differ
// before times in logs are hard to compare.
const mostSkew = 2 * time.Second

// server looks at the connection, the version and the clock.
func (e *examination) server(ctx context.Context) error {
	var (
		number, version, database string
		readOnly                  bool
		clock                     time.Time
	)
	before := time.Now()
	err := e.pool.QueryRow(ctx, `select current_setting('server_version_num'), current_setting('server_version'),
		current_database()::text, pg_is_in_recovery(), clock_timestamp()`).Scan(&number, &version, &database, &readOnly, &clock)
	if err != nil {
		return err
	}
	after := time.Now()
	where := fmt.Sprintf("PostgreSQL %s, database %q, at %s", version, database, address(e.pool.Config().ConnConfig))
	switch n, err := strconv.Atoi(number); {
	case err == nil && n < oldestServer:
		e.add("connection", bad, "use PostgreSQL 15 or later", "%s", where)
	case readOnly:
		e.add("connection", warn, "nothing for commands that look; programs need the server that takes writes", "%s: it is a standby and takes no writes", where)
	default:
		e.add("connection", ok, "", "%s", where)
	}
	e.clock(clock.Sub(before.Add(after.Sub(before) / 2)))
	return nil
}

// clock judges how far the server's clock is ahead of ours.
func (e *examination) clock(ahead time.Duration) {
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	if ahead.Abs() <= mostSkew {
		e.add("clock", ok, "", "the clocks of this machine and the server agree within %s", mostSkew)
		return
	}
	e.add("clock", warn, "set the clocks by NTP; leases and due times go by the server's, so no run is in danger",
		"the server's clock is %s %s that of this machine", ahead.Abs().Round(time.Second/10), how)
}

// A setting is one of the server that hurts with some values.
type setting struct {
	name  string
	hurts func(value string) bool
	why   string
	todo  string
}

func is(value string) func(string) bool { return func(v string) bool { return v == value } }

var hurting = []setting{
	{"fsync", is("off"), "a crash of the machine can destroy the database", "set it to on, if this is more than a trial"},
	{"full_page_writes", is("off"), "a crash of the machine can destroy the database", "set it to on"},
	{"synchronous_commit", is("off"), "a crash of the server forgets the last commits: steps that were done run again", "set it to on for the role of the application"},
	{"autovacuum", is("off"), "our tables change much and will swell", "set it to on"},
	{"default_transaction_read_only", is("on"), "for this role; programs with it can't store anything", "set it to off for the role of the application"},
	{"statement_timeout", shortTime, "for this role; a migration and listings may need longer", "set it to 0, or to 30s and more"},
}

// shortTime reports whether a time in milliseconds, with a unit or without, is
// a limit below ten seconds.
func shortTime(value string) bool {
	d, err := time.ParseDuration(value)
	return err == nil && d > 0 && d < 10*time.Second
}

// settings looks at settings that hurt and at the connections that are left.
func (e *examination) settings(ctx context.Context) error {
	hurt := false
	for _, s := range hurting {
		value, err := e.text(ctx, `select current_setting($1)`, s.name)
		if err != nil {
			return err
		}
		if s.hurts(value) {
			hurt = true
			e.add("settings", warn, s.todo, "%s is %s: %s", s.name, value, s.why)
		}
	}
	var used, most int
	err := e.pool.QueryRow(ctx, `select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
		current_setting('max_connections')::int`).Scan(&used, &most)
	if err != nil {
		return err
	}
	switch {
	case used*10 >= most*9:
		e.add("settings", warn, "make the pools smaller, use a pooler, or raise max_connections", "%d of %d connections are in use", used, most)
	case !hurt:
		e.add("settings", ok, "", "none that hurt; %d of %d connections are in use", used, most)
	}
	return nil
}

// schema looks at the version of our tables.
func (e *examination) schema(ctx context.Context) error {
	err := schema.Check(ctx, e.pool, e.app.schema)
	if err == nil {
		e.fits = true
		v, err := schema.Current(ctx, e.pool, e.app.schema)
		e.add("schema", ok, "", "%q is at version %d; this program needs %d", e.app.schema, v.Number, schema.Latest)
		return err
	}
	if !isSchema(err) {
		return err
	}
	todo := "migrate before programs of this version are started"
	if _, newer := errors.AsType[*schema.NewerError](err); newer {
		todo = "use the reactorctl of the release that made it"
	}
	e.add("schema", bad, todo, "%v", err).code = codeSchema
	return nil
}

// rivers looks at River's tables.
func (e *examination) rivers(ctx context.Context) error {
	m, err := e.app.migrator(e.pool)
	if err != nil {
		return err
	}
	s, err := m.Status(ctx)
	if err != nil {
		return err
	}
	e.river = s.RiverTables
	switch {
	case !s.RiverTables:
		e.add("river", bad, "run reactorctl migrate, or name their schema with --river-schema", "%s are missing", riverNamed(s)).code = codeSchema
	case !s.RiverVersioned:
		e.add("river", warn, "compare them by hand with what River's own migrations make", "%s have no record of their version", riverNamed(s))
	case len(s.RiverMissing) > 0:
		missing := &migrations.RiverError{Schema: s.RiverSchema, Missing: s.RiverMissing}
		e.add("river", bad, "see that no older program needs them as they are", "%v", missing).code = codeSchema
	default:
		e.add("river", ok, "", "%s are there and up to date", riverNamed(s))
	}
	return nil
}

// pausedQueues looks for queues that somebody has paused in River.
func (e *examination) pausedQueues(ctx context.Context) error {
	if !e.river {
		return nil
	}
	rows, err := e.pool.Query(ctx, `select name from `+e.riverTable("river_queue")+` where paused_at is not null order by name`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		e.add("river", warn, "resume it in River's UI, or with client.QueueResume", "queue %q is paused in River: its runs wait", name)
	}
	return nil
}

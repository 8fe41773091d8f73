package migrations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// A RiverError says that River's tables lack versions that this release needs.
type RiverError struct {
	Schema  string // "" is the search path
	Missing []int
}

// Error names the missing versions, River's own command and ours.
func (e *RiverError) Error() string {
	versions := make([]string, len(e.Missing))
	for i, v := range e.Missing {
		versions[i] = strconv.Itoa(v)
	}
	theirs, ours := `river migrate-up --database-url "$DATABASE_URL"`, "reactorctl migrate --river"
	if e.Schema != "" {
		theirs += " --schema " + e.Schema
		ours += " --river-schema " + e.Schema
	}
	return fmt.Sprintf("River's tables%s lack version %s: run %s, or %s",
		inRiverSchema(e.Schema), strings.Join(versions, ", "), theirs, ours)
}

func inRiverSchema(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in schema %q", name)
}

// riverBehind is the error of a database whose River tables lack a version. What
// their version is can't be told without River's record; then it is nil.
func riverBehind(s State) error {
	if !s.RiverVersioned || len(s.RiverMissing) == 0 {
		return nil
	}
	return &RiverError{Schema: s.RiverSchema, Missing: s.RiverMissing}
}

func riverUnversioned(name string) error {
	return fmt.Errorf("migrate River's tables%s: there is no river_migration beside them, so their version can't be told: "+
		"use the tool that made them", inRiverSchema(name))
}

// riverTables is what there is of River. Each of its versions needs a
// transaction of its own, so a migration can end half-way; the mark, a comment
// on river_job, tells the next one that the tables are ours to finish.
type riverTables struct {
	there, versioned bool
	unfinished       bool
	missing          []int
}

const (
	riverMark       = "reactor migrate has not finished these tables"
	riverJobVersion = 2 // that makes river_job
)

func lookAtRiver(ctx context.Context, pool *pgxpool.Pool, name string) (riverTables, error) {
	var r riverTables
	err := pool.QueryRow(ctx, `
		select job is not null, record is not null,
		       coalesce(pg_catalog.obj_description(job, 'pg_class'), '')::text operator(pg_catalog.=) $3
		  from pg_catalog.to_regclass($1) job, pg_catalog.to_regclass($2) record`,
		riverTable(name, "river_job"), riverTable(name, "river_migration"), riverMark).
		Scan(&r.there, &r.versioned, &r.unfinished)
	if err != nil {
		return r, err
	}
	m, err := riverMigrator(pool, name)
	if err != nil {
		return r, err
	}
	// Nothing but a dry run lists the versions that are missing.
	plan, err := m.Migrate(ctx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{DryRun: true})
	if err != nil {
		return r, err
	}
	for _, v := range plan.Versions {
		r.missing = append(r.missing, v.Version)
	}
	return r, nil
}

func riverTable(schema, name string) string {
	if schema == "" {
		return name
	}
	return quote(schema) + "." + name
}

func riverMigrator(pool *pgxpool.Pool, name string) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: name,
		Logger: slog.New(slog.DiscardHandler), // else it writes to stdout
	})
}

// upRiver applies what is missing of River's schema, one version a transaction:
// version 6 uses a value that version 4 adds to an enum.
func (m *Migrator) upRiver(ctx context.Context, s *session) error {
	r, err := lookAtRiver(ctx, s.pool, m.river)
	if err != nil {
		return s.explain("look for River's tables", err)
	}
	if err := m.prepareRiver(ctx, s); err != nil {
		return err
	}
	ours := !r.there || r.unfinished
	for _, version := range r.missing {
		err := inTx(ctx, s.pool, func(tx pgx.Tx) error { return m.riverUpTx(ctx, tx, version, ours) })
		if err != nil {
			return s.explain(fmt.Sprintf("migrate River's tables%s to version %d", inRiverSchema(m.river), version), err)
		}
	}
	if !ours {
		return nil
	}
	err = inTx(ctx, s.pool, func(tx pgx.Tx) error { return m.markRiver(ctx, tx, "null") })
	return s.explain("take the mark off River's tables"+inRiverSchema(m.river), err)
}

// prepareRiver makes the schema of River's tables, which River does not.
func (m *Migrator) prepareRiver(ctx context.Context, s *session) error {
	if m.river != "" {
		err := inTx(ctx, s.pool, func(tx pgx.Tx) error { return createSchema(ctx, tx, m.river) })
		return s.explain(fmt.Sprintf("create schema %q for River's tables", m.river), err)
	}
	var there bool
	err := s.pool.QueryRow(ctx, `select pg_catalog.current_schema() is not null`).Scan(&there)
	if err == nil && !there {
		return errors.New("the search path names no schema for River's tables: name one with --river-schema")
	}
	return s.explain("look for a schema for River's tables", err)
}

// riverUpTx applies a version, and marks tables of ours as not finished.
func (m *Migrator) riverUpTx(ctx context.Context, tx pgx.Tx, version int, ours bool) error {
	migrator, err := riverMigrator(m.pool, m.river)
	if err != nil {
		return err
	}
	//lint:ignore SA1019 deprecated because of several versions in one transaction; this is one, under our lock_timeout
	_, err = migrator.MigrateTx(ctx, tx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{TargetVersion: version})
	if err != nil || !ours || version < riverJobVersion {
		return err
	}
	return m.markRiver(ctx, tx, "'"+riverMark+"'")
}

// markRiver sets the comment on river_job.
func (m *Migrator) markRiver(ctx context.Context, tx pgx.Tx, comment string) error {
	_, err := tx.Exec(ctx, `comment on table `+riverTable(m.river, "river_job")+` is `+comment)
	return err
}

// Package migrations has the tables of the library as numbered SQL and applies
// them: Up for applications, a Migrator for reactorctl migrate, SQL for those
// who apply migrations with a tool of their own. It keeps its own version table
// and lock, so it runs beside an application's goose, through a pooler in
// transaction mode, and in many processes at once.
//
// River's tables are made where there are none. Where there are, they are
// looked at and left alone, unless UpRiver is called.
//
// Imports: goose, pgx, River's migrator; must not know: engine and its adapters.
package migrations

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/migrations/schema"
)

//go:embed sql/*.sql
var embedded embed.FS

// Options are what Up may ask for; give at most one value.
type Options struct {
	Schema      string // of our tables. Default "reactor"
	RiverSchema string // of River's tables. Default that of River: the first schema of the search path
}

// Up brings our schema to the version of this release, and makes River's tables
// if there are none; where all is done already it only reads. It may run in
// several processes at once: one works, the others wait for it, up to 5 minutes.
// Locks on tables in use it waits for 4 seconds each, then the error names the
// sessions that hold them.
//
// River's tables that are there are never changed; if they lack a version, our
// schema is migrated all the same and a *RiverError names River's command. A
// schema that a later release made unusable to this one is a *schema.NewerError.
// A version is applied whole or not at all.
func Up(ctx context.Context, pool *pgxpool.Pool, opts ...Options) error {
	if len(opts) > 1 {
		return errors.New("migrations.Up: give at most one Options value")
	}
	var o Options
	if len(opts) == 1 {
		o = opts[0]
	}
	m, err := New(pool, o)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

// A Migrator changes the schemas of one database. It is safe for concurrent use.
type Migrator struct {
	pool          *pgxpool.Pool
	schema, river string
	files         fs.FS // numbered goose files for schema "reactor"
	latest        int64 // the highest of them
}

// New returns a migrator on pool, which must outlive it. Beside pool it opens up
// to three connections of its own, with pool's configuration, while it changes
// something. A bad schema name is an error.
func New(pool *pgxpool.Pool, o Options) (*Migrator, error) {
	if pool == nil {
		return nil, errors.New("migrations: pool is nil")
	}
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(embedded, "sql")
	if err != nil {
		return nil, err
	}
	return &Migrator{pool: pool, schema: o.Schema, river: o.RiverSchema, files: files, latest: schema.Latest}, nil
}

// riverName is what River itself takes as the name of a schema.
var riverName = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]{0,45})?$`)

func (o Options) checked() (Options, error) {
	if o.Schema == "" {
		o.Schema = schema.Default
	}
	if err := schema.ValidName(o.Schema); err != nil {
		return o, err
	}
	if !riverName.MatchString(o.RiverSchema) {
		return o, fmt.Errorf("schema name %q of River must have at most 46 letters, digits and _, "+
			"and must not begin with a digit", o.RiverSchema)
	}
	return o, nil
}

// A State is what a database has.
type State struct {
	Schema  string `json:"schema"`  // ours
	Version int64  `json:"version"` // that it is at; 0 if it is missing or empty
	Latest  int64  `json:"latest"`  // version that this release knows

	RiverSchema    string `json:"river_schema"`    // "" is the search path
	RiverTables    bool   `json:"river_tables"`    // there are tables of River
	RiverVersioned bool   `json:"river_versioned"` // and River's record of their version, river_migration
	RiverMissing   []int  `json:"river_missing"`   // versions that this release knows and River's record lacks
}

// A Report is what a migration found and what it left, whoever did it.
type Report struct {
	Before State `json:"before"`
	After  State `json:"after"`
}

// Status says what the database has. It only reads.
func (m *Migrator) Status(ctx context.Context) (State, error) {
	f, err := m.look(ctx)
	return f.State, err
}

// Up does what the function Up describes. The report is also there with an error,
// of what was done until then.
func (m *Migrator) Up(ctx context.Context) (Report, error) {
	r, err := m.report(ctx, func(before found) error {
		done, err := m.done(before)
		if err != nil || done {
			return err
		}
		return m.alone(ctx, m.up)
	})
	if err != nil {
		return r, err
	}
	return r, riverBehind(r.After)
}

// Down takes back the last steps versions of our schema, with all that is stored
// in their tables, and fewer if there are not as many. River's tables it leaves
// alone. A schema of a later release is a *schema.NewerError.
func (m *Migrator) Down(ctx context.Context, steps int) (Report, error) {
	if steps < 1 {
		return Report{}, fmt.Errorf("migrate down: %d steps, at least 1 is needed", steps)
	}
	return m.report(ctx, func(before found) error {
		if before.Version == 0 {
			return nil
		}
		return m.alone(ctx, func(ctx context.Context, s *session) error { return m.down(ctx, s, steps) })
	})
}

// UpRiver brings River's tables to the version of the River release that this
// program was built with, whoever made them. Tables without River's record of
// their version are an error. Our own schema it leaves alone.
func (m *Migrator) UpRiver(ctx context.Context) (Report, error) {
	return m.report(ctx, func(before found) error {
		if before.RiverTables && !before.RiverVersioned {
			return riverUnversioned(m.river)
		}
		return m.alone(ctx, m.upRiver)
	})
}

// report runs change between two looks at the database.
func (m *Migrator) report(ctx context.Context, change func(found) error) (Report, error) {
	before, err := m.look(ctx)
	if err != nil {
		return Report{}, err
	}
	err = change(before)
	after, lookErr := m.look(ctx)
	if lookErr != nil {
		after = before
	}
	return Report{Before: before.State, After: after.State}, cmp.Or(err, lookErr)
}

// found is a State and what of it only the migrator needs to know.
type found struct {
	State
	version         schema.Version
	riverUnfinished bool // a migration of ours began to make River's tables and did not come to its end
}

func (m *Migrator) look(ctx context.Context) (found, error) {
	v, err := schema.Current(ctx, m.pool, m.schema)
	if err != nil {
		return found{}, err
	}
	r, err := lookAtRiver(ctx, m.pool, m.river)
	if err != nil {
		return found{}, explain("look for River's tables", err, nil)
	}
	return found{
		State: State{
			Schema: m.schema, Version: v.Number, Latest: m.latest,
			RiverSchema: m.river, RiverTables: r.there, RiverVersioned: r.versioned, RiverMissing: r.missing,
		},
		version:         v,
		riverUnfinished: r.unfinished,
	}, nil
}

// done reports whether Up has nothing to change. A schema that this release can't
// work on, being of a later one, is an error.
func (m *Migrator) done(f found) (bool, error) {
	err := f.version.Fits(m.schema, m.latest)
	if newer, ok := errors.AsType[*schema.NewerError](err); ok {
		return false, newer
	}
	return err == nil && f.RiverTables && !f.riverUnfinished, nil
}

// up does what is still to do now that no other migrator is at work.
func (m *Migrator) up(ctx context.Context, s *session) error {
	f, err := m.look(ctx)
	if err != nil {
		return err
	}
	if done, err := m.done(f); err != nil || done {
		return err
	}
	if f.Version < m.latest {
		if err := m.upOurs(ctx, s); err != nil {
			return err
		}
	}
	if f.RiverTables && !f.riverUnfinished {
		return nil
	}
	return m.upRiver(ctx, s)
}

package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/migrations/schema"
)

// A Store keeps runs in the database of a pool. It serves one engine and may be
// used by any number of goroutines.
type Store struct {
	pool    *pgxpool.Pool
	schema  string
	texts   map[string]string // statements in another schema than the default; nil in that one
	mode    pgx.QueryExecMode // of a statement that is a transaction by itself
	invalid error             // what is wrong with the options

	once       sync.Mutex
	attached   bool
	dispatcher engine.Dispatcher // nil queues nothing

	failing failing // runs that a sweep could not handle
}

var _ engine.Store = (*Store)(nil)

// Options are what a store may ask for; give at most one value, a second one is
// an error of engine.New.
type Options struct {
	Schema string // of our tables. Default "reactor"
}

// New returns a store on pool, which must outlive it. What is wrong with the
// options, engine.New says.
func New(pool *pgxpool.Pool, opts ...Options) *Store {
	s := &Store{pool: pool, schema: schema.Default}
	if len(opts) > 1 {
		s.invalid = fmt.Errorf("pgstore: %d values of Options given, at most one is taken", len(opts))
		return s
	}
	if len(opts) == 1 && opts[0].Schema != "" {
		s.schema = opts[0].Schema
	}
	switch {
	case pool == nil:
		s.invalid = errors.New("pgstore: the pool is nil: give New an open pgxpool.Pool")
	default:
		s.invalid = checkName(s.schema)
		s.mode = loneMode(pool)
	}
	if s.schema != schema.Default && s.invalid == nil {
		s.texts = inSchema(s.schema)
	}
	return s
}

// loneMode is how a statement is sent that is a transaction by itself and so
// can't have a plan of its own asked for: without a name it is planned each
// time, in one round trip. A pool that was told to do without prepared
// statements keeps its own way.
func loneMode(pool *pgxpool.Pool) pgx.QueryExecMode {
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	switch mode {
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
		return pgx.QueryExecModeExec
	}
	return mode
}

// Validate is what is wrong with the options, without I/O.
func (s *Store) Validate() error { return s.invalid }

// Attach binds the store to the dispatcher that its transactions queue wake-ups
// with; nil means that nothing is queued. It returns what is wrong with the
// options, and an error if the store serves an engine already.
func (s *Store) Attach(d engine.Dispatcher) error {
	s.once.Lock()
	defer s.once.Unlock()
	if s.invalid != nil {
		return s.invalid
	}
	if s.attached {
		return errors.New("pgstore: the store serves an engine already: give each engine a store of its own")
	}
	s.attached, s.dispatcher = true, d
	return nil
}

// Database is the name of the database of the pool and the host that it is
// reached at; both are "" without a pool.
func (s *Store) Database() (name, host string) {
	if s.pool == nil {
		return "", ""
	}
	c := s.pool.Config().ConnConfig
	return cmp.Or(c.Database, c.User), c.Host
}

// Check compares the version of the schema with the one this release needs. A
// missing, an older and a newer schema are three errors, of package
// migrations/schema, that say what to run.
func (s *Store) Check(ctx context.Context) error {
	if err := schema.Check(ctx, s.pool, s.schema); err != nil {
		return described("check the schema", err)
	}
	return nil
}

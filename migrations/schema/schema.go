// Package schema names the version of our tables that this release of the
// library works on, and checks which one a database has. It is apart from
// package migrations so that a store can check its schema without the migrator.
//
// Imports: pgx; must not know: goose, River, anything else of ours.
package schema

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// Default is the schema of our tables unless another is named.
	Default = "reactor"
	// Latest is the version of our schema that this release works on.
	Latest int64 = 1
	// VersionTable is the table, in our schema, of the versions applied to it.
	// Its column oldest is null, and the row is then for releases that know that
	// version only, or says from which version on a release may work beside it.
	VersionTable = "schema_version"
)

// maxName is what River allows of a schema name too: its notification topics
// carry the name and end at 63 bytes.
const maxName = 46

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// ValidName returns an error that says what is wrong with name as the name of a
// schema of ours: it has 1 to 46 of a-z, 0-9 and _, does not begin with a digit,
// nor with pg_, which PostgreSQL keeps for itself.
func ValidName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("schema name %q has %d characters, at most %d are allowed", name, len(name), maxName)
	case !namePattern.MatchString(name):
		return fmt.Errorf("schema name %q must have only a-z, 0-9 and _, and must not begin with a digit", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("schema name %q begins with pg_, which PostgreSQL keeps for itself", name)
	}
	return nil
}

// A Querier is what a version is read through: a pool, a connection or a
// transaction of pgx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A Version is what a schema is at.
type Version struct {
	Number int64 // the highest version applied; 0 if there is none
	Oldest int64 // a release that knows this version, or a later one, works on the schema
}

// Check returns nil if this release works on the schema called name. Else it
// returns a *MissingError, an *OlderError or a *NewerError, which say what to
// run; anything else is a failure to find out. It only reads, in two short
// statements, and does not abort a transaction that db may be.
func Check(ctx context.Context, db Querier, name string) error {
	v, err := Current(ctx, db, name)
	if err != nil {
		return err
	}
	return v.Fits(name, Latest)
}

// Current returns the version of the schema called name, zero if there is no
// such schema or nothing was applied to it.
func Current(ctx context.Context, db Querier, name string) (Version, error) {
	if err := ValidName(name); err != nil {
		return Version{}, err
	}
	v, err := current(ctx, db, pgx.Identifier{name}.Sanitize()+"."+VersionTable)
	if err != nil {
		return Version{}, fmt.Errorf("read the version of schema %q: %w", name, plain(err))
	}
	return v, nil
}

// current uses no function or operator that an object planted in the search
// path could stand in for.
func current(ctx context.Context, db Querier, table string) (Version, error) {
	var there bool
	err := db.QueryRow(ctx, `select pg_catalog.to_regclass($1) is not null`, table).Scan(&there)
	if err != nil || !there {
		return Version{}, err
	}
	var v Version
	err = db.QueryRow(ctx, `select version_id, coalesce(oldest, version_id) from `+table+`
		order by version_id desc limit 1`).Scan(&v.Number, &v.Oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		return Version{}, nil
	}
	return v, err
}

// Fits returns nil if a release that needs the version latest works on v, the
// version of the schema called name, and else the error that Check describes.
func (v Version) Fits(name string, latest int64) error {
	switch {
	case v.Number == 0:
		return &MissingError{Schema: name}
	case v.Number < latest:
		return &OlderError{Schema: name, Version: v.Number, Needs: latest}
	case v.Oldest > latest:
		return &NewerError{Schema: name, Version: v.Number, Knows: latest}
	}
	return nil
}

// A MissingError says that there is no schema of ours, or an empty one.
type MissingError struct{ Schema string }

// Error names the schema and the command to run.
func (e *MissingError) Error() string {
	return fmt.Sprintf("schema %q is missing: run %s", e.Schema, command(e.Schema))
}

// An OlderError says that the schema lacks what this release needs.
type OlderError struct {
	Schema         string
	Version, Needs int64
}

// Error names the schema, both versions and the command to run.
func (e *OlderError) Error() string {
	return fmt.Sprintf("schema %q is at version %d, this release needs %d: run %s",
		e.Schema, e.Version, e.Needs, command(e.Schema))
}

// A NewerError says that a later release has changed the schema so that this
// one can't work on it.
type NewerError struct {
	Schema         string
	Version, Knows int64
}

// Error names the schema, both versions and what to use.
func (e *NewerError) Error() string {
	return fmt.Sprintf("schema %q is at version %d, newer than this release (%d): "+
		"use a newer release of the library (go get github.com/pgreactor/reactor@latest)", e.Schema, e.Version, e.Knows)
}

func command(name string) string {
	if name == Default {
		return "reactorctl migrate"
	}
	return "reactorctl migrate --schema " + name
}

// plain is err without the code that PostgreSQL's errors end with.
func plain(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &plainError{text: pgErr.Message, err: err}
	}
	return err
}

type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

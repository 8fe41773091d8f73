// Package pgstore keeps runs in PostgreSQL, version 15 or later: it is
// engine.Store on pgx.
//
// Each operation is one transaction. Its statements travel in one pipeline,
// with what begins it, its time limits and its commit, so that a claim or a
// save costs one round trip; only a transaction that queues wake-ups needs
// more. A statement stands as a constant beside the function that runs it, all
// of them are listed in statements, and nothing else of the library writes runs
// and nodes.
//
// Nothing lasts longer than a transaction: no setting, no lock, no temporary
// table, so every way to pool connections works. Parameters are texts, integers
// and arrays of them, because pgx encodes nothing else without a description of
// the statement. Tables are named with their schema; functions and operators
// are called with the exact types that pg_catalog has, so that nothing planted
// in the search path is called in their place.
//
// Imports: engine, migrations/schema, pgx; must not know: River, goose, what is
// in a value.
package pgstore

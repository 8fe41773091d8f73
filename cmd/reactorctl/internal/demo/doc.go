// Package demo plays three orders of examples/checkout through workers in
// processes of their own: one is shipped, one fails and is undone, one loses its
// worker to SIGKILL and is taken over by the other. What it says at the end, it
// has read from the database.
//
// The parent starts the runs and drives none. A worker gets what it must know on
// its standard input, tells its events on its standard output, and ends when its
// input does: so no worker outlives the parent, even if that is killed.
//
// Imports: engine, its adapters, migrations, internal/pgdev, examples/checkout.
package demo

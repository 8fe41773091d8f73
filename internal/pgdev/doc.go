// Package pgdev runs a PostgreSQL server for a demo, for development and for
// tests: from the server binaries of this machine, on 127.0.0.1 only, under a
// password of its own. No server outlives the process that started it, not
// even if that process is killed: see keeper.sh.
//
// Imports: the standard library and, for the download, embedded-postgres;
// must not know any other package of ours.
package pgdev

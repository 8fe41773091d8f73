// Package pgtest gives tests databases of their own: migrated, on one server a
// test process, and looked at when the test is over.
//
// A test package begins with
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and its tests ask for Pool, URL, Empty or Server. The server is the one at
// REACTOR_TEST_DATABASE_URL, whose user may create databases, else one that is
// started from the server binaries of this machine, else that of Fallback.
// Without any of them the tests fail and say what to do.
//
// After each test the invariants of Violations must hold in its database, and
// after all tests the log of a server of ours must be clean, see CheckLog.
//
// Imports: internal/pgdev, migrations, pgx; must not know: engine and its
// adapters.
package pgtest

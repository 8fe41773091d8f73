// Package integration has the tests that need a real Postgres, real River and
// real processes: they look at the product from outside. It is a module of its
// own, so that what only these tests need stays out of users' module graphs.
package integration

// Package river delivers wake-ups with River: it is engine.Dispatcher on
// insert-only River clients, and the workers that drive runs in the
// application's own client. Import it as reactorriver.
//
// A job says "drive these runs now" and has nothing but their ids; it may be
// lost, doubled or late, because the tables of the runs are the truth. The one
// job that carries an input is that of StartJob: until it is worked it is all
// there is of the run.
//
// River tells its clients of a new job by NOTIFY. Inside the engine's
// transactions that would make commits wait for one another, so the dispatcher
// sends the notice itself, after the commit and seldom: see Dispatcher.Ring. It
// depends on the form of River's notices, which is River's own affair; a test
// keeps watch on it. Where no notice arrives, polling finds the job.
//
// Imports: engine, River, pgx; must not know: the tables of runs, the packages
// pgstore and locks.
package river

// Package engine defines reactors and drives their runs.
//
// A reactor is a typed graph of plain Go functions, each with its own undo. A
// run of it is durable: its state is rows in the application's own Postgres, so
// that from its start on it finishes or is undone, whatever crashes.
//
//	var Hello = engine.MustDefine("hello", func(b *engine.Builder, name engine.Ref[string]) engine.Ref[string] {
//		return engine.Step(b, "greet", name, greet)
//	})
//
// The engine keeps and wakes runs through three seams: a [Store], a
// [Dispatcher] and a [Clock]. Package pgstore is the store on Postgres, package
// river the dispatcher and the workers on River; [InMemory] has twins of both.
// This package imports the standard library only.
package engine

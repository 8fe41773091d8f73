// Package ctl has the commands of reactorctl, one a file. A command is a struct
// with a method Run(ctx, out) error and a function that makes a cobra command
// of it; Main runs them all and returns the exit code.
//
// Results go to the standard output, messages to the standard error, one line
// each. Commands that look go through an engine without reactors, which
// registers no process and needs SELECT only.
//
// Imports: engine, its adapters, migrations, internal/pgdev, cobra.
package ctl

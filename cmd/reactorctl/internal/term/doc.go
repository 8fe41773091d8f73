// Package term writes text for people: tables, wrapped lines, times and sizes,
// colours where there is a terminal.
//
// Imports: the standard library; must not know: what the texts are about.
package term

// Package layout keeps the shape of the repository. It has no code, only
// tests: which folders there are, in which direction packages import one
// another, that links in the documents lead somewhere, and that the comments
// which name requirements name few and existing ones. They read files and ask
// no tool, so that they say the same at a desk, in CI and in a fresh clone.
//
// Imports: the standard library; must not know any other package of ours.
package layout

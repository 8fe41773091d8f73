package engine

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Builder collects the nodes of the reactor under definition.
type Builder struct {
	def      *definition
	graph    []*node
	problems []Problem
	sealed   bool
}

// Version sets the version of the definition, which starts at 1. Raise it when
// runs that have begun must not go on with the new graph.
func (b *Builder) Version(n int) {
	b.set("version")
	if n < 1 {
		b.problem(nil, fmt.Sprintf("version %d; it starts at 1", n))
	}
	b.def.version = n
}

// Timeout is the Timeout of each step of the reactor that sets none; the
// default is no limit.
func (b *Builder) Timeout(d time.Duration) {
	b.set("timeout")
	b.positive(nil, "timeout", d)
	b.def.timeout = d
}

// Deadline fails and rolls back a run that has not ended d after it began,
// waits included; the default is none.
func (b *Builder) Deadline(d time.Duration) {
	b.set("deadline")
	b.positive(nil, "deadline", d)
	b.def.deadline = d
}

// set notes a setting of the reactor, to find one that is given twice.
func (b *Builder) set(name string) {
	b.open(name + " of reactor " + b.def.name)
	if slices.Contains(b.def.settings, name) {
		b.problem(nil, name+" is set twice")
	}
	b.def.settings = append(b.def.settings, name)
}

// open panics on what comes after the definition has ended.
func (b *Builder) open(what string) {
	if b.sealed {
		panic(fmt.Sprintf("engine: %s changed after the definition of reactor %s ended", what, b.def.name))
	}
}

func (b *Builder) positive(n *node, what string, d time.Duration) {
	if d <= 0 {
		b.problem(n, fmt.Sprintf("%s of %s; it must be above 0", what, d))
	}
}

// problem notes what is wrong with n, or with the reactor itself if n is nil.
func (b *Builder) problem(n *node, msg string) {
	p := Problem{Pos: b.def.pos, Node: "reactor " + b.def.name, Msg: msg}
	if n != nil {
		p.Pos, p.Node = n.pos, n.kind+" "+n.name
	}
	b.problems = append(b.problems, p)
}

// definition is a reactor with its types erased: what New registers, what the
// executor drives and what is stored of it.
type definition struct {
	name, pos         string
	version           int
	timeout, deadline time.Duration
	settings          []string
	scope             *Builder
	nodes             map[string]*node // by name
	in, out           reflect.Type
	result            func(*frame) (any, error)
	accept            func(*Engine, json.RawMessage) (normal json.RawMessage, failure error)
	graph             graph
	stored            StoredGraph
}

// A Definition is a reactor of any type; it is sealed.
type Definition interface{ definition() *definition }

// A Reactor is a validated, immutable definition that turns an In into an Out.
type Reactor[In, Out any] struct{ def *definition }

func (r *Reactor[In, Out]) definition() *definition { return r.def }

// Define runs build once and validates the graph. The error is a
// *DefinitionError with every problem.
func Define[In, Out any](name string, build func(b *Builder, in Ref[In]) Ref[Out]) (*Reactor[In, Out], error) {
	def := &definition{name: name, version: 1, pos: caller(), in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}
	b := &Builder{def: def}
	def.scope = b
	if problem := badName(name); problem != "" {
		b.problem(nil, problem)
	}
	if build == nil {
		b.problem(nil, "build is nil")
		return nil, &DefinitionError{Reactor: name, Problems: b.problems}
	}
	in := &inputRef[In]{handle[In]{b.add("input", "input")}}
	out := build(b, in)
	b.sealed = true
	b.finish(out)
	if len(b.problems) > 0 {
		return nil, &DefinitionError{Reactor: name, Problems: b.problems}
	}
	def.nodes = make(map[string]*node, len(b.graph))
	for _, n := range b.graph[1:] {
		def.nodes[n.name] = n
	}
	def.result = func(fr *frame) (any, error) { return out.resolve(fr) }
	def.accept = acceptInput[In]
	def.graph = graphOf(def)
	def.stored = def.graph.stored()
	return &Reactor[In, Out]{def}, nil
}

// MustDefine is Define for package variables; it panics with the same error.
func MustDefine[In, Out any](name string, build func(b *Builder, in Ref[In]) Ref[Out]) *Reactor[In, Out] {
	r, err := Define(name, build)
	if err != nil {
		panic(err)
	}
	return r
}

// Graph prints the definition, one node a line, and its fingerprint.
func (r *Reactor[In, Out]) Graph() string {
	return r.def.graph.String() + "fingerprint " + r.def.stored.Fingerprint + "\n"
}

// Fingerprint identifies the graph; it is stored with each run.
func (r *Reactor[In, Out]) Fingerprint() string { return r.def.stored.Fingerprint }

type inputRef[T any] struct{ handle[T] }

// finish checks what can be seen only once the graph is whole.
func (b *Builder) finish(out Dep) {
	if len(b.graph) == 1 {
		b.problem(nil, "has no nodes")
	}
	for _, n := range nodesOf(out) {
		switch {
		case n == nil:
			b.problem(nil, "its result is nil")
		case n == noFunction:
			b.problem(nil, "its result has a Pick or Join whose function is nil")
		case n.scope != b:
			b.problem(nil, fmt.Sprintf("its result is %q of reactor %q, defined at %s", n.name, n.scope.def.name, n.pos))
		}
	}
	b.storable(nil, b.def.in)
	b.storable(nil, b.def.out)
	for _, n := range b.graph[1:] {
		b.storable(n, n.in)
		b.storable(n, n.out)
	}
}

// storable notes a type that JSON can't keep.
func (b *Builder) storable(n *node, t reflect.Type) {
	why, bad := unstorable(t)
	if !bad {
		return
	}
	msg := fmt.Sprintf("%s can't be stored as JSON: %s", t, why)
	if !slices.ContainsFunc(b.problems, func(p Problem) bool { return p.Msg == msg }) {
		b.problem(n, msg)
	}
}

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// maxName is the most bytes that a name may have.
const maxName = 64

func badName(name string) string {
	switch {
	case !nameRE.MatchString(name):
		return "name must match " + nameRE.String()
	case len(name) > maxName:
		return fmt.Sprintf("name has %d bytes; it may have %d", len(name), maxName)
	}
	return ""
}

// add appends a node and checks what can be checked at once. It never fails:
// problems are collected so that one Define reports all of them.
func (b *Builder) add(kind, name string, in ...Dep) *node {
	n := &node{kind: kind, name: name, scope: b, index: len(b.graph), pos: caller(), attempts: 1}
	b.open(kind + " " + name)
	if kind != "input" {
		b.checkName(n)
	}
	b.graph = append(b.graph, n)
	n.waitFor(in...)
	return n
}

func (b *Builder) checkName(n *node) {
	if problem := badName(n.name); problem != "" {
		b.problem(n, problem)
	}
	for _, o := range b.graph[1:] {
		if o.name == n.name {
			b.problem(n, "name already used at "+o.pos)
			return
		}
	}
}

// caller is the position of the first frame outside this package's own code.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, enginePackage) || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "?"
		}
	}
}

// enginePackage is how the functions of this package begin.
var enginePackage = reflect.TypeFor[Builder]().PkgPath() + "."

// isNil tells a nil handle, also one of a node type.
func isNil(d Dep) bool {
	if d == nil {
		return true
	}
	v := reflect.ValueOf(d)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Name is the durable name of the reactor.
func (r *Reactor[In, Out]) Name() string { return r.def.name }

// Input is in as JSON, in the normal form in which a run keeps it; an
// *EncodingError if it can't be stored. Start jobs carry it.
func (r *Reactor[In, Out]) Input(in In) (json.RawMessage, error) {
	return encode(in, "input", Config{}.withDefaults().Limits.Value)
}

package engine

// A Ref is a handle on a T that a run will have produced by the time it is
// needed. It is sealed: handles are made by this package and read by wiring
// them.
type Ref[T any] interface {
	Dep
	resolve(*frame) (T, error)
}

// A Dep is any handle, whatever its type: something a node can wait for.
type Dep interface{ nodes() []*node }

// Nothing is the input of a step that takes none.
var Nothing Ref[struct{}] = constant[struct{}]{}

// Const is a handle on a value known when the reactor is defined.
func Const[T any](v T) Ref[T] { return constant[T]{v} }

// Pick derives a handle from another. f must be pure and cheap: it runs again
// each time the value is needed, and its result is not stored.
func Pick[A, B any](from Ref[A], f func(A) B) Ref[B] {
	return derived[B]{deps: []Dep{from}, missing: f == nil, f: func(fr *frame) (b B, err error) {
		a, err := from.resolve(fr)
		if err != nil {
			return b, err
		}
		return f(a), nil
	}}
}

// Key is Pick for the string keys that coordination and correlations take.
func Key[A any](from Ref[A], f func(A) string) Ref[string] { return Pick(from, f) }

// Join2 derives one handle from two, usually to build a step's input. f must be
// pure and cheap.
func Join2[A, B, T any](a Ref[A], b Ref[B], f func(A, B) T) Ref[T] {
	return derived[T]{deps: []Dep{a, b}, missing: f == nil, f: func(fr *frame) (t T, err error) {
		av, err := a.resolve(fr)
		if err != nil {
			return t, err
		}
		bv, err := b.resolve(fr)
		if err != nil {
			return t, err
		}
		return f(av, bv), nil
	}}
}

// Join3 is Join2 for three handles.
func Join3[A, B, C, T any](a Ref[A], b Ref[B], c Ref[C], f func(A, B, C) T) Ref[T] {
	return joined(f == nil, Join2(Join2(a, b, both[A, B]), c, func(x pair[A, B], c C) T { return f(x.a, x.b, c) }))
}

// Join4 is Join2 for four handles.
func Join4[A, B, C, D, T any](a Ref[A], b Ref[B], c Ref[C], d Ref[D], f func(A, B, C, D) T) Ref[T] {
	return joined(f == nil, Join2(Join2(a, b, both[A, B]), Join2(c, d, both[C, D]),
		func(x pair[A, B], y pair[C, D]) T { return f(x.a, x.b, y.a, y.b) }))
}

// Join5 is Join2 for five handles; for more, make a type of what belongs
// together.
func Join5[A, B, C, D, E, T any](a Ref[A], b Ref[B], c Ref[C], d Ref[D], e Ref[E], f func(A, B, C, D, E) T) Ref[T] {
	return joined(f == nil, Join3(Join2(a, b, both[A, B]), Join2(c, d, both[C, D]), e,
		func(x pair[A, B], y pair[C, D], e E) T { return f(x.a, x.b, y.a, y.b, e) }))
}

type pair[A, B any] struct {
	a A
	b B
}

func both[A, B any](a A, b B) pair[A, B] { return pair[A, B]{a, b} }

// joined passes on that the user's function is nil, which the wrapped one hides.
func joined[T any](missing bool, r Ref[T]) Ref[T] {
	d := r.(derived[T])
	d.missing = missing
	return d
}

type constant[T any] struct{ v T }

func (constant[T]) nodes() []*node              { return nil }
func (c constant[T]) resolve(*frame) (T, error) { return c.v, nil }

type derived[T any] struct {
	deps    []Dep
	missing bool // the user's function is nil
	f       func(*frame) (T, error)
}

func (d derived[T]) resolve(fr *frame) (T, error) { return d.f(fr) }

func (d derived[T]) nodes() []*node {
	var ns []*node
	if d.missing {
		ns = append(ns, noFunction)
	}
	for _, dep := range d.deps {
		ns = append(ns, nodesOf(dep)...)
	}
	return ns
}

// noFunction stands for the nil function of a Pick or Join among the nodes of a
// handle, so that it is found where the handle is used.
var noFunction = &node{kind: "pick"}

// nodesOf tolerates a nil handle, so that a forgotten argument is a problem of
// the definition rather than a panic in the middle of it.
func nodesOf(d Dep) []*node {
	if isNil(d) {
		return []*node{nil}
	}
	return d.nodes()
}

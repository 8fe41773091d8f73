package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// graph is a definition as data: what is printed, hashed, stored and compared.
// Go's names of types are printed only: a type may move and be renamed as long
// as its JSON keeps its shape.
type graph struct {
	Reactor string      `json:"reactor"`
	Version int         `json:"version"`
	In      valueForm   `json:"in"`
	Out     valueForm   `json:"out"`
	Nodes   []graphNode `json:"nodes"`
}

type graphNode struct {
	Name string    `json:"name"`
	Kind string    `json:"kind"`
	In   valueForm `json:"in"`
	Out  valueForm `json:"out"`
	Deps []string  `json:"deps,omitempty"`
}

// valueForm is what the graph says of a type.
type valueForm struct {
	Shape  string    `json:"shape"`
	Redact redaction `json:"redact,omitempty"` // not part of the fingerprint
	goName string
}

func graphOf(def *definition) graph {
	g := graph{Reactor: def.name, Version: def.version, In: formOf(def.in), Out: formOf(def.out)}
	for _, n := range def.scope.graph[1:] {
		gn := graphNode{Name: n.name, Kind: n.kind, In: formOf(n.in), Out: formOf(n.out)}
		for _, d := range n.deps {
			gn.Deps = append(gn.Deps, d.name)
		}
		g.Nodes = append(g.Nodes, gn)
	}
	return g
}

func formOf(t reflect.Type) valueForm {
	return valueForm{Shape: shapeOf(t), Redact: redactionOf(t), goName: t.String()}
}

// String prints the graph, one node a line.
func (g graph) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "reactor %s v%d: %s -> %s\n", g.Reactor, g.Version, g.In.goName, g.Out.goName)
	for _, n := range g.Nodes {
		fmt.Fprintf(&s, "  %s %s(%s): %s -> %s\n", n.Kind, n.Name, strings.Join(n.Deps, ", "), n.In.goName, n.Out.goName)
	}
	return s.String()
}

// fingerprint hashes names, kinds, dependencies and shapes.
func (g graph) fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q v%d %q %q\n", g.Reactor, g.Version, g.In.Shape, g.Out.Shape)
	for _, n := range g.Nodes {
		fmt.Fprintf(h, "%q %q %q %q %q\n", n.Kind, n.Name, n.In.Shape, n.Out.Shape, n.Deps)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func (g graph) stored() StoredGraph {
	form, err := json.Marshal(g)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return StoredGraph{Fingerprint: g.fingerprint(), Reactor: g.Reactor, Version: g.Version, Text: g.String(), Form: form}
}

// readGraph reads what stored wrote.
func readGraph(s *StoredGraph) (graph, error) {
	var g graph
	err := json.Unmarshal(s.Form, &g)
	return g, err
}

func (g graph) node(name string) (graphNode, int) {
	i := slices.IndexFunc(g.Nodes, func(n graphNode) bool { return n.Name == name })
	if i < 0 {
		return graphNode{}, i
	}
	return g.Nodes[i], i
}

// same reports whether a node that has begun may be taken for n.
func (n graphNode) same(o graphNode) bool {
	return n.Kind == o.Kind && n.In.Shape == o.In.Shape && n.Out.Shape == o.Out.Shape && slices.Equal(n.Deps, o.Deps)
}

// misfit says why a run that was stored under old can't go on with g, "" if it
// can: each node that has begun must still be there, unchanged, and no new one
// may stand before it in source order.
func (g graph) misfit(old graph, begun func(name string) bool) string {
	var removed, changed, added []string
	last := -1
	for _, n := range old.Nodes {
		if !begun(n.Name) {
			continue
		}
		now, i := g.node(n.Name)
		switch {
		case i < 0:
			removed = append(removed, n.Name)
		case !n.same(now):
			changed = append(changed, n.Name)
		}
		last = max(last, i)
	}
	for i, n := range g.Nodes {
		if _, at := old.node(n.Name); at < 0 && i < last {
			added = append(added, n.Name)
		}
	}
	if g.In.Shape != old.In.Shape {
		changed = append(changed, "input")
	}
	return difference(removed, changed, added)
}

func difference(removed, changed, added []string) string {
	var parts []string
	for _, p := range []struct {
		word  string
		names []string
	}{{"removed", removed}, {"changed", changed}, {"added before what is done", added}} {
		if len(p.names) > 0 {
			parts = append(parts, p.word+": "+strings.Join(p.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

package engine

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxShape is how long a shape may be that is spelled out at each place.
const maxShape = 64 << 10

// shapeOf describes the JSON of a type by field names and kinds, without Go
// names: string, number, integer, bool, any; json where a MarshalJSON decides;
// [x] for a list, [x;3] for an array, {[string]:x} for a map, x? for a pointer,
// {a:x,b:y} for a struct, fields sorted. A type inside itself is ^n, where n
// counts the named types around the one that is meant.
func shapeOf(t reflect.Type) string {
	s := shapeText{open: map[reflect.Type]int{}}
	if s.add(t); s.out.Len() > maxShape {
		s = shapeText{open: map[reflect.Type]int{}, once: true}
		s.add(t)
	}
	return s.out.String()
}

// A shapeText writes the shape of a type.
type shapeText struct {
	out  strings.Builder
	open map[reflect.Type]int // types that are being written
	once bool                 // write each type once, as huge ones need
}

func (s *shapeText) add(t reflect.Type) {
	if s.out.Len() > maxShape && !s.once {
		return
	}
	if leaf := leafShape(t); leaf != "" {
		s.out.WriteString(leaf)
		return
	}
	if n, again := s.open[t]; again {
		s.out.WriteString("^" + strconv.Itoa(n))
		return
	}
	if t.Name() != "" {
		s.open[t] = len(s.open)
		if !s.once {
			defer delete(s.open, t)
		}
	}
	s.parts(t)
}

// leafShape is the shape of a type that has no parts in JSON, or whose parts are
// its own business; "" for the others.
func leafShape(t reflect.Type) string {
	if t.Kind() != reflect.Pointer {
		switch m := methodsOf(t); {
		case t == timeType || m.writesText():
			return "string"
		case m.ptrJSON:
			return "json"
		case isByteSlice(t):
			return "string"
		}
	}
	switch k := t.Kind(); {
	case t == numberType || isFloat(k):
		return "number"
	case isInteger(k):
		return "integer"
	case k == reflect.String || k == reflect.Bool:
		return k.String()
	case k == reflect.Interface:
		return "any"
	case k == reflect.Pointer || k == reflect.Struct || k == reflect.Map || k == reflect.Slice || k == reflect.Array:
		return ""
	}
	return "unstorable"
}

func (s *shapeText) parts(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		s.add(t.Elem())
		s.out.WriteString("?")
	case reflect.Slice:
		s.around("[", t.Elem(), "]")
	case reflect.Array:
		s.around("[", t.Elem(), ";"+strconv.Itoa(t.Len())+"]")
	case reflect.Map:
		s.around("{["+keyShape(t.Key())+"]:", t.Elem(), "}")
	case reflect.Struct:
		s.fields(t)
	}
}

func (s *shapeText) around(before string, t reflect.Type, after string) {
	s.out.WriteString(before)
	s.add(t)
	s.out.WriteString(after)
}

func keyShape(t reflect.Type) string {
	if isInteger(t.Kind()) && !t.Implements(textMarshalerType) {
		return "integer"
	}
	return "string"
}

func (s *shapeText) fields(t reflect.Type) {
	s.out.WriteString("{")
	for i, f := range jsonFields(t) {
		if i > 0 {
			s.out.WriteString(",")
		}
		s.out.WriteString(shapeName(f.name) + ":")
		if f.quoted {
			s.around("string(", f.typ, ")")
		} else {
			s.add(f.typ)
		}
	}
	s.out.WriteString("}")
}

// shapeName quotes names that would read like something else.
func shapeName(name string) string {
	if strings.ContainsAny(name, "[]{}()?:,;^ \"") {
		return strconv.Quote(name)
	}
	return name
}

// unstorable says what in t JSON can't keep, such as "field Done is a chan" or
// "it is a chan"; found is false if it can keep all of it.
func unstorable(t reflect.Type) (reason string, found bool) {
	s := flawSearch{seen: map[flawVisit]bool{}}
	s.look(t, "", true)
	return s.reason, s.reason != ""
}

// A flawVisit is a type that was looked at, as a value with an address or not.
type flawVisit struct {
	t    reflect.Type
	addr bool
}

type flawSearch struct {
	seen   map[flawVisit]bool
	reason string
}

// look looks at t in a place; addr tells whether encoding/json can take the
// address of the values there.
func (s *flawSearch) look(t reflect.Type, path string, addr bool) {
	if s.reason != "" || s.seen[flawVisit{t, addr}] {
		return
	}
	s.seen[flawVisit{t, addr}] = true
	if t.Kind() != reflect.Pointer {
		switch m := methodsOf(t); {
		case m.lost() && !addr:
			s.report(path, fmt.Sprintf("a %s in a map, where its methods are not used: make it a *%[1]s", t))
			return
		case m.marshals():
			return
		}
	}
	s.parts(t, path, addr)
}

func (s *flawSearch) parts(t reflect.Type, path string, addr bool) {
	switch k := t.Kind(); k {
	case reflect.Pointer:
		s.look(t.Elem(), path, true)
	case reflect.Slice:
		s.look(t.Elem(), path+"[]", true)
	case reflect.Array:
		s.look(t.Elem(), path+"[]", addr)
	case reflect.Map:
		s.entries(t, path)
	case reflect.Struct:
		s.fields(t, path, addr)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			s.report(path, fmt.Sprintf("an interface with methods (%s): JSON does not tell which type to make of it", t))
		}
	default:
		if kind, lacks := kindJSONLacks(k); lacks {
			s.report(path, kind)
		}
	}
}

func (s *flawSearch) entries(t reflect.Type, path string) {
	if !keepsKeys(t.Key()) || !readsKeys(t.Key()) {
		s.report(path, fmt.Sprintf("a map with keys of type %s", t.Key()))
		return
	}
	s.look(t.Elem(), path+"{}", false)
}

// readsKeys reports whether encoding/json reads back the keys of type t that it
// writes.
func readsKeys(t reflect.Type) bool {
	if t.Kind() != reflect.String && t.Implements(textMarshalerType) {
		return reflect.PointerTo(t).Implements(textUnmarshalerType)
	}
	return true
}

func (s *flawSearch) fields(t reflect.Type, path string, addr bool) {
	for _, f := range jsonFields(t) {
		inner := joinPath(path, f.goName)
		if f.sealed {
			s.report(inner, "in an embedded pointer to an unexported struct, which can't be read back")
		}
		s.look(f.typ, inner, addr || f.indirect(t))
	}
}

// indirect reports whether a pointer leads to the field, so that it has an address.
func (f jsonField) indirect(t reflect.Type) bool {
	for _, i := range f.index {
		if t.Kind() == reflect.Pointer {
			return true
		}
		t = t.Field(i).Type
	}
	return false
}

func (s *flawSearch) report(path, what string) {
	if s.reason != "" {
		return
	}
	s.reason = "it is " + what
	if path != "" {
		s.reason = "field " + path + " is " + what
	}
}

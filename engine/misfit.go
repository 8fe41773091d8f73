package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A misfit is the first part of some JSON that does not decode into its type.
type misfit struct {
	path   string
	want   reflect.Type
	found  byte // its first byte
	err    error
	secret bool // in, or around, a redacted field
}

// findMisfit finds what in raw, which is well-formed, does not decode into what
// the pointer type t points to; err is what the decoder said.
func findMisfit(raw []byte, t reflect.Type, err error) *misfit {
	s := misfitSearch{cursor: jsonCursor{raw: raw}}
	s.value(t.Elem(), misfit{})
	if s.found != nil {
		return s.found
	}
	c := jsonCursor{raw: raw}
	return &misfit{want: t.Elem(), found: c.peek(), err: err, secret: len(redactionOf(t.Elem())) > 0}
}

// refuse makes the error. It shows no value: only what a method of the type
// says, where nothing of it is redacted.
func (m *misfit) refuse() *EncodingError {
	place := "the value"
	if m.path != "" {
		place = "field " + m.path
	}
	if panicked, ok := errors.AsType[*PanicError](m.err); ok {
		panicked = panicked.unless(m.secret)
		reason := fmt.Sprintf("%s, while %s was decoded into %s", panicked, place, typeText(m.want))
		return &EncodingError{Field: m.path, Reason: reason, panic: panicked}
	}
	reason := fmt.Sprintf("%s does not decode: wanted %s, found %s", place, typeText(m.want), foundText(m.found, m.want))
	if said := saidBy(m.err); said != "" && !m.secret {
		reason += ", which the type refuses: " + said
	}
	return &EncodingError{Field: m.path, Reason: reason}
}

// saidBy is the text of an error that is not encoding/json's own; those quote.
func saidBy(err error) string {
	text := textOf(err)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok || strings.HasPrefix(text, "json: ") {
		return ""
	}
	return cleanText(text, maxPath)
}

// typeText names a type, but for those that would take a line.
func typeText(t reflect.Type) string {
	name := t.String()
	if len(name) <= maxPath/2 && !strings.Contains(name, "struct {") {
		return name
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "a " + t.Kind().String()
}

// foundText says what kind of value begins with that byte.
func foundText(first byte, want reflect.Type) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	if isInteger(want.Kind()) || isFloat(want.Kind()) {
		return "a number that it can't hold"
	}
	return "a number"
}

// A misfitSearch goes through JSON and a type side by side and tries each part
// that has no parts of its own.
type misfitSearch struct {
	cursor jsonCursor
	found  *misfit
}

// value reads the next value as a t; at has the path to it.
func (s *misfitSearch) value(t reflect.Type, at misfit) {
	first := s.cursor.peek()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	m := methodsOf(t)
	switch kind := t.Kind(); {
	case s.found != nil || m.unJSON || m.unText:
		s.leaf(t, at)
	case kind == reflect.Struct && first == '{':
		s.cursor.members(func(key string) { s.member(t, key, at) })
	case kind == reflect.Map && first == '{':
		s.cursor.members(func(key string) { s.entry(t, key, at) })
	case kind == reflect.Slice && first == '[', kind == reflect.Array && first == '[':
		s.cursor.elements(func(i int) { s.value(t.Elem(), at.step("["+strconv.Itoa(i)+"]")) })
	default:
		s.leaf(t, at)
	}
}

// step is the place of a part; what is inside a redacted place keeps its path.
func (m misfit) step(step string) misfit {
	if !m.secret && len(m.path) <= maxPath {
		m.path = joinPath(m.path, step)
	}
	return m
}

func (s *misfitSearch) member(t reflect.Type, key string, at misfit) {
	f := fieldNamed(t, key)
	if f == nil {
		s.cursor.skip()
		return
	}
	at = at.step(f.goName)
	at.secret = at.secret || f.redact
	if f.quoted {
		s.quoted(f.typ, at)
		return
	}
	if f.sealed {
		s.report(f.typ, at, errors.New("an embedded pointer to an unexported struct can't be set"))
	}
	s.value(f.typ, at)
}

// fieldNamed is the field that encoding/json would set; nil if there is none.
func fieldNamed(t reflect.Type, key string) *jsonField {
	fields := jsonFields(t)
	var folded *jsonField
	for i := range fields {
		if fields[i].name == key {
			return &fields[i]
		}
		if folded == nil && strings.EqualFold(fields[i].name, key) {
			folded = &fields[i]
		}
	}
	return folded
}

func (s *misfitSearch) entry(t reflect.Type, key string, at misfit) {
	at = at.step("[" + strconv.Quote(cleanText(key, maxPath)) + "]")
	if t.Key().Kind() != reflect.String {
		one, _ := json.Marshal(map[string]any{key: nil})
		if err := unmarshal(one, reflect.New(reflect.MapOf(t.Key(), reflect.TypeFor[any]())).Interface()); err != nil {
			s.report(t.Key(), at, err)
		}
	}
	s.value(t.Elem(), at)
}

// quoted tries a field with the option string in its tag.
func (s *misfitSearch) quoted(t reflect.Type, at misfit) {
	first := s.cursor.peek()
	raw := s.cursor.skip()
	if first == 'n' {
		return
	}
	if err := unmarshal([]byte(unquoteJSON(raw)), reflect.New(t).Interface()); err != nil {
		s.report(t, at, &json.UnmarshalTypeError{})
		s.found.found = first
	}
}

// leaf tries the next value as a whole.
func (s *misfitSearch) leaf(t reflect.Type, at misfit) {
	at.found = s.cursor.peek()
	raw := s.cursor.skip()
	if s.found != nil {
		return
	}
	if err := unmarshal(raw, reflect.New(t).Interface()); err != nil {
		at.secret = at.secret || len(redactionOf(t)) > 0
		s.report(t, at, err)
	}
}

func (s *misfitSearch) report(t reflect.Type, at misfit, err error) {
	if s.found == nil {
		at.want, at.err = t, err
		if at.found == 0 {
			at.found = s.cursor.peek()
		}
		s.found = &at
	}
}

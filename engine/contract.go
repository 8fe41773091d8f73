package engine

import (
	"errors"
	"maps"
	"reflect"
	"strings"
)

// A contract is a type that says itself what is wrong with a value of it.
type contract interface{ Validate() error }

var contractType = reflect.TypeFor[contract]()

// hasContract reports whether values of t are checked: t or its pointer has
// Validate() error.
func hasContract(t reflect.Type) bool {
	return t != nil && (t.Implements(contractType) || reflect.PointerTo(t).Implements(contractType))
}

// validate checks the value that v points to by its own Validate, if its type
// has one, and by extra, if that is not nil; extra gets the value, not the
// pointer. What both say is one *ValidationError; What is input, result or
// payload. An empty FieldErrors counts as none. A panic in either is returned as
// a *PanicError.
func validate(v any, what string, extra func(any) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanic(p)
		}
	}()
	var wrong []error
	if c := contractOf(reflect.ValueOf(v)); c != nil {
		wrong = note(wrong, c.Validate())
	}
	if extra != nil {
		wrong = note(wrong, extra(reflect.ValueOf(v).Elem().Interface()))
	}
	if len(wrong) == 0 {
		return nil
	}
	return broken(what, wrong)
}

// contractOf finds Validate on the value that p points to. A nil pointer or
// interface is asked only if its method takes one: the others could not be called.
func contractOf(p reflect.Value) contract {
	t := p.Type().Elem()
	if c, ok := p.Interface().(contract); ok && t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		return c
	}
	if !hasContract(t) {
		return nil
	}
	v := p.Elem()
	if (t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer && t.Elem().Implements(contractType)) && v.IsNil() {
		return nil
	}
	c, _ := v.Interface().(contract)
	return c
}

func note(wrong []error, err error) []error {
	if fields, ok := err.(FieldErrors); err == nil || ok && len(fields) == 0 {
		return wrong
	}
	return append(wrong, err)
}

// broken makes the error of a broken contract from what was wrong.
func broken(what string, wrong []error) *ValidationError {
	fields, plain := FieldErrors{}, 0
	for _, err := range wrong {
		if _, ok := err.(FieldErrors); ok {
			plain++
		}
		if found, ok := errors.AsType[FieldErrors](err); ok {
			fields.merge(found)
		}
	}
	if len(fields) == 0 {
		fields = nil
	}
	switch {
	case len(wrong) == 1:
		return &ValidationError{What: what, Fields: fields, Err: wrong[0]}
	case plain == len(wrong):
		return &ValidationError{What: what, Fields: fields, Err: maps.Clone(fields)}
	}
	return &ValidationError{What: what, Fields: fields, Err: bothWrong(wrong)}
}

// merge adds what others say; two messages for one field become one.
func (f FieldErrors) merge(other FieldErrors) {
	for field, message := range other {
		if mine, ok := f[field]; ok && mine != message {
			message = mine + ", " + message
		}
		f[field] = message
	}
}

// bothWrong is what Validate and the validator said, on one line.
type bothWrong []error

func (b bothWrong) Error() string {
	texts := make([]string, len(b))
	for i, err := range b {
		texts[i] = textOf(err)
	}
	return strings.Join(texts, "; ")
}

func (b bothWrong) Unwrap() []error { return b }

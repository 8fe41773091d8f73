package engine

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// A valueWalk looks through a value the way encoding/json will.
type valueWalk struct {
	all    bool // look for everything that is wrong, else for what json.Marshal must not see
	counts bool
	budget int // values that may still come, each of which takes a byte at least
	seen   map[valueVisit]bool
}

// A valueVisit is a pointer, map or slice that the walk is inside of.
type valueVisit struct {
	t   reflect.Type
	at  uintptr
	len int
}

// cycleDepth is where the walk begins to look for cycles: few values are so deep.
const cycleDepth = maxDepth / 2

// walkDepth finds nesting beyond maxDepth, cycles, and values so many that they
// can't be below the limit.
func walkDepth(v any, limit int) *valueFault {
	w := valueWalk{counts: limit > 0, budget: limit}
	return w.value(reflect.ValueOf(v), 0, 0)
}

// walkAll finds the first thing in v that can't be stored.
func walkAll(v any) *valueFault {
	w := valueWalk{all: true}
	return w.value(reflect.ValueOf(v), 0, 0)
}

// value looks at v inside depth arrays and objects, reached through hops
// pointers and interfaces since the innermost of them.
func (w *valueWalk) value(v reflect.Value, depth, hops int) *valueFault {
	if !v.IsValid() {
		return nil
	}
	if k := v.Kind(); k == reflect.Pointer || k == reflect.Interface {
		return w.indirect(v, depth, hops)
	}
	if fault := w.spend(); fault != nil {
		return fault
	}
	m := methodsOf(v.Type())
	if m.lost() && !v.CanAddr() {
		return &valueFault{text: fmt.Sprintf("is a %s by value, where its methods are not used: make it a *%[1]s", v.Type())}
	}
	if m.marshals() {
		return w.custom(v, depth)
	}
	if !w.all && w.harmless(v) {
		return nil
	}
	return w.plain(v, depth)
}

// harmless reports whether the type of v leaves no room for what walkDepth finds.
func (w *valueWalk) harmless(v reflect.Value) bool {
	if v.Kind() <= reflect.Float64 || v.Kind() == reflect.String {
		return true
	}
	traits := traitsOf(v.Type())
	return !traits.deep && !traits.byPtr
}

func (w *valueWalk) spend() *valueFault {
	if !w.counts {
		return nil
	}
	if w.budget--; w.budget < 0 {
		return &valueFault{size: true}
	}
	return nil
}

func (w *valueWalk) indirect(v reflect.Value, depth, hops int) *valueFault {
	if v.IsNil() {
		return nil
	}
	if hops > maxDepth {
		return &valueFault{text: "contains itself" + notStored}
	}
	return w.value(v.Elem(), depth, hops+1)
}

// plain looks at a value that encoding/json encodes by its kind.
func (w *valueWalk) plain(v reflect.Value, depth int) *valueFault {
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return w.container(v, depth+1)
	case reflect.String:
		if w.all && !utf8.ValidString(v.String()) {
			return &valueFault{text: "is a string that is " + notUTF8 + notStored}
		}
		if w.all && v.Type() == numberType && v.String() != "" && !json.Valid([]byte(v.String())) {
			return &valueFault{text: "is a json.Number that is not a number" + notStored}
		}
	case reflect.Float32, reflect.Float64:
		return notFinite(v.Float())
	default:
		if kind, ok := kindJSONLacks(v.Kind()); ok {
			return &valueFault{text: "is " + kind + notStored}
		}
	}
	return nil
}

func notFinite(f float64) *valueFault {
	switch {
	case math.IsNaN(f):
		return &valueFault{text: "is NaN" + notStored}
	case math.IsInf(f, 0):
		return &valueFault{text: "is infinite" + notStored}
	}
	return nil
}

// kindJSONLacks names a kind that JSON has nothing for.
func kindJSONLacks(k reflect.Kind) (name string, ok bool) {
	switch k {
	case reflect.Chan:
		return "a chan", true
	case reflect.Func:
		return "a func", true
	case reflect.Complex64, reflect.Complex128:
		return "a complex number", true
	case reflect.UnsafePointer:
		return "an unsafe pointer", true
	}
	return "", false
}

// container looks into a struct, map, slice or array at that depth.
func (w *valueWalk) container(v reflect.Value, depth int) *valueFault {
	if isByteSlice(v.Type()) {
		return nil
	}
	if depth > maxDepth {
		return &valueFault{text: "is " + tooDeep + notStored}
	}
	if depth > cycleDepth && (v.Kind() == reflect.Map || v.Kind() == reflect.Slice || v.CanAddr()) {
		visit := visitOf(v)
		if w.seen[visit] {
			return &valueFault{text: "contains itself" + notStored}
		}
		if w.seen == nil {
			w.seen = map[valueVisit]bool{}
		}
		w.seen[visit] = true
		defer delete(w.seen, visit)
	}
	switch v.Kind() {
	case reflect.Struct:
		return w.fields(v, depth)
	case reflect.Map:
		return w.entries(v, depth)
	}
	return w.elements(v, depth)
}

func visitOf(v reflect.Value) valueVisit {
	switch v.Kind() {
	case reflect.Map:
		return valueVisit{v.Type(), v.Pointer(), 0}
	case reflect.Slice:
		return valueVisit{v.Type(), v.Pointer(), v.Len()}
	}
	return valueVisit{v.Type(), v.UnsafeAddr(), 0}
}

// isByteSlice reports whether encoding/json writes t as base64.
func isByteSlice(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !methodsOf(t.Elem()).marshals()
}

func (w *valueWalk) fields(v reflect.Value, depth int) *valueFault {
	for _, f := range jsonFields(v.Type()) {
		field, ok := f.at(v)
		if !ok || f.omit && empty(field) {
			continue
		}
		if fault := w.value(field, depth, 0); fault != nil {
			if f.redact {
				fault.hide()
			}
			return fault.within(f.goName)
		}
	}
	return nil
}

// empty reports whether omitempty leaves v out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func (w *valueWalk) elements(v reflect.Value, depth int) *valueFault {
	for i := range v.Len() {
		if fault := w.value(v.Index(i), depth, 0); fault != nil {
			return fault.within("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func (w *valueWalk) entries(v reflect.Value, depth int) *valueFault {
	if w.all && !keepsKeys(v.Type().Key()) {
		return &valueFault{text: fmt.Sprintf("is a map with keys of type %s%s", v.Type().Key(), notStored)}
	}
	for each := v.MapRange(); each.Next(); {
		if w.all {
			if fault := w.key(each.Key()); fault != nil {
				return fault
			}
		}
		if fault := w.value(each.Value(), depth, 0); fault != nil {
			return fault.within(keyStep(each.Key()))
		}
	}
	return nil
}

// keepsKeys reports whether encoding/json writes keys of type t.
func keepsKeys(t reflect.Type) bool {
	return t.Kind() == reflect.String || isInteger(t.Kind()) || t.Implements(textMarshalerType)
}

// keyStep is the step of a path into the entry of a map.
func keyStep(key reflect.Value) string {
	if key.Kind() == reflect.String {
		return "[" + strconv.Quote(cleanText(key.String(), maxPath)) + "]"
	}
	if isInteger(key.Kind()) {
		return fmt.Sprintf("[%v]", key)
	}
	return "[" + key.Type().String() + "]"
}

func (w *valueWalk) key(key reflect.Value) *valueFault {
	if key.Kind() == reflect.String {
		return keyFault(utf8.ValidString(key.String()))
	}
	m, ok := key.Interface().(encoding.TextMarshaler)
	if !ok || key.Kind() == reflect.Pointer && key.IsNil() {
		return nil
	}
	text, fault := call("MarshalText", m.MarshalText)
	if fault != nil {
		return fault
	}
	return keyFault(utf8.Valid(text))
}

func keyFault(valid bool) *valueFault {
	if valid {
		return nil
	}
	return &valueFault{text: "has a map key that is " + notUTF8 + notStored}
}

// custom looks at a value that is encoded by a method of its own.
func (w *valueWalk) custom(v reflect.Value, depth int) *valueFault {
	if !w.all {
		return nil
	}
	secret := len(redactionOf(v.Type())) > 0
	if v.CanAddr() {
		v = v.Addr()
	}
	fault := tryMethod(v.Interface(), depth)
	if fault != nil {
		fault.secret = secret
	}
	return fault
}

// tryMethod calls the method that encoding/json would, and looks at what it gives.
func tryMethod(v any, depth int) *valueFault {
	if j, ok := v.(json.Marshaler); ok {
		raw, fault := call("MarshalJSON", j.MarshalJSON)
		if fault != nil {
			return fault
		}
		return customJSON(raw, depth)
	}
	text, fault := call("MarshalText", v.(encoding.TextMarshaler).MarshalText)
	if fault == nil && !utf8.Valid(text) {
		fault = &valueFault{text: "has a MarshalText that gives text that is " + notUTF8 + notStored}
	}
	return fault
}

func customJSON(raw []byte, depth int) *valueFault {
	inner, problem := surveyJSON(raw)
	switch {
	case !utf8.Valid(raw):
		return &valueFault{text: "has JSON of its own that is " + notUTF8 + notStored}
	case !json.Valid(raw):
		return &valueFault{text: "has JSON of its own that is malformed" + notStored}
	case problem != "":
		return &valueFault{text: "has JSON of its own with " + problem + notStored}
	case depth+inner > maxDepth:
		return &valueFault{text: "is " + tooDeep + notStored}
	}
	return nil
}

// call calls a method of user code.
func call(name string, f func() ([]byte, error)) (out []byte, fault *valueFault) {
	defer func() {
		if p := recover(); p != nil {
			fault = &valueFault{panic: newPanic(p)}
		}
	}()
	out, err := f()
	if err != nil {
		return nil, &valueFault{text: "can't be stored: its " + name + " fails", detail: textOf(err)}
	}
	return out, nil
}

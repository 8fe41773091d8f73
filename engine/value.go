package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// maxDepth is how many arrays and objects may be nested in each other.
const maxDepth = 1000

const (
	notStored   = ", which can't be stored"
	tooDeep     = "nested deeper than 1,000 levels"
	notUTF8     = "not valid UTF-8"
	replacement = `\ufffd` // what encoding/json writes for a byte that is no UTF-8; the character itself it writes as it is
)

// encode gives the stored form of v: what json.Marshal makes of it, or an
// *EncodingError without Node. A pointer and what it points to have the same
// form; given the pointer, no copy of the value is made. What is how messages
// call the value: input, result, payload. A limit of 0 is none.
func encode(v any, what string, limit int) (json.RawMessage, error) {
	raw, fault := marshalValue(v, limit)
	switch {
	case fault != nil && fault.size:
		return nil, oversize(what, "more than "+sizeText(limit, 0), limit)
	case fault != nil:
		return nil, fault.refuse(what)
	case limit > 0 && len(raw) > limit:
		return nil, oversize(what, sizeText(len(raw), limit), limit)
	}
	return raw, nil
}

// marshalValue is json.Marshal without its silent changes and with a bound on
// nesting; types that can't need the extra looks don't pay for them.
func marshalValue(v any, limit int) (json.RawMessage, *valueFault) {
	if v == nil {
		return json.RawMessage("null"), nil
	}
	traits := traitsOf(reflect.TypeOf(v))
	if traits.byPtr && reflect.TypeOf(v).Kind() != reflect.Pointer {
		v = addressable(v)
	}
	if traits.deep || traits.byPtr { // json.Marshal would overflow the stack, which ends the process, or pass over methods
		if fault := walkDepth(v, limit); fault != nil {
			return nil, fault
		}
	}
	raw, fault := marshal(v)
	if fault == nil && limit > 0 && len(raw) > limit {
		return raw, nil
	}
	if fault == nil && (traits.custom || traits.any) {
		fault = foreignFault(raw)
	}
	if fault == nil && !bytes.Contains(raw, []byte(replacement)) {
		return raw, nil
	}
	if located := walkAll(v); located != nil {
		if fault != nil {
			located.panic = fault.panic
		}
		return nil, located
	}
	if fault != nil {
		fault.secret = len(redactionOf(reflect.TypeOf(v))) > 0
	}
	return raw, fault
}

// foreignFault looks at what methods of the value's own have written.
func foreignFault(raw []byte) *valueFault {
	if _, problem := surveyJSON(raw); problem != "" {
		return &valueFault{text: "has " + problem + notStored}
	}
	if !utf8.Valid(raw) {
		return &valueFault{text: "has text that is " + notUTF8 + notStored}
	}
	return nil
}

// addressable is a pointer to a copy of v, so that encoding/json finds the
// methods of pointers in it.
func addressable(v any) any {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

func marshal(v any) (raw json.RawMessage, fault *valueFault) {
	defer func() {
		if p := recover(); p != nil {
			raw, fault = nil, &valueFault{panic: newPanic(p)}
		}
	}()
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, &valueFault{text: "can't be stored", detail: textOf(err)}
	}
	return raw, nil
}

// A valueFault is why a value can't be stored, and where in it.
type valueFault struct {
	path   []string // the innermost first
	text   string   // goes after the name of the place
	detail string   // what a method of the value said
	panic  *PanicError
	secret bool // in a redacted field: what its methods say is not shown
	size   bool // it is larger than the limit, by how much is unknown
}

// within notes that the fault is in a field or element of what is walked now.
func (f *valueFault) within(step string) *valueFault {
	f.path = append(f.path, step)
	return f
}

// hide cuts the path at a redacted field: what is inside it is nobody's business.
func (f *valueFault) hide() *valueFault {
	f.path, f.secret = f.path[:0], true
	return f
}

// maxPath bounds a path in a message, maxDeepPath one of many steps, which is
// that of a cycle or of nesting without end.
const (
	maxPath     = 200
	maxDeepPath = 40
	manySteps   = 20
)

func (f *valueFault) field() string {
	limit := maxPath
	if len(f.path) > manySteps {
		limit = maxDeepPath
	}
	var path string
	for i := len(f.path) - 1; i >= 0; i-- {
		if len(path) > limit {
			return path + "…"
		}
		path = joinPath(path, f.path[i])
	}
	return path
}

// refuse makes the error of the fault. What a method said is left out where it
// could show a redacted value.
func (f *valueFault) refuse(what string) *EncodingError {
	field, place := f.field(), what
	if field != "" {
		place += " field " + field
	}
	if f.panic != nil {
		panicked := f.panic.unless(f.secret)
		return &EncodingError{Field: field, Reason: panicked.Error() + ", while " + place + " was encoded", panic: panicked}
	}
	reason := place + " " + f.text
	if f.detail != "" && !f.secret {
		reason += ": " + f.detail
	}
	return &EncodingError{Field: field, Reason: reason}
}

// unless is e, without its value if that is secret.
func (e *PanicError) unless(secret bool) *PanicError {
	if !secret {
		return e
	}
	return &PanicError{Value: redactedMark, Frames: e.Frames}
}

// joinPath puts a step such as Price or [2] after a path.
func joinPath(path, step string) string {
	if path == "" || strings.HasPrefix(step, "[") || strings.HasPrefix(step, "{") {
		return path + step
	}
	return path + "." + step
}

// oversize refuses a value of that size.
func oversize(what, size string, limit int) *EncodingError {
	return &EncodingError{Reason: fmt.Sprintf(
		"%s is %s, the limit is %s: store it elsewhere and return its id, or raise Config.Limits.Value",
		what, size, sizeText(limit, 0))}
}

// sizeText reads 3.2 MiB; it is exact in bytes where it would otherwise read
// like the limit that it is over.
func sizeText(n, limit int) string {
	text := roundSize(n)
	if limit > 0 && text == roundSize(limit) {
		return fmt.Sprintf("%d bytes (%d more)", n, n-limit)
	}
	return text
}

func roundSize(n int) string {
	size, units := float64(n), []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	unit := ""
	for _, unit = range units {
		if size /= 1024; size < 1024 {
			break
		}
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + unit
}

// decode reads a stored form into what into points to, a zero value. Numbers
// inside an any become json.Number; unknown fields are ignored, of a doubled
// one the last counts, data after the value is refused. The error is an
// *EncodingError without Node that quotes no value of a redacted field.
func decode(raw json.RawMessage, into any) error {
	err := unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if problem := malformed(raw); problem != "" {
		return &EncodingError{Reason: "the value does not decode: " + problem}
	}
	return findMisfit(raw, reflect.TypeOf(into), err).refuse()
}

// unmarshal is json.Unmarshal that keeps the digits of numbers in an any. A
// panic in user code is its error.
func unmarshal(raw []byte, into any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanic(p)
		}
	}()
	if !traitsOf(reflect.TypeOf(into)).any {
		return json.Unmarshal(raw, into)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the value")
	}
	return nil
}

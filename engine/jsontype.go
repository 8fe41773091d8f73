package engine

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// A jsonField is a field of a struct as encoding/json sees it: embedded structs
// are flattened, hidden fields left out.
type jsonField struct {
	name   string // in JSON
	goName string
	index  []int
	typ    reflect.Type
	tagged bool // the name comes from a tag
	omit   bool // omitempty
	quoted bool // the value is written as a string
	redact bool
	sealed bool // behind an embedded pointer to an unexported struct, which can't be decoded
}

var jsonFieldCache sync.Map // reflect.Type to []jsonField

// jsonFields lists the fields of a struct type, sorted by their names in JSON.
func jsonFields(t reflect.Type) []jsonField {
	if known, ok := jsonFieldCache.Load(t); ok {
		return known.([]jsonField)
	}
	found := dominant(collectFields(t, jsonField{}, nil))
	jsonFieldCache.Store(t, found)
	return found
}

// collectFields lists all fields of t and of the structs it embeds; up is the
// embedded field that led to t, path the structs on the way.
func collectFields(t reflect.Type, up jsonField, path []reflect.Type) []jsonField {
	if slices.Contains(path, t) {
		return nil
	}
	path = append(slices.Clip(path), t)
	var found []jsonField
	for i := range t.NumField() {
		f, ok := readField(t.Field(i), up, i)
		if !ok {
			continue
		}
		inner := direct(f.typ)
		if t.Field(i).Anonymous && !f.tagged && inner.Kind() == reflect.Struct {
			f.sealed = f.sealed || f.typ.Kind() == reflect.Pointer && !t.Field(i).IsExported()
			found = append(found, collectFields(inner, f, path)...)
			continue
		}
		found = append(found, f)
	}
	return found
}

// readField reads one field and its tags; ok is false if JSON leaves it out.
func readField(sf reflect.StructField, up jsonField, i int) (f jsonField, ok bool) {
	tag := sf.Tag.Get("json")
	if tag == "-" || !visible(sf) {
		return jsonField{}, false
	}
	name, rest, _ := strings.Cut(tag, ",")
	options := strings.Split(rest, ",")
	f = jsonField{
		name:   name,
		goName: sf.Name,
		index:  append(slices.Clip(up.index), i),
		typ:    sf.Type,
		tagged: validName(name),
		omit:   slices.Contains(options, "omitempty"),
		quoted: slices.Contains(options, "string") && quotable(direct(sf.Type).Kind()),
		redact: up.redact || slices.Contains(strings.Split(sf.Tag.Get("reactor"), ","), "redact"),
		sealed: up.sealed,
	}
	if !f.tagged {
		f.name = sf.Name
	}
	return f, true
}

func visible(sf reflect.StructField) bool {
	if sf.Anonymous {
		t := sf.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return sf.IsExported() || t.Kind() == reflect.Struct
	}
	return sf.IsExported()
}

// direct is what an unnamed pointer points to, and any other type itself.
func direct(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		return t.Elem()
	}
	return t
}

// validName reports whether encoding/json takes a name from a tag.
func validName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return name != ""
}

func quotable(k reflect.Kind) bool {
	return k == reflect.Bool || k == reflect.String || isInteger(k) || isFloat(k)
}

func isInteger(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }
func isFloat(k reflect.Kind) bool   { return k == reflect.Float32 || k == reflect.Float64 }

// dominant leaves one field for each name: the shallowest, a tagged one first;
// none if that does not decide.
func dominant(fields []jsonField) []jsonField {
	slices.SortStableFunc(fields, func(a, b jsonField) int {
		return cmp.Or(strings.Compare(a.name, b.name), rank(a)-rank(b))
	})
	kept := fields[:0:0]
	for i, f := range fields {
		first := i == 0 || fields[i-1].name != f.name
		tie := i+1 < len(fields) && fields[i+1].name == f.name && rank(fields[i+1]) == rank(f)
		if first && !tie {
			kept = append(kept, f)
		}
	}
	return kept
}

// rank is lower for a field that hides the other ones of its name.
func rank(f jsonField) int {
	if f.tagged {
		return 2 * len(f.index)
	}
	return 2*len(f.index) + 1
}

// at is the field's value in v; ok is false behind a nil embedded pointer.
func (f jsonField) at(v reflect.Value) (field reflect.Value, ok bool) {
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType            = reflect.TypeFor[time.Time]()
	numberType          = reflect.TypeFor[json.Number]()
)

// jsonMethods say which methods encoding/json finds on a type.
type jsonMethods struct {
	json, text       bool // MarshalJSON, MarshalText, on the value
	ptrJSON, ptrText bool // the same on the value or its pointer
	unJSON, unText   bool // UnmarshalJSON, UnmarshalText, on the pointer
}

var jsonMethodCache sync.Map // reflect.Type to jsonMethods

func methodsOf(t reflect.Type) jsonMethods {
	if t.Kind() == reflect.Interface || t.PkgPath() == "" && t.Kind() != reflect.Struct && t.Kind() != reflect.Pointer {
		return jsonMethods{} // of an interface the value counts; the others have no methods
	}
	if known, ok := jsonMethodCache.Load(t); ok {
		return known.(jsonMethods)
	}
	p := reflect.PointerTo(t)
	m := jsonMethods{
		json: t.Implements(marshalerType), ptrJSON: p.Implements(marshalerType), unJSON: p.Implements(unmarshalerType),
		text: t.Implements(textMarshalerType), ptrText: p.Implements(textMarshalerType), unText: p.Implements(textUnmarshalerType),
	}
	if t.Kind() == reflect.Pointer { // no methods of its own on a pointer to a pointer
		m.ptrJSON, m.ptrText = m.json, m.text
	}
	jsonMethodCache.Store(t, m)
	return m
}

// marshals reports whether t is encoded by a method of its own, wherever it is.
func (m jsonMethods) marshals() bool { return m.ptrJSON || m.ptrText }

// lost reports whether encoding/json passes over the methods of a value that it
// can't take the address of, such as the element of a map.
func (m jsonMethods) lost() bool { return m.ptrJSON && !m.json || m.ptrText && !m.text && !m.json }

// writesText reports whether the methods give a JSON string.
func (m jsonMethods) writesText() bool { return m.ptrText && !m.ptrJSON }

// jsonTraits say how much care a type needs; they hold for all it can reach.
type jsonTraits struct {
	deep   bool // has no bound of its own on nesting: recursive, or any
	any    bool // has an interface in it
	custom bool // MarshalJSON writes part of it
	byPtr  bool // a method that only its pointer has writes part of it
}

var jsonTraitCache sync.Map // reflect.Type to jsonTraits

func traitsOf(t reflect.Type) jsonTraits {
	if known, ok := jsonTraitCache.Load(t); ok {
		return known.(jsonTraits)
	}
	var found jsonTraits
	found.add(t, map[reflect.Type]bool{})
	jsonTraitCache.Store(t, found)
	return found
}

// add looks at t; open has the types on the way to it as true, those looked at
// before as false.
func (j *jsonTraits) add(t reflect.Type, open map[reflect.Type]bool) {
	if on, known := open[t]; known {
		j.deep = j.deep || on
		return
	}
	open[t] = true
	defer func() { open[t] = false }()

	m := methodsOf(t)
	if t.Kind() != reflect.Pointer && t != timeType {
		j.custom = j.custom || m.ptrJSON
		j.byPtr = j.byPtr || m.lost()
		if m.ptrJSON && m.unJSON {
			return
		}
	}
	switch t.Kind() {
	case reflect.Interface:
		j.deep, j.any = true, true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		j.add(t.Elem(), open)
	case reflect.Struct:
		for _, f := range jsonFields(t) {
			j.add(f.typ, open)
		}
	}
}

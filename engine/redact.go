package engine

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// redactedMark stands where a redacted value would.
const redactedMark = "[REDACTED]"

// minSecret is how long a text must be to be looked for in other texts; shorter
// ones turn up by chance.
const minSecret = 4

// A redaction is the set of places in some JSON whose values are not shown. It
// is derived from a type and works without it, so it can be stored. A path has
// steps: a name, [] for each element of a list, {} for each value of a map; a
// name has a backslash before characters that mean something here. "" is the
// whole value. Of a recursive type, a>b says: in the place a, all of b again.
type redaction []string

// apply replaces the values of all places by a mark; the rest of raw stays byte
// for byte. Where raw is not shaped as the paths expect it is replaced too, as a
// whole: nothing is known about what is in there.
func (r redaction) apply(raw json.RawMessage) json.RawMessage {
	if len(r) == 0 || len(raw) == 0 {
		return raw
	}
	mark := []byte(strconv.Quote(redactedMark))
	spans, ok := r.spans(raw)
	if !ok {
		return mark
	}
	out, done := make([]byte, 0, len(raw)), 0
	for _, s := range spans {
		out = append(append(out, raw[done:s.from]...), mark...)
		done = s.to
	}
	return append(out, raw[done:]...)
}

// hides reports whether a field at the top is redacted or has something in it
// that is.
func (r redaction) hides(field string) bool {
	if len(r) == 0 {
		return false
	}
	rules := r.rules()
	return rules.hide || rules.named(field) != nil
}

// secrets are the texts in redacted places that must not turn up elsewhere:
// strings and numbers of at least minSecret bytes, at any depth, strings also in
// the spellings that quoting gives them.
func (r redaction) secrets(raw json.RawMessage) []string {
	if len(r) == 0 {
		return nil
	}
	spans, ok := r.spans(raw)
	if !ok {
		spans = []jsonSpan{{0, len(raw)}}
	}
	var found []string
	for _, s := range spans {
		found = append(found, scalars(raw[s.from:s.to])...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// scalars lists the strings and numbers in raw, but for the keys of objects.
func scalars(raw []byte) []string {
	var found []string
	c := jsonCursor{raw: raw}
	for b := c.peek(); b != 0; b = c.peek() {
		from := c.pos
		switch {
		case b == '"':
			c.text()
			if quoted := raw[from:c.pos]; c.peek() != ':' {
				found = append(found, spellings(unquoteJSON(quoted))...)
			}
		case b == '-' || b >= '0' && b <= '9':
			c.word()
			if number := string(raw[from:c.pos]); len(number) >= minSecret {
				found = append(found, number)
			}
		default:
			c.pos++
		}
	}
	return found
}

// spellings are the forms in which a string turns up in the texts of errors.
func spellings(text string) []string {
	if inner := unquoteJSON([]byte(text)); inner != "" && json.Valid([]byte(text)) {
		text = inner // a field with the option string
	}
	if len(text) < minSecret {
		return nil
	}
	inJSON, _ := json.Marshal(text)
	inGo, inASCII := strconv.Quote(text), strconv.QuoteToASCII(text)
	forms := []string{
		text, inGo[1 : len(inGo)-1], inASCII[1 : len(inASCII)-1], string(inJSON[1 : len(inJSON)-1]),
		url.QueryEscape(text), url.PathEscape(text),
	}
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil && len(plain) >= minSecret && utf8.Valid(plain) {
		forms = append(forms, string(plain)) // a []byte
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// scrub replaces each occurrence of a secret in text by a mark. Where
// occurrences overlap, all that any of them covers goes.
func scrub(text string, secrets []string) string {
	var spans []jsonSpan
	for _, secret := range secrets {
		spans = append(spans, occurrences(text, secret)...)
	}
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b jsonSpan) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out strings.Builder
	done, covered := 0, 0
	for _, s := range spans {
		if s.from >= covered {
			out.WriteString(text[done:s.from] + redactedMark)
			covered = s.to
		}
		covered = max(covered, s.to)
		done = covered
	}
	out.WriteString(text[done:])
	return out.String()
}

func occurrences(text, secret string) []jsonSpan {
	var found []jsonSpan
	for from := 0; secret != ""; {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			break
		}
		from += i
		found = append(found, jsonSpan{from, from + len(secret)})
		from++
	}
	return found
}

var redactionCache sync.Map // reflect.Type to redaction

// redactionOf lists the fields of t that are tagged reactor:"redact", at any
// depth. A type with JSON of its own that has such a field is redacted whole.
func redactionOf(t reflect.Type) redaction {
	if t == nil {
		return nil
	}
	if known, ok := redactionCache.Load(t); ok {
		return known.(redaction)
	}
	s := secretSearch{at: map[reflect.Type]string{}}
	if s.look(t, ""); s.steps > maxSecretSteps {
		s = secretSearch{at: map[reflect.Type]string{}, once: true}
		s.look(t, "")
	}
	found := slices.Clip(s.found)
	redactionCache.Store(t, found)
	return found
}

// hasSecret reports whether t has a redacted field, whatever its methods do.
func hasSecret(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasSecret(t.Elem(), seen)
	case reflect.Struct:
		return slices.ContainsFunc(jsonFields(t), func(f jsonField) bool { return f.redact || hasSecret(f.typ, seen) })
	}
	return false
}

// maxSecretSteps is how large a type may be to be spelled out.
const maxSecretSteps = 10_000

// A secretSearch goes through a type and notes the paths of redacted fields.
type secretSearch struct {
	found redaction
	at    map[reflect.Type]string // where types are that are being looked at
	once  bool                    // refer to a type also after it was looked at
	steps int
}

func (s *secretSearch) look(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	if s.steps++; s.steps > maxSecretSteps && !s.once || !hasSecret(t, map[reflect.Type]bool{}) {
		return
	}
	if methodsOf(t).marshals() {
		s.found = append(s.found, path)
		return
	}
	if first, known := s.at[t]; known {
		s.found = append(s.found, path+">"+first)
		return
	}
	s.at[t] = path
	s.parts(t, path)
	if !s.once {
		delete(s.at, t)
	}
}

func (s *secretSearch) parts(t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		s.look(t.Elem(), path+"[]")
	case reflect.Map:
		s.look(t.Elem(), path+"{}")
	case reflect.Pointer:
		s.look(t.Elem(), path)
	case reflect.Struct:
		for _, f := range jsonFields(t) {
			inner := joinPath(path, escapeName(f.name))
			if f.redact {
				s.found = append(s.found, inner)
			} else {
				s.look(f.typ, inner)
			}
		}
	}
}

const meaningful = `\.[]{}>`

// escapeName marks the characters of a name that mean something in a path.
func escapeName(name string) string {
	var out strings.Builder
	for _, c := range name {
		if strings.ContainsRune(meaningful, c) {
			out.WriteByte('\\')
		}
		out.WriteRune(c)
	}
	return out.String()
}

package engine

import (
	"encoding/json"
	"strings"
)

// A redactRule is one place in JSON: redacted itself, or on the way to others.
// Its parts are "[]" for the elements of a list, "{}" for the values of a map,
// and names with a dot before them.
type redactRule struct {
	hide  bool
	parts map[string]*redactRule
}

// rules joins the paths into one graph, which has cycles for recursive types.
func (r redaction) rules() *redactRule {
	root := &redactRule{}
	var again [][2][]string
	for _, path := range r {
		steps, first, refers := splitPath(path)
		if refers {
			again = append(again, [2][]string{steps, first})
			continue
		}
		root.find(steps).hide = true
	}
	for _, a := range again {
		if last := len(a[0]) - 1; last >= 0 {
			root.find(a[0][:last]).set(a[0][last], root.find(a[1]))
		}
	}
	return root
}

// find is the rule at the end of the steps; what is missing is made.
func (r *redactRule) find(steps []string) *redactRule {
	for _, step := range steps {
		next := r.parts[step]
		if next == nil {
			next = &redactRule{}
			r.set(step, next)
		}
		r = next
	}
	return r
}

func (r *redactRule) set(step string, part *redactRule) {
	if r.parts == nil {
		r.parts = map[string]*redactRule{}
	}
	r.parts[step] = part
}

// splitPath gives the steps of a path, and those of the path it refers to.
func splitPath(path string) (steps, first []string, refers bool) {
	name := ""
	flush := func() {
		if name != "" {
			steps, name = append(steps, "."+name), ""
		}
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			if i++; i < len(path) {
				name += path[i : i+1]
			}
		case '.':
			flush()
		case '[', '{':
			flush()
			steps = append(steps, map[byte]string{'[': "[]", '{': "{}"}[path[i]])
		case ']', '}':
		case '>':
			flush()
			first, _, _ = splitPath(path[i+1:])
			return steps, first, true
		default:
			name += path[i : i+1]
		}
	}
	flush()
	return steps, nil, false
}

// named is the rule for a member of an object. Names are compared as decoders
// do, who take CARD for card.
func (r *redactRule) named(key string) *redactRule {
	if part := r.parts["."+key]; part != nil {
		return part
	}
	for step, part := range r.parts {
		if strings.EqualFold(step, "."+key) {
			return part
		}
	}
	return r.parts["{}"]
}

// splits reports whether the rule is about the parts of a value that begins so.
func (r *redactRule) splits(first byte) bool {
	if first == '[' {
		return r.parts["[]"] != nil
	}
	_, list := r.parts["[]"]
	return first == '{' && !list
}

// A jsonSpan is a part of some JSON, or of another text.
type jsonSpan struct{ from, to int }

// spans lists where the redacted values are in raw; ok is false if raw is not
// well-formed.
func (r redaction) spans(raw json.RawMessage) (found []jsonSpan, ok bool) {
	s := spanSearch{cursor: jsonCursor{raw: raw}}
	s.value(r.rules(), 0)
	end := s.cursor.peek() == 0 && s.cursor.pos == len(raw)
	return s.found, end && !s.cursor.broken
}

type spanSearch struct {
	cursor jsonCursor
	found  []jsonSpan
}

func (s *spanSearch) value(r *redactRule, depth int) {
	first := s.cursor.peek()
	from := s.cursor.pos
	switch {
	case depth > maxDepth:
		s.cursor.broken = true
	case r == nil, !r.hide && (len(r.parts) == 0 || first == 'n'):
		s.cursor.skip()
	case r.hide || !r.splits(first):
		s.cursor.skip()
		s.found = append(s.found, jsonSpan{from, s.cursor.pos})
	case first == '[':
		s.cursor.elements(func(int) { s.value(r.parts["[]"], depth+1) })
	default:
		s.cursor.members(func(key string) { s.value(r.named(key), depth+1) })
	}
}

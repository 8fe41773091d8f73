package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkJSON refuses JSON from outside that is malformed, nested too deep, not
// valid UTF-8, or longer than the limit (0 is none), and says where. Its work
// grows with the limit at most.
func checkJSON(raw []byte, limit int) error {
	if limit > 0 && len(raw) > limit {
		return &EncodingError{Reason: fmt.Sprintf("JSON is %s, the limit is %s", sizeText(len(raw), limit), sizeText(limit, 0))}
	}
	if problem := malformed(raw); problem != "" {
		return &EncodingError{Reason: problem}
	}
	return nil
}

// malformed says what is wrong with JSON and where, "" if nothing is.
func malformed(raw []byte) string {
	switch {
	case len(bytes.TrimLeft(raw, " \t\r\n")) == 0:
		return "JSON is empty"
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return "JSON begins with a byte order mark: leave it out"
	}
	s := jsonSurvey{raw: raw}
	s.run()
	if s.problem == "" && !utf8.Valid(raw) {
		s.problem, s.pos = "bytes that are not valid UTF-8", invalidUTF8(raw)
	}
	if s.problem != "" {
		return "JSON has " + s.problem + " at " + position(raw, s.pos)
	}
	if json.Valid(raw) {
		return ""
	}
	return syntaxProblem(raw)
}

func syntaxProblem(raw []byte) string {
	err := json.Unmarshal(raw, new(json.RawMessage))
	wrong, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return "JSON is malformed: " + textOf(err)
	}
	at := int(wrong.Offset) - 1
	if strings.HasPrefix(wrong.Error(), "unexpected end") {
		at = len(raw)
	}
	return "JSON is malformed at " + position(raw, at) + ": " + wrong.Error()
}

// invalidUTF8 is where the first byte is that is no UTF-8.
func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(raw)
}

// position names the byte at pos, which may be the end, as people count.
func position(raw []byte, pos int) string {
	pos = max(0, min(pos, len(raw)))
	before := raw[:pos]
	line := bytes.Count(before, []byte("\n")) + 1
	column := pos - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d", line, column)
}

// A jsonSurvey passes once over JSON, which may be malformed, and looks for what
// a decoder would not report.
type jsonSurvey struct {
	raw     []byte
	depth   int // deepest nesting so far
	problem string
	pos     int // of the problem
}

// surveyJSON gives the depth of JSON and what is wrong with it that a decoder
// would not report, "" if nothing is.
func surveyJSON(raw []byte) (depth int, problem string) {
	s := jsonSurvey{raw: raw}
	s.run()
	return s.depth, s.problem
}

func (s *jsonSurvey) run() {
	open := 0
	for i := 0; i < len(s.raw) && s.problem == ""; i++ {
		switch s.raw[i] {
		case '"':
			i = s.text(i)
		case '[', '{':
			open++
			s.depth = max(s.depth, open)
			if open > maxDepth {
				s.problem, s.pos = "nesting deeper than 1,000 levels", i
			}
		case ']', '}':
			open--
		}
	}
}

// text passes over the string that begins at i and gives where it ends.
func (s *jsonSurvey) text(i int) int {
	for i++; i < len(s.raw) && s.raw[i] != '"' && s.problem == ""; i++ {
		if s.raw[i] != '\\' {
			continue
		}
		if i++; i < len(s.raw) && s.raw[i] == 'u' {
			i = s.escape(i)
		}
	}
	return i
}

// escape passes over the escape whose u is at i. Half of a surrogate pair is a
// problem: a decoder makes another character of it.
func (s *jsonSurvey) escape(i int) int {
	first, ok := hex4(s.raw, i+1)
	if !ok || first < 0xd800 || first > 0xdfff {
		return i
	}
	if first < 0xdc00 && bytes.HasPrefix(s.raw[i+5:], []byte(`\u`)) {
		if second, ok := hex4(s.raw, i+7); ok && second >= 0xdc00 && second <= 0xdfff {
			return i + 10
		}
	}
	s.problem, s.pos = "half of a surrogate pair", i-1
	return i
}

func hex4(raw []byte, i int) (n uint64, ok bool) {
	if i+4 > len(raw) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[i:i+4]), 16, 32)
	return n, err == nil
}

// canonical is a text that two pieces of JSON share if they say the same:
// white space, the order of keys and the spelling of strings don't count, of a
// doubled key the last one does, and numbers are compared by their text.
func canonical(raw json.RawMessage) (string, error) {
	var v any
	if err := decode(raw, &v); err != nil {
		return "", err
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// A jsonCursor reads JSON value by value. Once it has met something malformed it
// is broken and reads nothing more.
type jsonCursor struct {
	raw    []byte
	pos    int
	broken bool
}

// peek is the first byte of the next token, 0 at the end.
func (c *jsonCursor) peek() byte {
	for !c.broken && c.pos < len(c.raw) {
		switch b := c.raw[c.pos]; b {
		case ' ', '\t', '\r', '\n':
			c.pos++
		default:
			return b
		}
	}
	return 0
}

func (c *jsonCursor) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.pos++
	return true
}

// expect breaks the cursor if the next token is not b.
func (c *jsonCursor) expect(b byte) {
	if !c.take(b) {
		c.broken = true
	}
}

// members calls f for each member of the object that comes next; f reads the value.
func (c *jsonCursor) members(f func(key string)) {
	c.expect('{')
	if c.take('}') {
		return
	}
	for !c.broken {
		key := unquoteJSON(c.skip())
		c.expect(':')
		if f(key); c.take('}') {
			return
		}
		c.expect(',')
	}
}

// elements calls f for each element of the list that comes next; f reads it.
func (c *jsonCursor) elements(f func(i int)) {
	c.expect('[')
	if c.take(']') {
		return
	}
	for i := 0; !c.broken; i++ {
		if f(i); c.take(']') {
			return
		}
		c.expect(',')
	}
}

// skip reads the next value and gives its text.
func (c *jsonCursor) skip() []byte {
	c.peek()
	start, open := c.pos, 0
	for !c.broken && c.pos < len(c.raw) {
		switch b := c.raw[c.pos]; b {
		case '"':
			c.text()
		case '[', '{':
			open++
			c.pos++
		case ']', '}':
			open--
			c.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			c.broken = open == 0
			c.pos++
			continue
		default:
			c.word()
		}
		if open <= 0 {
			break
		}
	}
	if open != 0 || start == c.pos {
		c.broken = true
	}
	return c.raw[start:c.pos]
}

// text passes over a string.
func (c *jsonCursor) text() {
	for i := c.pos + 1; i < len(c.raw); i++ {
		switch c.raw[i] {
		case '\\':
			i++
		case '"':
			c.pos = i + 1
			return
		}
	}
	c.broken = true
}

// word passes over a number or a literal.
func (c *jsonCursor) word() {
	for c.pos < len(c.raw) && strings.IndexByte(" \t\r\n,:[]{}\"", c.raw[c.pos]) < 0 {
		c.pos++
	}
}

// unquoteJSON is the text of a JSON string, "" if it is none.
func unquoteJSON(quoted []byte) string {
	if len(quoted) < 2 || quoted[0] != '"' {
		return ""
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return ""
	}
	return text
}

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// spec: C-839
func TestJSONFromOutside(t *testing.T) {
	t.Parallel()
	big := `"` + strings.Repeat("x", 1<<20) + `"`
	for _, c := range []struct{ raw, want string }{
		{`{"a":[1,2.50,1e400,"ü\ud83d\ude00"],"a":null}`, ""},
		{" null\n", ""},
		{`"text"`, ""},
		{strings.Repeat("[", 1000) + strings.Repeat("]", 1000), ""},
		{strings.Repeat("[", 100_000), "JSON has nesting deeper than 1,000 levels at line 1, column 1001"},
		{strings.Repeat("{\"a\":\n", 100_000), "JSON has nesting deeper than 1,000 levels at line 1001, column 1"},
		{big, "JSON is 1048578 bytes (2 more), the limit is 1 MiB"},
		{big + big + big, "JSON is 3 MiB, the limit is 1 MiB"},
		{"", "JSON is empty"},
		{" \t\r\n", "JSON is empty"},
		{"\xef\xbb\xbf{}", "JSON begins with a byte order mark: leave it out"},
		{"{\n \"a\": \"\xff\"}", "JSON has bytes that are not valid UTF-8 at line 2, column 8"},
		{`["\ud800"]`, "JSON has half of a surrogate pair at line 1, column 3"},
		{`["\udc00\ud800"]`, "JSON has half of a surrogate pair at line 1, column 3"},
		{`["\ud800\u0041"]`, "JSON has half of a surrogate pair at line 1, column 3"},
		{`["\\ud800", "\\"]`, ""},
		{"{\"a\":1,\n\"b\" 2}", "JSON is malformed at line 2, column 5: invalid character '2' after object key"},
		{`{"a":1} x`, "JSON is malformed at line 1, column 9: invalid character 'x' after top-level value"},
		{`{"a":1}{}`, "JSON is malformed at line 1, column 8: invalid character '{' after top-level value"},
		{`{"a":`, "JSON is malformed at line 1, column 6: unexpected end of JSON input"},
		{`]]]`, "JSON is malformed at line 1, column 1: invalid character ']' looking for beginning of value"},
		{`{'a':1}`, `JSON is malformed at line 1, column 2: invalid character '\'' looking for beginning of object key string`},
		{`NaN`, "JSON is malformed at line 1, column 1: invalid character 'N' looking for beginning of value"},
		{`"\u12"`, `JSON is malformed at line 1, column 6: invalid character '"' in \u hexadecimal character escape`},
	} {
		err := checkJSON([]byte(c.raw), 1<<20)
		if textOf(err) != c.want {
			t.Errorf("%.30q:\n got %v\nwant %s", c.raw, err, c.want)
		}
		if _, ok := errors.AsType[*EncodingError](err); ok != (c.want != "") {
			t.Errorf("%.30q: %#v", c.raw, err)
		}
	}
	if err := checkJSON([]byte(big), 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// What is refused for its depth is not read to its end.
//
// spec: C-839
func TestDeepJSONIsLeftEarly(t *testing.T) {
	t.Parallel()
	s := jsonSurvey{raw: bytes.Repeat([]byte("["), 100_000)}
	if s.run(); s.depth != 1001 || s.pos != 1000 {
		t.Errorf("depth %d at %d", s.depth, s.pos)
	}
}

// spec: C-815
func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[1,2]}`, " {\"b\": [1, 2],\n\"a\":1} ", true},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`"\u0041<"`, `"A\u003c"`, true},
		{`{"a":{"x":null}}`, `{"a":{}}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`1.0`, `1`, false},
		{`1e2`, `100`, false},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`[]`, `{}`, false},
		{`null`, `""`, false},
		{`0`, `false`, false},
	} {
		a, errA := canonical(json.RawMessage(c.a))
		b, errB := canonical(json.RawMessage(c.b))
		if errA != nil || errB != nil || (a == b) != c.same {
			t.Errorf("%s and %s: %s, %v and %s, %v", c.a, c.b, a, errA, b, errB)
		}
	}
	if _, err := canonical(json.RawMessage(`{"a":1} 2`)); err == nil {
		t.Error("malformed JSON has no normal form")
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00",{}]}`, `[[[`, `"\ud800"`, `{"a":}`, `tru`, "\xff", ` 1 `, `[,]`, `{"a" 1}`, `:`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := checkJSON(raw, 0)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q was accepted", raw)
		}
		c := jsonCursor{raw: raw}
		if c.skip(); c.broken || c.peek() != 0 || c.pos != len(raw) {
			t.Fatalf("%q was read to %d", raw, c.pos)
		}
		var v any
		if err := decode(raw, &v); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if _, err := encode(v, "result", 0); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type (
	Purse struct {
		Amount   json.Number
		Currency string `json:"currency"`
	}
	base struct {
		ID   int64
		Name string `json:"name,omitempty"`
	}
	inner  struct{ Depth int }
	wallet struct {
		base
		*Purse
		Note  *string
		Zero  *int `json:",omitempty"`
		Tags  []string
		Props map[string]any
		Lower int `json:"key"`
		Upper int `json:"KEY"`
		Any   any
	}
	// filler replaces what is left out, as a type of the user's may.
	filler struct{ N int }
)

func (f *filler) UnmarshalJSON(raw []byte) error {
	type plain filler
	p := plain{N: 5}
	err := json.Unmarshal(raw, &p)
	*f = filler(p)
	return err
}

func ptr[T any](v T) *T { return &v }

// trip encodes v and decodes it into a new value of its type.
func trip(t *testing.T, v any) any {
	t.Helper()
	raw, err := encode(v, "result", 1<<20)
	if err != nil {
		t.Fatalf("encode %#v: %v", v, err)
	}
	into := reflect.New(reflect.TypeOf(v))
	if err := decode(raw, into.Interface()); err != nil {
		t.Fatalf("decode %s into %T: %v", raw, v, err)
	}
	again, err := encode(into.Elem().Interface(), "result", 1<<20)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("encoded again: %s, %v; was %s", again, err, raw)
	}
	return into.Elem().Interface()
}

var sameValues = cmp.Options{
	cmp.AllowUnexported(wallet{}),
	cmp.Comparer(func(a, b time.Time) bool { return a.Format(time.RFC3339Nano) == b.Format(time.RFC3339Nano) }),
	cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b big.Rat) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// spec: C-21, C-93, C-94, C-96, C-826, C-827, C-828, C-829
func TestValuesSurviveEncoding(t *testing.T) {
	t.Parallel()
	all256 := make([]byte, 256)
	for i := range all256 {
		all256[i] = byte(i)
	}
	zone := time.FixedZone("", -(3*3600 + 1800))
	for name, v := range map[string]any{
		"time":            time.Date(2026, 2, 28, 23, 59, 59, 123456789, zone),
		"zero time":       time.Time{},
		"last year":       time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		"duration":        time.Duration(math.MinInt64),
		"big int":         new(big.Int).Lsh(big.NewInt(-7), 200),
		"big int in list": []big.Int{*big.NewInt(12)},
		"big rat":         big.NewRat(1, 3),
		"address":         netip.MustParseAddr("2001:db8::1"),
		"raw":             json.RawMessage(`{"b":1.10,"a":1e400,"a":[]}`),
		"raw null":        json.RawMessage(`null`),
		"number":          json.Number("1.10"),
		"number in any":   map[string]any{"n": json.Number("12345678901234567890.10"), "l": []any{json.Number("1e400"), nil, false, "", "x"}},
		"max int64":       int64(math.MaxInt64),
		"min int64":       int64(math.MinInt64),
		"max uint64":      uint64(math.MaxUint64),
		"max float":       math.MaxFloat64,
		"smallest float":  math.SmallestNonzeroFloat64,
		"float32":         float32(0.1),
		"int keys":        map[int]string{-1: "a", 0: "", 7: "c"},
		"address keys":    map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1},
		"nil slice":       []string(nil),
		"empty slice":     []string{},
		"nil map":         map[string]int(nil),
		"empty map":       map[string]int{},
		"nil pointer":     (*int)(nil),
		"pointer to 0":    ptr(0),
		"false":           false,
		"zero":            0,
		"empty string":    "",
		"bytes":           all256,
		"empty bytes":     []byte{},
		"array":           [3]byte{1, 2, 3},
		"U+0000":          "a\x00b",
		"U+FFFD":          "really \uFFFD",
		"escape":          `not an escape: \ufffd \ud800`,
		"html":            "<a href=\"x\">&\u2028</a>",
		"astral":          "\U0001F600",
		"struct":          wallet{base: base{ID: 1}, Purse: &Purse{"1.10", "EUR"}, Note: ptr(""), Zero: ptr(0), Lower: 1, Upper: 2},
		"nil embedded":    wallet{Tags: []string{}, Props: map[string]any{"a": []any{}, "b": map[string]any{}, "c": nil}},
		"nothing":         struct{}{},
		"nested":          [][]*inner{{nil, {1}}, nil, {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(v, trip(t, v), sameValues); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

// spec: C-829
func TestNegativeZeroSurvives(t *testing.T) {
	t.Parallel()
	if got := trip(t, math.Copysign(0, -1)).(float64); got != 0 || !math.Signbit(got) {
		t.Errorf("-0 became %v", got)
	}
}

// spec: C-826
func TestNormalForm(t *testing.T) {
	t.Parallel()
	now := time.Now() // with a monotonic part
	for _, c := range []struct {
		v    any
		want string
	}{
		{map[string]int{"b": 1, "a": 2, "B": 3}, `{"B":3,"a":2,"b":1}`},
		{json.RawMessage(" {\"b\" : 1.10,\n\"a\":1e400} "), `{"b":1.10,"a":1e400}`},
		{[]int(nil), "null"},
		{[]int{}, "[]"},
		{nil, "null"},
		{now, `"` + now.Round(0).Format(time.RFC3339Nano) + `"`},
	} {
		if raw, err := encode(c.v, "result", 0); err != nil || string(raw) != c.want {
			t.Errorf("encode %#v: %s, %v; want %s", c.v, raw, err, c.want)
		}
	}
}

// A method that only the pointer has must write the value wherever it is.
//
// spec: C-830
func TestMethodsOfPointersAreUsed(t *testing.T) {
	t.Parallel()
	type sum struct{ Total big.Int }
	v := sum{*big.NewInt(42)}
	for _, v := range []any{v, &v, []sum{v}, map[string]*sum{"a": &v}} {
		if raw, err := encode(v, "result", 0); err != nil || !strings.Contains(string(raw), `"Total":42`) {
			t.Errorf("encode %T: %s, %v", v, raw, err)
		}
	}
	want := `result field ["sum"].Total is a big.Int by value, where its methods are not used: make it a *big.Int`
	for _, v := range []any{map[string]any{"sum": v}, map[string]sum{"sum": v}, ptr(map[string][1]sum{"sum": {v}})} {
		_, err := encode(v, "result", 0)
		if err == nil || strings.Replace(err.Error(), "[0]", "", 1) != want {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// spec: C-97
func TestMissingFieldsAreTheTypesBusiness(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int{`{}`: 5, `{"N":0}`: 0, `{"N":null}`: 5, `{"N":7}`: 7} {
		var into struct{ F filler }
		if err := decode(json.RawMessage(`{"F":`+raw+`}`), &into); err != nil || into.F.N != want {
			t.Errorf("%s: %d, %v; want %d", raw, into.F.N, err, want)
		}
		trip(t, into.F)
	}
	var plain struct{ N int }
	if err := decode(json.RawMessage(`{}`), &plain); err != nil || plain.N != 0 {
		t.Errorf("missing: %d, %v", plain.N, err)
	}
}

type (
	ratio  struct{ Ratio float64 }
	linked struct {
		Name string `json:"name"`
		Next *linked
	}
	nest      []nest
	textKey   struct{ s string }
	jsonFails struct{}
	jsonPanic struct{}
	badJSON   struct{ raw string }
	badText   struct{ s string }
)

func (k textKey) MarshalText() ([]byte, error)   { return []byte(k.s), nil }
func (badText) UnmarshalText([]byte) error       { return nil }
func (b badText) MarshalText() ([]byte, error)   { return []byte(b.s), nil }
func (jsonFails) MarshalJSON() ([]byte, error)   { return nil, errors.New("no form") }
func (jsonPanic) MarshalJSON() ([]byte, error)   { panic("out of ink") }
func (b badJSON) MarshalJSON() ([]byte, error)   { return []byte(b.raw), nil }
func (jsonFails) UnmarshalJSON([]byte) error     { return errors.New("unreadable 4711") }
func (jsonPanic) UnmarshalJSON(raw []byte) error { panic("read " + string(raw)) }

func cycle() *linked {
	l := &linked{Name: "a", Next: &linked{Name: "b"}}
	l.Next.Next = l
	return l
}

func nested(levels int) any {
	n := nest{}
	for range levels - 1 {
		n = nest{n}
	}
	return n
}

// spec: C-829, C-830, C-831
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	var self any
	self = &self
	list := []any{nil}
	list[0] = list
	for _, c := range []struct {
		v           any
		field, want string
	}{
		{math.NaN(), "", "is NaN, which can't be stored"},
		{ratio{math.NaN()}, "Ratio", "is NaN, which can't be stored"},
		{&ratio{math.Inf(-1)}, "Ratio", "is infinite, which can't be stored"},
		{map[string][]ratio{"x": {{1}, {float64(float32(math.Inf(1)))}}}, `["x"][1].Ratio`, "is infinite, which can't be stored"},
		{[]any{1, float32(math.NaN())}, "[1]", "is NaN, which can't be stored"},
		{"a\xff", "", "is a string that is not valid UTF-8, which can't be stored"},
		{linked{Next: &linked{Name: "\xe2\x82"}}, "Next.Name", "is a string that is not valid UTF-8, which can't be stored"},
		{wallet{base: base{Name: "\xff"}}, "Name", "is a string that is not valid UTF-8, which can't be stored"},
		{map[string]int{"\xff": 1}, "", "has a map key that is not valid UTF-8, which can't be stored"},
		{map[textKey]int{{"\xff"}: 1}, "", "has a map key that is not valid UTF-8, which can't be stored"},
		{[]badText{{"a"}, {"\xff"}}, "[1]", "has a MarshalText that gives text that is not valid UTF-8, which can't be stored"},
		{json.RawMessage("\"\xff\""), "", "has JSON of its own that is not valid UTF-8, which can't be stored"},
		{[]json.RawMessage{nil, json.RawMessage(`{"a":"\ud800"}`)}, "[1]", "has JSON of its own with half of a surrogate pair, which can't be stored"},
		{struct{ R json.RawMessage }{json.RawMessage("{")}, "R", "has JSON of its own that is malformed, which can't be stored"},
		{[]any{badJSON{strings.Repeat("[", 1000) + strings.Repeat("]", 1000)}}, "[0]", "is nested deeper than 1,000 levels, which can't be stored"},
		{map[string]json.Number{"n": "1.x"}, `["n"]`, "is a json.Number that is not a number, which can't be stored"},
		{[]any{make(chan int)}, "[0]", "is a chan, which can't be stored"},
		{map[string]any{"f": func() {}}, `["f"]`, "is a func, which can't be stored"},
		{[]any{complex(1, 1)}, "[0]", "is a complex number, which can't be stored"},
		{[]any{map[ratio]int{{1}: 1}}, "[0]", "is a map with keys of type engine.ratio, which can't be stored"},
		{[]any{jsonFails{}}, "[0]", "can't be stored: its MarshalJSON fails: no form"},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "", "can't be stored: its MarshalJSON fails: Time.MarshalJSON: year outside of range [0,9999]"},
		{self, "", "contains itself, which can't be stored"},
	} {
		checkRefusal(t, c.v, c.field, c.want)
	}
}

func checkRefusal(t *testing.T, v any, field, text string) {
	t.Helper()
	raw, err := encode(v, "result", 1<<20)
	place := "result"
	if field != "" {
		place += " field " + field
	}
	refused, ok := errors.AsType[*EncodingError](err)
	if raw != nil || !ok || refused.Field != field || refused.Node != "" || refused.Reason != place+" "+text {
		t.Errorf("encode %T:\n got %q %#v\nwant %q at %q", v, raw, err, place+" "+text, field)
	}
}

// spec: C-831, C-1023
func TestDeepAndCyclicValues(t *testing.T) {
	t.Parallel()
	list := []any{nil}
	list[0] = list
	table := map[string]any{}
	table["t"] = table
	for name, v := range map[string]any{"pointers": cycle(), "list": list, "map": table, "deep": nested(1001), "very deep": nested(3_000_000)} {
		_, err := encode(v, "input", 1<<20)
		refused, ok := errors.AsType[*EncodingError](err)
		want := "contains itself"
		if strings.Contains(name, "deep") {
			want = "is nested deeper than 1,000 levels"
		}
		if !ok || !strings.HasSuffix(refused.Reason, want+", which can't be stored") || len(refused.Reason) > 150 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := trip(t, nested(1000)); !reflect.DeepEqual(got, nested(1000)) {
		t.Error("1000 levels did not survive")
	}
}

// A value whose parts are shared has more JSON than memory could hold.
//
// spec: C-835
func TestSharedPartsAreBounded(t *testing.T) {
	t.Parallel()
	v := []any{1}
	for range 200 {
		v = []any{v, v}
	}
	_, err := encode(v, "result", 1<<20)
	want := "result is more than 1 MiB, the limit is 1 MiB: store it elsewhere and return its id, or raise Config.Limits.Value"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// spec: C-831, C-853
func TestPanicInMarshalJSON(t *testing.T) {
	t.Parallel()
	_, err := encode(map[string]any{"a": []any{jsonPanic{}}}, "result", 0)
	refused, ok := errors.AsType[*EncodingError](err)
	if !ok || refused.Field != `["a"][0]` || refused.Reason != `panic: out of ink, while result field ["a"][0] was encoded` {
		t.Errorf("got %#v", err)
	}
	panicked, ok := errors.AsType[*PanicError](err)
	if !ok || len(panicked.Frames) == 0 || !strings.Contains(panicked.Frames[0], "jsonPanic.MarshalJSON (value_test.go:") {
		t.Errorf("got %#v", panicked)
	}
}

// spec: C-835
func TestValueLimit(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", 1<<20-2)
	if _, err := encode(fits, "result", 1<<20); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := encode(fits+"x", "result", 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	for v, want := range map[string]string{
		strings.Repeat("x", 3355443): "input is 3.2 MiB, the limit is 1 MiB: store it elsewhere and return its id, or raise Config.Limits.Value",
		fits + "x":                   "input is 1048577 bytes (1 more), the limit is 1 MiB: store it elsewhere and return its id, or raise Config.Limits.Value",
	} {
		_, err := encode(v, "input", 1<<20)
		if refused, ok := errors.AsType[*EncodingError](err); !ok || refused.Reason != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

type small struct {
	Account string `json:"account"`
	Cents   int    `json:"cents"`
	At      time.Time
}

func BenchmarkEncode(b *testing.B) {
	plain := small{"a1", 100, time.Now()}
	loose := map[string]any{"account": "a1", "cents": 100, "lines": []any{"a", 1, 2.5, map[string]any{"x": true}}}
	for name, v := range map[string]any{"small": &plain, "any": loose} {
		b.Run(name+"/json", func(b *testing.B) {
			for b.Loop() {
				if _, err := json.Marshal(v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encode", func(b *testing.B) {
			for b.Loop() {
				if _, err := encode(v, "result", 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	raw := json.RawMessage(`{"account":"a1","cents":100,"At":"2026-01-02T03:04:05.123456789Z"}`)
	for b.Loop() {
		var into small
		if err := decode(raw, &into); err != nil {
			b.Fatal(err)
		}
	}
}

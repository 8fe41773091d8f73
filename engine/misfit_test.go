package engine

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type purchase struct {
	Items []struct {
		Price float64 `json:"price"`
		Count int8    `json:",string"`
		When  time.Time
	} `json:"items"`
	Card  card `json:"card" reactor:"redact"`
	Limit map[int]uint8
	Fails jsonFails
	Panic *jsonPanic
}

type card struct{ Number, Holder string }

// spec: C-833
func TestMisfits(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`[]`:                                " the value does not decode: wanted engine.purchase, found a list",
		`{"items":{}}`:                      "Items field Items does not decode: wanted a list, found an object",
		`{"items":[{},{"price":"s3cr3t"}]}`: "Items[1].Price field Items[1].Price does not decode: wanted float64, found a string",
		`{"items":[{"Count":"300"}]}`:       "Items[0].Count field Items[0].Count does not decode: wanted int8, found a string",
		`{"items":[{"Count":3}]}`:           "Items[0].Count field Items[0].Count does not decode: wanted int8, found a number that it can't hold",
		`{"items":[{"When":3}]}`:            "Items[0].When field Items[0].When does not decode: wanted time.Time, found a number, which the type refuses: Time.UnmarshalJSON: input is not a JSON string",
		`{"card":{"Number":4111111111111}}`: "Card field Card does not decode: wanted string, found a number",
		`{"card":"4111111111111"}`:          "Card field Card does not decode: wanted engine.card, found a string",
		`{"CARD":[]}`:                       "Card field Card does not decode: wanted engine.card, found a list",
		`{"Limit":{"a":1}}`:                 `Limit["a"] field Limit["a"] does not decode: wanted int, found a number that it can't hold`,
		`{"Limit":{"1":256}}`:               `Limit["1"] field Limit["1"] does not decode: wanted uint8, found a number that it can't hold`,
		`{"Limit":{"1":1.5}}`:               `Limit["1"] field Limit["1"] does not decode: wanted uint8, found a number that it can't hold`,
		`{"Limit":true}`:                    "Limit field Limit does not decode: wanted map[int]uint8, found a boolean",
		`{"Fails":{}}`:                      "Fails field Fails does not decode: wanted engine.jsonFails, found an object, which the type refuses: unreadable 4711",
		`{"Panic":1}`:                       "Panic panic: read 1, while field Panic was decoded into engine.jsonPanic",
		`{"items":[]} x`:                    " the value does not decode: JSON is malformed at line 1, column 14: invalid character 'x' after top-level value",
		`{"items":[]}{}`:                    " the value does not decode: JSON is malformed at line 1, column 13: invalid character '{' after top-level value",
		`{"items":`:                         " the value does not decode: JSON is malformed at line 1, column 10: unexpected end of JSON input",
		``:                                  " the value does not decode: JSON is empty",
		strings.Repeat("[", 1001):           " the value does not decode: JSON has nesting deeper than 1,000 levels at line 1, column 1001",
	} {
		err := decode(json.RawMessage(raw), new(purchase))
		refused, ok := errors.AsType[*EncodingError](err)
		if !ok || refused.Field+" "+refused.Reason != want {
			t.Errorf("decode %.40s:\n got %#v\nwant %s", raw, err, want)
		}
	}
}

// spec: C-834
func TestLenientDecoding(t *testing.T) {
	t.Parallel()
	var into struct {
		A, B int
		Any  any
	}
	raw := `{"A":1,"unknown":{"x":[1]},"A":2,"Any":1e400} `
	if err := decode(json.RawMessage(raw), &into); err != nil {
		t.Fatal(err)
	}
	if into.A != 2 || into.B != 0 || into.Any != json.Number("1e400") {
		t.Errorf("got %+v", into)
	}
	for _, raw := range []string{`1 2`, `1 ]`, `{} {}`} {
		if err := decode(json.RawMessage(raw), new(any)); err == nil {
			t.Errorf("%s was accepted", raw)
		}
	}
}

// spec: C-827
func TestNumbersInAny(t *testing.T) {
	t.Parallel()
	var into map[string]any
	if err := decode(json.RawMessage(`{"n":9223372036854775807,"l":[0.10]}`), &into); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"n": json.Number("9223372036854775807"), "l": []any{json.Number("0.10")}}
	if diff := cmp.Diff(want, into); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is in a redacted field is not shown, whatever is wrong with it.
//
// spec: C-833
func TestErrorsHideRedactedValues(t *testing.T) {
	t.Parallel()
	type vault struct {
		Box map[string]any `reactor:"redact"`
	}
	for _, v := range []any{jsonPanic{}, jsonFails{}, math.NaN(), "s3cr3t\xff"} {
		_, err := encode([]vault{{map[string]any{"s3cr3t": v}}}, "result", 0)
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "s3cr3t") || strings.Contains(e.Error(), "ink") {
				t.Errorf("%T: %v", v, e)
			}
		}
		if refused, ok := errors.AsType[*EncodingError](err); !ok || refused.Field != "[0].Box" {
			t.Errorf("%T: %#v", v, err)
		}
	}
	type hidden struct {
		F *jsonFails `reactor:"redact"`
		P *jsonPanic `reactor:"redact"`
	}
	for _, raw := range []string{`{"F":"s3cr3t"}`, `{"P":"s3cr3t"}`} {
		err := decode(json.RawMessage(raw), new(hidden))
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "s3cr3t") || strings.Contains(e.Error(), "4711") {
				t.Errorf("%s: %v", raw, e)
			}
		}
	}
}

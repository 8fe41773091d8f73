package engine

import (
	"encoding/json"
	"maps"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

type (
	tree struct {
		Value string
		Kids  []tree           `json:"kids"`
		By    map[string]*tree `json:",omitempty"`
	}
	ping struct {
		Pong *pong
		N    int
	}
	pong  struct{ Ping []ping }
	Plain struct {
		ID   int
		Same string
	}
	Tagged struct {
		Other string `json:"Same"`
		Deep
	}
	Deep struct {
		ID   string
		Leaf bool
	}
	Mixed struct {
		Plain
		*Tagged
		Named  Deep     `json:"named"`
		Not    chan int `json:"-"`
		Quoted int      `json:"q,string"`
		inner
	}
	twice struct {
		Plain
		Deep
	}
	loop struct {
		*loop
		N int
	}
	strs string
)

func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want string
	}{
		{"", "string"},
		{strs(""), "string"},
		{int8(0), "integer"},
		{uintptr(0), "integer"},
		{float32(0), "number"},
		{json.Number(""), "number"},
		{true, "bool"},
		{new(any), "any?"},
		{time.Time{}, "string"},
		{time.Duration(0), "integer"},
		{[]byte(nil), "string"},
		{[2]byte{}, "[integer;2]"},
		{json.RawMessage(nil), "json"},
		{big.Int{}, "json"},
		{&big.Rat{}, "string?"},
		{map[int][]*float64{}, "{[integer]:[number?]}"},
		{map[netip.Addr]any{}, "{[string]:any}"},
		{struct{}{}, "{}"},
		{struct {
			B *string `json:"b,omitempty"`
			A string  `json:"a"`
		}{}, "{a:string,b:string?}"},
		{struct {
			A string `json:"a:b"`
		}{}, `{"a:b":string}`},
		{Mixed{}, "{Depth:integer,ID:integer,Leaf:bool,Same:string,named:{ID:string,Leaf:bool},q:string(integer)}"},
		{twice{}, "{Leaf:bool,Same:string}"},
		{loop{}, "{N:integer}"},
		{tree{}, "{By:{[string]:^0?},Value:string,kids:[^0]}"},
		{[]ping{}, "[{N:integer,Pong:{Ping:[^0]}?}]"},
		{nest{}, "[^0]"},
		{struct{ A, B Deep }{}, "{A:{ID:string,Leaf:bool},B:{ID:string,Leaf:bool}}"},
	} {
		if got := shapeOf(reflect.TypeOf(c.v)); got != c.want {
			t.Errorf("%T: %s, want %s", c.v, got, c.want)
		}
	}
}

// Types of two packages with the same JSON have the same shape.
func TestShapeHasNoGoNames(t *testing.T) {
	t.Parallel()
	type moved struct {
		Leaf    bool
		Renamed string `json:"ID"`
	}
	if a, b := shapeOf(reflect.TypeFor[Deep]()), shapeOf(reflect.TypeFor[moved]()); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

type wide[T any] struct{ A, B, C, D, E, F, G, H T }

// A type whose shape has millions of places is described by a short text.
func TestShapeOfHugeType(t *testing.T) {
	t.Parallel()
	huge := reflect.TypeFor[wide[wide[wide[wide[wide[wide[wide[wide[string]]]]]]]]]()
	shape := shapeOf(huge)
	if len(shape) > 10_000 || !strings.Contains(shape, "^") || shape != shapeOf(huge) {
		t.Errorf("%d bytes: %.200s", len(shape), shape)
	}
}

// The fields are those that encoding/json writes.
func TestFieldsAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		Mixed{Tagged: &Tagged{}}, Mixed{}, twice{}, Tagged{}, Plain{}, loop{loop: &loop{}}, wallet{Purse: &Purse{}},
		struct {
			Plain `json:"plain"`
			Deep
			strs
		}{},
		struct {
			Plain
			X struct{ ID int } `json:"ID"`
		}{},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var written map[string]any
		if err := json.Unmarshal(raw, &written); err != nil {
			t.Fatal(err)
		}
		var ours []string
		for _, f := range jsonFields(reflect.TypeOf(v)) {
			if field, ok := f.at(reflect.ValueOf(v)); ok && (!f.omit || !empty(field)) {
				ours = append(ours, f.name)
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(written)), ours); diff != "" {
			t.Errorf("%T (-json +ours):\n%s", v, diff)
		}
	}
}

type private struct{ N int }

func TestUnstorableTypes(t *testing.T) {
	t.Parallel()
	type done struct{ Done chan int }
	type recursive struct {
		Next *recursive
		Stop []map[string]*done
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{make(chan int), "it is a chan"},
		{new(func()), "it is a func"},
		{done{}, "field Done is a chan"},
		{recursive{}, "field Stop[]{}.Done is a chan"},
		{[]done{}, "field [].Done is a chan"},
		{struct{ Embedded *done }{}, "field Embedded.Done is a chan"},
		{struct{ *Mixed }{}, ""},
		{map[float64]int{}, "it is a map with keys of type float64"},
		{map[any]int{}, "it is a map with keys of type interface {}"},
		{map[textKey]int{}, "it is a map with keys of type engine.textKey"},
		{map[netip.Addr]int{}, ""},
		{map[strs]int{}, ""},
		{[2]complex64{}, "field [] is a complex number"},
		{struct{ P unsafe.Pointer }{}, "field P is an unsafe pointer"},
		{struct{ Err error }{}, "field Err is an interface with methods (error): JSON does not tell which type to make of it"},
		{struct{ *private }{}, "field N is in an embedded pointer to an unexported struct, which can't be read back"},
		{struct{ private }{}, ""},
		{map[string]big.Int{}, "field {} is a big.Int in a map, where its methods are not used: make it a *big.Int"},
		{map[string]struct{ A [1]big.Rat }{}, "field {}.A[] is a big.Rat in a map, where its methods are not used: make it a *big.Rat"},
		{map[string][]big.Int{}, ""},
		{struct{ N big.Int }{}, ""},
		{struct {
			Done chan int `json:"-"`
			done chan int
		}{}, ""},
		{jsonFails{}, ""},
		{tree{}, ""},
		{ping{}, ""},
		{wallet{}, ""},
		{time.Time{}, ""},
		{new(any), ""},
	} {
		got, found := unstorable(reflect.TypeOf(c.v))
		if got != c.want || found != (c.want != "") {
			t.Errorf("%T: %q, %v; want %q", c.v, got, found, c.want)
		}
	}
}

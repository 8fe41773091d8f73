package engine

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type (
	byValue   struct{ Cents int }
	byPointer struct{ Cents int }
	noRules   struct{ Nested byValue }
	otherSign struct{}
	anyError  struct{ Err error }
	panics    struct{ With any }
	promoted  struct{ byValue }
	checked   interface{ Validate() error }
)

func (v byValue) Validate() error {
	wrong := FieldErrors{}
	if v.Cents <= 0 {
		wrong["cents"] = "must be above 0"
	}
	return wrong.Err()
}

func (p *byPointer) Validate() error {
	if p == nil {
		return errors.New("is missing")
	}
	return byValue(*p).Validate()
}

func (otherSign) Validate(int) error { return nil }
func (a anyError) Validate() error   { return a.Err }
func (p panics) Validate() error     { panic(p.With) }

// spec: C-86
func TestWhichTypesAreContracts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t    reflect.Type
		want bool
	}{
		{reflect.TypeFor[byValue](), true},
		{reflect.TypeFor[*byValue](), true},
		{reflect.TypeFor[byPointer](), true},
		{reflect.TypeFor[*byPointer](), true},
		{reflect.TypeFor[promoted](), true},
		{reflect.TypeFor[checked](), true},
		{reflect.TypeFor[**byPointer](), false},
		{reflect.TypeFor[noRules](), false},
		{reflect.TypeFor[otherSign](), false},
		{reflect.TypeFor[[]byValue](), false},
		{reflect.TypeFor[any](), false},
		{nil, false},
	} {
		if got := hasContract(c.t); got != c.want {
			t.Errorf("%v: %v", c.t, got)
		}
	}
}

// spec: C-8, C-12, C-86
func TestValidateIsCalledOnTheOutermostValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want string
	}{
		{&byValue{1}, ""},
		{&byValue{}, "input is invalid: cents: must be above 0"},
		{&byPointer{}, "input is invalid: cents: must be above 0"},
		{ptr(&byValue{}), "input is invalid: cents: must be above 0"},
		{ptr(&byPointer{}), "input is invalid: cents: must be above 0"},
		{ptr((*byValue)(nil)), ""},
		{ptr((*byPointer)(nil)), "input is invalid: is missing"},
		{ptr(checked(byValue{})), "input is invalid: cents: must be above 0"},
		{new(checked), ""},
		{&promoted{}, "input is invalid: cents: must be above 0"},
		{&noRules{}, ""},
		{&[]byValue{{}}, ""},
		{&otherSign{}, ""},
		{new(any), ""},
		{ptr(0), ""},
	} {
		err := validate(c.v, "input", nil)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%T: %v, want %q", c.v, err, c.want)
		}
	}
}

// spec: C-20, C-842, C-843
func TestWhatAContractSays(t *testing.T) {
	t.Parallel()
	fields := FieldErrors{"b": "is two", "a": "is one"}
	for _, c := range []struct {
		err    error
		text   string
		fields FieldErrors
	}{
		{fields, "result is invalid: a: is one; b: is two", fields},
		{fmt.Errorf("order 7: %w", fields), "result is invalid: order 7: a: is one; b: is two", fields},
		{errors.Join(errors.New("x"), fields), "result is invalid: x\na: is one; b: is two", fields},
		{errors.New("no stock"), "result is invalid: no stock", nil},
	} {
		err := validate(&anyError{c.err}, "result", nil)
		broken, ok := err.(*ValidationError)
		if !ok || broken.Error() != c.text || broken.What != "result" || !cmp.Equal(broken.Fields, c.fields) || !cmp.Equal(broken.Err.Error(), c.err.Error()) {
			t.Errorf("%v: %#v", c.err, err)
		}
	}
	if err := validate(&anyError{FieldErrors{}}, "result", nil); err != nil {
		t.Errorf("no field is wrong: %v", err)
	}
	cause := errors.New("no stock")
	if err := validate(&anyError{cause}, "result", nil); !errors.Is(err, cause) {
		t.Errorf("%v hides its cause", err)
	}
}

// spec: C-13
func TestValidatorIsAskedToo(t *testing.T) {
	t.Parallel()
	plain := errors.New("tag required")
	for _, c := range []struct {
		own, extra error
		text       string
		fields     FieldErrors
	}{
		{nil, nil, "", nil},
		{nil, FieldErrors{"x": "1"}, "payload is invalid: x: 1", FieldErrors{"x": "1"}},
		{FieldErrors{"y": "2"}, FieldErrors{"x": "1"}, "payload is invalid: x: 1; y: 2", FieldErrors{"x": "1", "y": "2"}},
		{FieldErrors{"x": "2"}, FieldErrors{"x": "1"}, "payload is invalid: x: 2, 1", FieldErrors{"x": "2, 1"}},
		{FieldErrors{"y": "2"}, plain, "payload is invalid: y: 2; tag required", FieldErrors{"y": "2"}},
		{plain, fmt.Errorf("also %w", FieldErrors{"x": "1"}), "payload is invalid: tag required; also x: 1", FieldErrors{"x": "1"}},
		{FieldErrors{}, plain, "payload is invalid: tag required", nil},
	} {
		var got any
		err := validate(&anyError{c.own}, "payload", func(v any) error { got = v; return c.extra })
		if v, ok := got.(anyError); !ok || !cmp.Equal(v.Err, c.own, cmp.Comparer(func(a, b error) bool { return textOf(a) == textOf(b) })) {
			t.Errorf("the validator got %#v", got)
		}
		if c.text == "" && err == nil {
			continue
		}
		broken, ok := err.(*ValidationError)
		if !ok || broken.Error() != c.text || !cmp.Equal(broken.Fields, c.fields) {
			t.Errorf("%v and %v: %#v", c.own, c.extra, err)
		}
		if c.extra == plain && !errors.Is(err, plain) {
			t.Errorf("%v hides its cause", err)
		}
	}
	if err := validate(ptr(3), "input", func(v any) error { return fmt.Errorf("got %v", v) }); err == nil || err.Error() != "input is invalid: got 3" {
		t.Errorf("without a contract: %v", err)
	}
}

// spec: C-844, C-853
func TestPanicsInValidate(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, c := range []struct {
		v     any
		extra func(any) error
		want  string
	}{
		{&panics{"text"}, nil, "panic: text"},
		{&panics{boom}, nil, "panic: boom"},
		{&panics{nil}, nil, "panic: " + new(runtime.PanicNilError).Error()},
		{&noRules{}, func(any) error { panic(boom) }, "panic: boom"},
		{&byValue{}, func(v any) error { _ = []int{}[v.(byValue).Cents]; return nil }, "panic: runtime error: index out of range [0] with length 0"},
	} {
		err := validate(c.v, "input", c.extra)
		panicked, ok := err.(*PanicError)
		if !ok || panicked.Error() != c.want {
			t.Errorf("%#v", err)
			continue
		}
		if len(panicked.Frames) == 0 || !strings.Contains(panicked.Frames[0], "contract_test.go:") {
			t.Errorf("%s: frames begin with %q", c.want, panicked.Frames)
		}
		if c.want == "panic: boom" && !errors.Is(err, boom) {
			t.Errorf("%v hides its cause", err)
		}
	}
}

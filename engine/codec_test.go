package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A mirror turns values around, makes them long, and refuses what the test
// wants.
type mirror struct {
	refuseEncode, refuseDecode string
	broken                     *atomic.Bool // refuses to decode what has refuseDecode
}

// Encode turns value around, three times.
func (m mirror) Encode(_ context.Context, value []byte) ([]byte, error) {
	if m.refuseEncode != "" && bytes.Contains(value, []byte(m.refuseEncode)) {
		return nil, errors.New("no ink")
	}
	turned := reversed(value)
	return append(turned, append(turned, turned...)...), nil
}

// Decode turns a third of stored back.
func (m mirror) Decode(_ context.Context, stored []byte) ([]byte, error) {
	value := reversed(stored[:len(stored)/3])
	if m.broken != nil && m.broken.Load() && bytes.Contains(value, []byte(m.refuseDecode)) {
		return nil, errors.New("key is gone")
	}
	return value, nil
}

func reversed(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := len(b) - 1; i >= 0; i-- {
		out = append(out, b[i])
	}
	return out
}

// codedChain is a and b, which does as told.
func codedChain(b2 func(context.Context, string) (string, error)) *engine.Reactor[string, string] {
	return engine.MustDefine("coded", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		a := engine.Step(b, "a", in, func(context.Context, string) (string, error) { return "plaintext of a", nil }).
			Undo(func(context.Context, string, string) error { return errors.New("plaintext of an undo") })
		return engine.Step(b, "b", a, b2).Retry(2, engine.Fixed(0)).
			Compensate(func(context.Context, string, error) error { return nil })
	})
}

// spec: C-838, C-1012
func TestCodec(t *testing.T) {
	t.Parallel()
	limit := engine.Limits{Value: 30} // below what is stored of the values, above the values
	for _, fails := range []bool{false, true} {
		for _, place := range places {
			r := codedChain(func(_ context.Context, s string) (string, error) {
				if s != "plaintext of a" {
					t.Errorf("b got %q", s)
				}
				if fails {
					return "", errors.New("plaintext of a failure")
				}
				return "plaintext of b", nil
			})
			h, res, err := runAt(t, place, r, engine.Config{Codec: mirror{}, Limits: limit}, "plaintext input")
			if fails != (err != nil) || !fails && res.Value != "plaintext of b" {
				t.Fatalf("%+v, %v", res, err)
			}
			rec := h.record(t, res.RunID)
			all := fmt.Sprintf("%s %s %s", rec.Input, rec.Output, rec.Failure)
			for _, n := range rec.Nodes {
				all += fmt.Sprintf(" %s %s %s %s", n.Input, n.Output, n.Failure, n.HookFailure)
			}
			if strings.Contains(all, "plaintext") || strings.Count(all, `{"$codec":`) < 6 {
				t.Errorf("stored: %s", all)
			}
			v := h.view(t, res.RunID)
			if string(v.Input) != `"plaintext input"` || string(nodeAt(v, "a").Output) != `"plaintext of a"` {
				t.Errorf("shown: %s %s", v.Input, nodeAt(v, "a").Output)
			}
			if fails && (v.Failure.Error() != err.Error() || !strings.Contains(err.Error(), "plaintext of a failure; 1 rollback failure(s): undo a: plaintext of an undo")) {
				t.Errorf("shown: %v, was %v", v.Failure, err)
			}
		}
	}
	page, err := newHost(t, engine.Config{Codec: mirror{}}).List(t.Context(), engine.Query{Input: map[string]string{"x": "y"}})
	if err != nil || len(page.Runs) != 0 {
		t.Errorf("%v, %v", page, err)
	}
}

// spec: C-838, C-832, C-833
func TestCodecThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codec mirror
		text  string
		calls string
	}{
		"writing a result": {
			mirror{refuseEncode: "basalt"}, "step b failed (attempt 2 of 2): result can't be stored: the codec refused it: no ink",
			"run b, run b, compensate b, undo a",
		},
		"writing an input": {
			mirror{refuseEncode: "crystal!"}, "step b failed (attempt 1 of 2): its input could not be made: the codec refused it: no ink",
			"undo a",
		},
		"reading a result": {
			mirror{refuseDecode: `"crystal"`},
			"step c failed (attempt 1 of 1): its input could not be made: the result of a: the codec could not read it: key is gone; " +
				"1 rollback failure(s): undo a: its stored result: the codec could not read it: key is gone",
			"run b, run b, undo b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bo, tries := &booth{}, 0
			c.codec.broken = &atomic.Bool{}
			r := engine.MustDefine("miscoded", func(d *engine.Builder, in engine.Ref[int]) engine.Ref[string] {
				a := engine.Step(d, "a", in, func(context.Context, int) (string, error) { return "crystal", nil }).
					Undo(func(context.Context, int, string) error { bo.note("undo a"); return nil })
				b := engine.Step(d, "b", engine.Pick(a, func(s string) []string { return []string{s + "!"} }), func(context.Context, []string) (string, error) {
					bo.note("run b")
					if tries++; tries == 1 {
						return "", errors.New("again, elsewhere")
					}
					c.codec.broken.Store(c.codec.refuseDecode != "")
					return "basalt", nil
				}).Retry(2, engine.Fixed(time.Millisecond)).
					Undo(func(context.Context, []string, string) error { bo.note("undo b"); return nil }).
					Compensate(func(context.Context, []string, error) error { bo.note("compensate b"); return nil })
				return engine.Step(d, "c", engine.Join2(a, b, func(a, b string) int { return len(a + b) }), func(context.Context, int) (string, error) {
					bo.note("run c")
					return "", nil
				})
			})
			h := newHost(t, engine.Config{Codec: c.codec}, r)
			res, err := inProcesses(t, h, r, 1, engine.Config{Codec: c.codec})
			failure := failureIn(t, err)
			if failure.Code != "value" || !failure.Permanent || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
			if got := bo.noted(); got != c.calls {
				t.Errorf("got  %s\nwant %s", got, c.calls)
			}
			c.codec.broken.Store(false)
			if got := nodeAt(h.view(t, res.RunID), "a").Output; string(got) != `"crystal"` {
				t.Errorf("what is stored of a is %s", got)
			}
			if len(failure.Rollback) > 0 && failure.Rollback[0].Reason != "not_decodable" {
				t.Errorf("%+v", failure.Rollback)
			}
		})
	}
}

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pgreactor/reactor/engine"
)

var valuePromises = []promise{
	{"values_byte_for_byte", valuesExact},
	{"values_null_and_absent", valuesNull},
	{"values_large", valuesLarge},
	{"values_not_json", valuesNotJSON},
	{"texts_exact", textsExact},
	{"texts_that_no_column_takes", textsRefused},
}

// valueOf is a small value that a store which normalises would change.
func valueOf(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"z":%d.0, "a":"\u0000\u00e9"}`, n))
}

// exact are values whose text must come back as it was.
func exact() []json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(`{"z":1,"a":2,"m":{"y":3,"b":4}}`),
		json.RawMessage(`{"twice":1,"twice":2}`),
		json.RawMessage(`  {"spaces" :  [ 1 ,2 ] } `),
		json.RawMessage("{\n\t\"lines\": true\n}"),
		json.RawMessage(`"\u0000"`),
		json.RawMessage(`{"\u0000key":"a\u0000b","c":["\u0000"]}`),
		json.RawMessage(`"\u00e9é\ud83d\ude00😀\/\"\\"`),
		json.RawMessage(`12345678901234567890123456789012345678901234567890`),
		json.RawMessage(`9223372036854775807`),
		json.RawMessage(`1.10`),
		json.RawMessage(`1E400`),
		json.RawMessage(`-0.0`),
		json.RawMessage(`[]`), json.RawMessage(`{}`), json.RawMessage(`""`),
		json.RawMessage(`0`), json.RawMessage(`false`), json.RawMessage(`null`),
		json.RawMessage(`"{\"a\",NULL,b}"`),
	}
}

// Values come back as the bytes that were given, through every field that has one.
func valuesExact(f *fixture) {
	process := f.process()
	for _, v := range exact() {
		run := newRun()
		run.Input, run.StartKey = v, string(v)
		f.create(run)
		_, fence := f.own(process, run.ID)
		n := fullNode("a")
		n.Input, n.Output, n.Failure, n.HookFailure = v, v, v, v
		f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}, Output: v, Failure: v})
		got := f.get(run.ID)
		node := got.Nodes[0]
		for _, back := range []json.RawMessage{got.Input, got.Output, got.Failure, node.Input, node.Output, node.Failure, node.HookFailure} {
			if string(back) != string(v) {
				f.Errorf("%q came back as %q", v, back)
			}
		}
	}
	first := keyed("k", string(exact()[0]))
	f.create(first)
	f.existing(f.create(keyed("k", `2`))[0], first)
}

func valuesNull(f *fixture) {
	fence := f.owned()
	null := done("null", 1)
	null.Input, null.Output, null.Failure = json.RawMessage(`null`), json.RawMessage(`null`), json.RawMessage(`null`)
	absent := done("absent", 2)
	absent.Input, absent.Output = nil, nil
	f.save(&fence, engine.Changes{Output: json.RawMessage(`null`), Nodes: []engine.NodeChange{null, absent}})
	got := f.get(fence.Run)
	if string(got.Output) != "null" || got.Failure != nil {
		f.Errorf("output %q, failure %q", got.Output, got.Failure)
	}
	if n := f.node(fence.Run, "null"); string(n.Input)+string(n.Output)+string(n.Failure) != "nullnullnull" {
		f.Errorf("null came back as %q, %q, %q", n.Input, n.Output, n.Failure)
	}
	if n := f.node(fence.Run, "absent"); n.Input != nil || n.Output != nil || n.Failure != nil {
		f.Errorf("absent came back as %q, %q, %q", n.Input, n.Output, n.Failure)
	}
	run := f.createOne(func(r *engine.NewRun) { r.Input = nil })
	if got := f.get(run); got.Input != nil {
		f.Errorf("absent input came back as %q", got.Input)
	}
}

func valuesLarge(f *fixture) {
	v := json.RawMessage(`"` + strings.Repeat("0123456789abcdeé", 1<<16-1) + `"`) // 17 bytes each: above 1 MiB
	run := newRun()
	run.Input = v
	f.create(run)
	_, fence := f.own(f.process(), run.ID)
	n := done("a", 1)
	n.Output = v
	f.save(&fence, engine.Changes{Nodes: []engine.NodeChange{n}, Output: v})
	got := f.get(run.ID)
	if string(got.Input) != string(v) || string(got.Output) != string(v) || string(got.Nodes[0].Output) != string(v) {
		f.Errorf("values of %d bytes came back with %d, %d and %d", len(v), len(got.Input), len(got.Output), len(got.Nodes[0].Output))
	}
}

// A value that is not JSON is refused for good, and leaves nothing behind.
func valuesNotJSON(f *fixture) {
	fence := f.owned()
	was, mark := f.get(fence.Run), f.bell.mark()
	for _, bad := range []string{`{`, `nope`, `{"a":1}}`, "\"\xff\""} {
		n := done("a", 1)
		n.Output = json.RawMessage(bad)
		for _, c := range []engine.Changes{
			{Status: engine.Completed, Output: json.RawMessage(bad)},
			{Release: true, Due: true, Nodes: []engine.NodeChange{done("b", 1), n}},
		} {
			c.WriteID = newID()
			_, err := f.store.Save(f.Context(), fence, c)
			f.unstorable(err)
		}
	}
	f.sameRun(was)
	f.quiet(mark)
	f.save(&fence, engine.Changes{Status: engine.Completed})
}

// Texts with whatever separates and quotes elsewhere come back as they were.
func textsExact(f *fixture) {
	odd := "a,\"b\" 'c' {d} \\ NULL\t\né😀 %s $1 -- ;"
	run := newRun()
	run.StartKey, run.WakeReason, run.Tags = odd, odd, []string{odd, "", "NULL", "{}"}
	f.create(run)
	got, fence := f.own(f.process(), run.ID)
	f.same("tags", got.Tags, run.Tags)
	f.same("texts", []string{got.StartKey, got.WakeReason}, []string{odd, odd})
	n := done("a", 1)
	n.Reason = odd
	f.save(&fence, engine.Changes{Reason: odd, ReasonPath: odd, Blocked: &odd, Nodes: []engine.NodeChange{n}})
	rec := f.get(run.ID)
	f.same("texts", []string{rec.Reason, rec.ReasonPath, rec.Blocked, rec.Nodes[0].Reason}, []string{odd, odd, odd, odd})
}

// A text with a NUL or bytes that are no UTF-8 is made good or refused for
// good: an error that the engine asks again after would never end.
func textsRefused(f *fixture) {
	fence := f.owned()
	for _, bad := range []string{"a\x00b", "a\xffb"} {
		c := engine.Changes{WriteID: newID(), Reason: bad}
		version, err := f.store.Save(f.Context(), fence, c)
		if err != nil && !errors.Is(err, engine.ErrUnstorable) {
			f.Errorf("reason %q: error %v, want none or ErrUnstorable", bad, err)
		}
		if err == nil {
			fence.Version = version
		}
	}
	f.save(&fence, engine.Changes{Reason: "good"})
}

// Package sequence has the canonical sequences of the specification as data: a
// reactor, what its steps do, and in which order their bodies and hooks must be
// called. The same cases are run in memory, on Postgres in the caller's process
// and on Postgres by workers.
package sequence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgreactor/reactor/engine"
)

// A Case is one sequence. Want is in the notation of the specification: calls
// of bodies and hooks, planned retries, and the end.
type Case struct {
	Name   string
	Script Script
	Build  func(l *Ledger) *engine.Reactor[int, int]
	Want   string
	Failed []string // rollback failures, as kind path
	Input  int
}

// A Script says what each call does, by its name: "b" is the body of b,
// "undo:b" its undo, "comp:b" its compensate, "guard:b" its guard hook. The
// words of one name are those of successive calls; the last one stays. A call
// without a script works.
//
//	err        returns an error
//	permanent  returns a permanent error
//	panic      panics
//	halt, skip return that signal
//	invalid    returns a value that breaks its contract
type Script map[string]string

// ErrScripted is what a call with the word err returns.
var ErrScripted = errors.New("scripted")

// A Ledger notes what was called, and with which keys.
type Ledger struct {
	script Script

	mu    sync.Mutex
	calls []string
	count map[string]int
	Keys  map[string][]string // idempotency keys by call
}

// NewLedger returns an empty one.
func NewLedger(script Script) *Ledger {
	return &Ledger{script: script, count: map[string]int{}, Keys: map[string][]string{}}
}

// Calls is what has been called, in order.
func (l *Ledger) Calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// Note adds an entry.
func (l *Ledger) Note(entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, entry)
}

// Middleware notes planned retries.
func (l *Ledger) Middleware(next engine.Next) engine.Next {
	return func(ctx context.Context, ev engine.Event) error {
		if ev.Kind == "reactor.step.retry" {
			l.Note(fmt.Sprintf("retry:%s#%d", ev.Path, ev.Attempt))
		}
		return next(ctx, ev)
	}
}

// A Value is what scripted steps pass on; it breaks its contract if negative.
type Value struct{ N int }

// Validate refuses negative values.
func (v Value) Validate() error {
	if v.N < 0 {
		return engine.FieldErrors{"N": "must not be negative"}
	}
	return nil
}

// Act does what the script says of the next call of a name.
func (l *Ledger) Act(ctx context.Context, entry, name string) (Value, error) {
	l.mu.Lock()
	l.calls = append(l.calls, entry)
	words := strings.Fields(l.script[name])
	n := l.count[name]
	l.count[name]++
	l.Keys[entry] = append(l.Keys[entry], engine.RunFrom(ctx).IdempotencyKey())
	l.mu.Unlock()
	if len(words) == 0 {
		return Value{1}, nil
	}
	switch word := words[min(n, len(words)-1)]; word {
	case "ok":
		return Value{1}, nil
	case "err":
		return Value{}, fmt.Errorf("%s: %w", name, ErrScripted)
	case "permanent":
		return Value{}, engine.Permanent(fmt.Errorf("%s: %w", name, ErrScripted))
	case "panic":
		panic(name + " panics")
	case "halt":
		return Value{}, engine.Halt(name + " halts")
	case "skip":
		return Value{7}, engine.Skip(name + " has nothing to do")
	case "invalid":
		return Value{-1}, nil
	default:
		panic("sequence: no such word: " + word)
	}
}

// Plain adds a step with body, compensate and undo as scripted.
func (l *Ledger) Plain(b *engine.Builder, name string, in engine.Ref[Value]) *engine.StepNode[Value, Value] {
	return engine.Step(b, name, in, func(ctx context.Context, _ Value) (Value, error) {
		return l.Act(ctx, "run:"+name, name)
	}).Undo(func(ctx context.Context, _, _ Value) error {
		_, err := l.Act(ctx, "undo:"+name, "undo:"+name)
		return err
	}).Compensate(func(ctx context.Context, _ Value, _ error) error {
		_, err := l.Act(ctx, "comp:"+name, "comp:"+name)
		return err
	})
}

// Guarded is Plain with a guard hook.
func (l *Ledger) Guarded(b *engine.Builder, name string, in engine.Ref[Value]) *engine.StepNode[Value, Value] {
	return l.Plain(b, name, in).Guard(func(ctx context.Context, _ Value) error {
		_, err := l.Act(ctx, "guard:"+name, "guard:"+name)
		return err
	})
}

// chain defines a reactor whose steps read one another: the first reads the
// input. Settle may add settings to a step.
func chain(names string, settle func(name string, s *engine.StepNode[Value, Value])) func(l *Ledger) *engine.Reactor[int, int] {
	return func(l *Ledger) *engine.Reactor[int, int] {
		return engine.MustDefine("chain", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
			last := engine.Pick(in, func(n int) Value { return Value{n} })
			for _, name := range strings.Fields(names) {
				step := l.Plain(b, name, last)
				if settle != nil {
					settle(name, step)
				}
				last = step
			}
			return engine.Pick(last, func(v Value) int { return v.N })
		})
	}
}

// guarded is chain with a guard hook on b.
func guarded(names string, attempts int) func(l *Ledger) *engine.Reactor[int, int] {
	return func(l *Ledger) *engine.Reactor[int, int] {
		return engine.MustDefine("guarded", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
			last := engine.Pick(in, func(n int) Value { return Value{n} })
			for _, name := range strings.Fields(names) {
				if name == "b" {
					last = l.Guarded(b, name, last).Retry(attempts, engine.Fixed(10*time.Millisecond))
					continue
				}
				last = l.Plain(b, name, last)
			}
			return engine.Pick(last, func(v Value) int { return v.N })
		})
	}
}

// retrying gives step b some attempts.
func retrying(attempts int) func(string, *engine.StepNode[Value, Value]) {
	return func(name string, s *engine.StepNode[Value, Value]) {
		if name == "b" {
			s.Retry(attempts, engine.Fixed(10*time.Millisecond))
		}
	}
}

// independent has b beside a, and c, d after both in source order.
func independent(l *Ledger) *engine.Reactor[int, int] {
	return engine.MustDefine("independent", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		first := engine.Pick(in, func(n int) Value { return Value{n} })
		l.Plain(b, "a", first)
		l.Plain(b, "b", first)
		d := l.Plain(b, "d", l.Plain(b, "c", first))
		return engine.Pick(d, func(v Value) int { return v.N })
	})
}

// panicky has a function that makes b's input and panics.
func panicky(l *Ledger) *engine.Reactor[int, int] {
	return engine.MustDefine("panicky", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := l.Plain(b, "a", engine.Pick(in, func(n int) Value { return Value{n} }))
		bad := l.Plain(b, "b", engine.Pick(a, func(Value) Value { panic("no input") }))
		return engine.Pick(bad, func(v Value) int { return v.N })
	})
}

// refusing makes an input of b that breaks its contract.
func refusing(l *Ledger) *engine.Reactor[int, int] {
	return engine.MustDefine("refusing", func(b *engine.Builder, in engine.Ref[int]) engine.Ref[int] {
		a := l.Plain(b, "a", engine.Pick(in, func(n int) Value { return Value{n} }))
		bad := l.Plain(b, "b", engine.Pick(a, func(Value) Value { return Value{-5} }))
		return engine.Pick(bad, func(v Value) int { return v.N })
	})
}

// Cases are the sequences of plain steps.
var Cases = []Case{
	{Name: "all done", Build: chain("a b c", nil), Want: "run:a run:b run:c => completed"},
	{Name: "a body fails", Build: chain("a b c", nil), Script: Script{"b": "err"},
		Want: "run:a run:b comp:b undo:a => failed(b)"},
	{Name: "a compensate fails", Build: chain("a b", nil), Script: Script{"b": "err", "comp:b": "err"},
		Want: "run:a run:b comp:b undo:a => failed(b)", Failed: []string{"compensate b"}},
	{Name: "an undo fails", Build: chain("a b c", nil), Script: Script{"c": "err", "undo:b": "err"},
		Want: "run:a run:b run:c comp:c undo:b undo:a => failed(c)", Failed: []string{"undo b"}},
	{Name: "an undo panics", Build: chain("a b c", nil), Script: Script{"c": "err", "undo:b": "panic"},
		Want: "run:a run:b run:c comp:c undo:b undo:a => failed(c)", Failed: []string{"undo b"}},
	{Name: "a hook halts", Build: chain("a b c", nil), Script: Script{"c": "err", "undo:b": "halt", "undo:a": "skip"},
		Want: "run:a run:b run:c comp:c undo:b undo:a => failed(c)"},
	{Name: "a body halts", Build: chain("a b c", nil), Script: Script{"b": "halt"},
		Want: "run:a run:b => halted(b)"},
	{Name: "a body skips and a later one fails", Build: chain("a b c", nil), Script: Script{"b": "skip", "c": "err"},
		Want: "run:a run:b run:c comp:c undo:a => failed(c)"},
	{Name: "the last body skips", Build: chain("a b", nil), Script: Script{"b": "skip"},
		Want: "run:a run:b => completed"},
	{Name: "an input can't be made", Build: panicky, Want: "run:a undo:a => failed(b)"},
	{Name: "a result is invalid", Build: chain("a b", nil), Script: Script{"b": "invalid"},
		Want: "run:a run:b comp:b undo:a => failed(b)"},
	{Name: "independent nodes", Build: independent, Script: Script{"d": "err"},
		Want: "run:a run:b run:c run:d comp:d undo:c undo:b undo:a => failed(d)"},
	{Name: "a body panics", Build: chain("a b", nil), Script: Script{"b": "panic"},
		Want: "run:a run:b comp:b undo:a => failed(b)"},
	{Name: "an input is invalid", Build: refusing, Want: "run:a undo:a => failed(b)"},
	{Name: "a guard hook refuses", Build: guarded("a b", 3), Script: Script{"guard:b": "err"},
		Want: "run:a guard:b undo:a => failed(b)"},
	{Name: "a guard hook panics", Build: guarded("a b", 3), Script: Script{"guard:b": "panic"},
		Want: "run:a guard:b undo:a => failed(b)"},
	{Name: "a guard hook refuses the second attempt", Build: guarded("a b", 3), Script: Script{"guard:b": "ok err", "b": "err"},
		Want: "run:a guard:b run:b retry:b#1 guard:b comp:b undo:a => failed(b)"},
	{Name: "a guard hook skips", Build: guarded("a b c", 1), Script: Script{"guard:b": "skip"},
		Want: "run:a guard:b run:c => completed"},
	{Name: "a guard hook halts", Build: guarded("a b c", 1), Script: Script{"guard:b": "halt"},
		Want: "run:a guard:b => halted(b)"},
	{Name: "attempts are used up", Build: chain("a b", retrying(3)), Script: Script{"b": "err"},
		Want: "run:a run:b retry:b#1 run:b retry:b#2 run:b comp:b undo:a => failed(b)"},
	{Name: "a permanent error", Build: chain("a b", retrying(3)), Script: Script{"b": "permanent"},
		Want: "run:a run:b comp:b undo:a => failed(b)"},
	{Name: "a retry works", Build: chain("a b c", retrying(2)), Script: Script{"b": "err ok"},
		Want: "run:a run:b retry:b#1 run:b run:c => completed"},
	{Name: "both attempts panic", Build: chain("a b", retrying(2)), Script: Script{"b": "panic"},
		Want: "run:a run:b retry:b#1 run:b comp:b undo:a => failed(b)"},
	{Name: "a retry halts", Build: chain("a b c", retrying(3)), Script: Script{"b": "err halt"},
		Want: "run:a run:b retry:b#1 run:b => halted(b)"},
	{Name: "a retry skips", Build: chain("a b c", retrying(3)), Script: Script{"b": "err skip", "c": "err"},
		Want: "run:a run:b retry:b#1 run:b run:c comp:c undo:a => failed(c)"},
}

// Got writes a run in the notation of the cases.
func Got(calls []string, status engine.Status, path string) string {
	end := string(status)
	if path != "" {
		end += "(" + path + ")"
	}
	return strings.TrimSpace(strings.Join(calls, " ")) + " => " + end
}

// Trace is what the stored trace must say where the calls are as in want: no
// guard hooks and retries, and an entry for a skip or halt.
func Trace(want string) (entries []string) {
	calls, _, _ := strings.Cut(want, " => ")
	words := map[string]string{"run": "run", "comp": "compensate", "undo": "undo"}
	for _, call := range strings.Fields(calls) {
		kind, path, _ := strings.Cut(call, ":")
		if word := words[kind]; word != "" {
			entries = append(entries, word+" "+path)
		}
	}
	return entries
}

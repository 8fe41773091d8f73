package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
)

// event is one at the level of the run.
func (x *execution) event(kind string, fields map[string]any) Event {
	return Event{Kind: kind, Info: x.info("", 0, 0), Version: x.rec.Definition, RunKind: string(x.rec.Kind), Fields: fields}
}

// nodeEvent is one of a node.
func (x *execution) nodeEvent(kind string, row *NodeRow, phase string, fields map[string]any) Event {
	ev := x.event(kind, fields)
	ev.Path, ev.Phase, ev.Attempt, ev.Recovery = row.Path, phase, max(row.Attempt, 1), row.Recoveries
	return ev
}

// point fires an event of a node without work inside.
func (x *execution) point(ctx context.Context, kind string, row *NodeRow, phase string, fields map[string]any) {
	x.e.point(ctx, x.nodeEvent(kind, row, phase, fields))
}

// report fires how the execution ended, as the last thing inside it.
func (x *execution) report(ctx context.Context, end ending) error {
	switch {
	case end.way == ended && x.rec.Status == Aborted:
		x.e.point(ctx, x.event("reactor.run.interrupted", map[string]any{"error": x.rec.Reason}))
	case end.way == ended:
		x.e.point(ctx, x.event("reactor.run.ended", map[string]any{"status": string(x.rec.Status), "result": x.observed(x.def.out, x.rec.Output)}))
	case end.way == parked:
		x.e.point(ctx, x.event("reactor.run.parked", map[string]any{"wait": "time"}))
	default:
		x.e.point(ctx, x.event("reactor.run.interrupted", map[string]any{"error": end.String()}))
	}
	if x.rec.Status == Failed && x.failure != nil {
		return x.failure
	}
	return end.err
}

// String says how an execution ended without an end of its run.
func (n ending) String() string {
	switch n.way {
	case handedBack:
		return ErrShutdown.Error()
	case lapsed, lost:
		return ErrLeaseLost.Error()
	case unsaved:
		return "its state could not be stored: " + textOf(n.err)
	}
	return ""
}

func (x *execution) hookFields(t task) map[string]any {
	if t.n == nil {
		return nil
	}
	fields := map[string]any{"input": x.observed(t.n.in, t.row.Input)}
	if t.kind == "compensate" {
		if x.failure != nil {
			fields["cause"] = x.failure.text
		}
		return fields
	}
	fields["result"] = x.observed(t.n.out, t.row.Output)
	return fields
}

// hookEvent fires the end of a hook.
func (x *execution) hookEvent(ctx context.Context, t task, failure *RollbackError) {
	if failure == nil {
		x.point(ctx, "reactor."+t.kind+".completed", t.row, t.kind, map[string]any{"skipped": false})
		return
	}
	x.point(ctx, "reactor."+t.kind+".failed", t.row, t.kind, map[string]any{"reason": failure.Reason, "error": shown(textOf(failure.Err), x.e.config.Limits.ErrorText, x.secretsIfKnown(t))})
}

// tellUnwritten fires the ends of the hooks that nobody wrote.
func (x *execution) tellUnwritten(ctx context.Context) {
	for _, t := range x.unwritten {
		x.point(ctx, "reactor."+t.kind+".completed", t.row, t.kind, map[string]any{"skipped": true})
	}
	x.unwritten = nil
}

func (x *execution) secretsIfKnown(t task) []string {
	if t.n == nil {
		return nil
	}
	return x.secretsOf(t)
}

// redacted is a plain value as observers may see it; nil if there are none.
func (x *execution) redacted(t reflect.Type, raw json.RawMessage) json.RawMessage {
	if raw == nil || len(x.e.config.Middleware) == 0 {
		return nil
	}
	return redactionOf(t).apply(raw)
}

// observed is redacted for a value in its stored form.
func (x *execution) observed(t reflect.Type, sealed json.RawMessage) json.RawMessage {
	if sealed == nil || len(x.e.config.Middleware) == 0 {
		return nil
	}
	plain, err := x.e.unseal(sealed)
	if err != nil {
		return nil
	}
	return redactionOf(t).apply(plain)
}

// count words a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

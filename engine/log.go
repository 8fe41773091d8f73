package engine

import (
	"context"
	"log/slog"
	"time"
)

// log writes a line about the run: what happened in words, and its name in the
// attribute event.
func (x *execution) log(level slog.Level, event, what string, attributes ...any) {
	ctx := context.Background()
	if !x.e.config.Logger.Enabled(ctx, level) {
		return
	}
	about := []any{"run", x.rec.ID, "reactor", x.rec.Reactor, "kind", string(x.rec.Kind), "event", event}
	x.e.config.Logger.Log(ctx, level, what, append(about, attributes...)...)
}

// logClaim tells a take-over from a claim.
func (x *execution) logClaim(c *Claimed) {
	if x.taken {
		x.log(slog.LevelInfo, "reactor.run.claimed", "a run is taken over from a dead owner",
			"process", c.Process, "previous_process", c.TakenFromProcess, "version", c.Version, "owner", c.Owner, "previous_owner", c.TakenFrom)
		return
	}
	x.log(slog.LevelDebug, "reactor.run.claimed", "a run is claimed", "process", c.Process, "version", c.Version)
}

// logEnd tells the end of the run.
func (x *execution) logEnd() {
	about := []any{"status", string(x.rec.Status), "duration", x.now().Sub(x.rec.Started).Round(time.Millisecond)}
	if x.rec.Parent != "" {
		about = append(about, "parent", x.rec.Parent)
	}
	if x.rec.Status != Failed {
		x.log(slog.LevelInfo, "reactor.run.finished", "a run has ended", about...)
		return
	}
	if x.failure != nil {
		about = append(about, "path", x.failure.Node, "failure", x.failure.text)
	}
	x.log(slog.LevelWarn, "reactor.run.finished", "a run has failed", about...)
}

// logWait tells that the run gives up its worker until a time.
func (x *execution) logWait(path string, wait time.Duration) {
	x.log(slog.LevelInfo, "reactor.run.parked", "a run waits for its next attempt", "path", path, "wait", "time", "due", x.now().Add(wait))
}

// logRetry tells of a planned attempt.
func (x *execution) logRetry(row *NodeRow, delay time.Duration, text string) {
	x.log(slog.LevelWarn, "reactor.step.retry", "an attempt failed; there will be another one", "path", row.Path, "attempt", row.Attempt, "delay", delay, "error", text)
}

// logFailure tells of a failure that is final, and of a broken contract.
func (x *execution) logFailure(row *NodeRow, r *RunError) {
	if r.Code == codeContract && !row.Begun {
		x.log(slog.LevelWarn, "reactor.step.invalid_input", "the input of a step is invalid", "path", row.Path, "attempt", row.Attempt, "fields", r.shownFields(x.e.config.Limits.ErrorText))
	}
	x.log(slog.LevelError, "reactor.step.failed", "a step has failed", "path", row.Path, "attempt", row.Attempt, "error", r.text)
}

// shownFields are the fields of a broken contract as people may read them.
func (r *RunError) shownFields(limit int) map[string]string {
	return cleanFields(r.Fields, limit, r.secrets)
}

func (x *execution) logLost(f *FenceError) {
	x.log(slog.LevelError, "reactor.run.ownership_lost", "reactor.run.ownership_lost", "answer", "lost",
		"token", x.fence.Token, "expected", f.Expected, "found", f.Found, "owner", f.Owner, "process", f.Process)
}

// logStorage tells, at a bounded rate, that the database can't be asked.
func (e *Engine) logStorage(operation string, every time.Duration, what string, err error, attributes ...any) {
	if e.mayComplain(operation, every) {
		e.config.Logger.Error(what, append([]any{"event", "reactor.storage.error", "operation", operation, "error", err}, attributes...)...)
	}
}

// warnings is a handler that drops what is less than a warning.
type warnings struct{ slog.Handler }

// Enabled reports whether a line is a warning or more, and wanted.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs keeps the bound.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the bound.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

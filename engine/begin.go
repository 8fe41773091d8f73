package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// begin creates a run that this process owns from its first row on.
func (e *Engine) begin(ctx context.Context, def *definition, in any) (*execution, error) {
	if err := e.ready(ctx, def); err != nil {
		return nil, err
	}
	plain, refused, err := e.prepare(def, in)
	if err != nil {
		return nil, err
	}
	run, err := e.newRun(def, plain, StartOptions{Priority: 1, Queue: e.config.Queue})
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, e.storeRefused(ctx, nil, run, refused)
	}
	run.Status = Running
	run.Fence = Fence{Run: run.ID, Token: NewUUID(), Process: e.processID()}
	now, err := e.createOwned(ctx, run)
	if err != nil && ctx.Err() != nil {
		return nil, callerGone(ctx)
	} else if err != nil {
		return nil, fmt.Errorf("reactor %s: create run: %w", def.name, err)
	}
	return e.ownNew(ctx, def, run, now), nil
}

// createOwned stores a run that is ours from its first row on. The end of the
// caller's context does not cut it off at once: a run that is there, is ours and
// is not driven would be nobody's business.
func (e *Engine) createOwned(caller context.Context, run NewRun) (now time.Time, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(caller))
	defer cancel()
	stop := context.AfterFunc(caller, func() { time.AfterFunc(lastSaveTime, cancel) })
	defer stop()
	created, err := e.config.Store.Create(ctx, nil, []NewRun{run})
	if err == nil {
		return created[0].Now, nil
	}
	if _, fenced := errors.AsType[*FenceError](err); !fenced && !errors.Is(err, ErrUnstorable) {
		e.disown(run)
	}
	return now, err
}

// lateCreation is how long a creation whose reply was lost may still land.
const lateCreation = time.Minute

// disown ends a run of ours of which we don't know whether it was created, if it
// was. Nothing of it has begun.
func (e *Engine) disown(run NewRun) {
	run.Fence.Version = 1
	c := Changes{WriteID: NewUUID(), Status: Aborted, Reason: "the reply to its creation was lost; nothing of it has begun"}
	began := time.Now()
	e.later(func(ctx context.Context) (answered bool, err error) {
		_, err = e.config.Store.Save(ctx, run.Fence, c)
		f, refused := errors.AsType[*FenceError](err)
		switch {
		case !refused:
			return err == nil, err
		case f.Status == "":
			return time.Since(began) > lateCreation, nil
		}
		run.Fence.Version = f.Found
		return f.Owner != run.Fence.Token, nil
	})
}

// ownNew is the execution of a run that was just created for us.
func (e *Engine) ownNew(ctx context.Context, def *definition, run NewRun, now time.Time) *execution {
	rec := &Record{Header: run.Header, Input: run.Input, Now: now}
	rec.Owner, rec.Process, rec.Version = run.Fence.Token, run.Fence.Process, 1
	rec.Created, rec.Started = now, now
	x := newExecution(ctx, e, def, rec, run.Fence.Process)
	x.here, x.inPlace = true, true
	return x
}

package engine

import (
	"context"
	"errors"
	"time"
)

// saveTime is how long one try of a save may take.
const saveTime = 10 * time.Second

// lastSaveTime is how long saves are tried once the process stops or the caller
// is gone.
const lastSaveTime = 3 * time.Second

// save stores changes under the fence. It goes on trying while the database
// can't be asked, with growing pauses, and while the lease of this process is
// over but nobody has taken the run. What it returns is final: nil, an error
// that matches ErrLeaseLost, or that nobody waits any longer; then what could
// not be stored is kept for letGo.
func (x *execution) save(c Changes) error {
	c.WriteID = NewUUID()
	ctx, stop := x.saveContext()
	defer stop()
	err := x.insist(ctx, c)
	if err != nil && ctx.Err() != nil {
		x.unsaved = &c
	}
	return err
}

// insist tries a save until its answer is final or ctx ends.
func (x *execution) insist(ctx context.Context, c Changes) error {
	pause := 10 * time.Millisecond
	for {
		err := x.trySave(ctx, c)
		if err == nil {
			x.apply(c)
			return nil
		}
		if again, final := x.refused(err); final != nil {
			return final
		} else if again {
			continue
		}
		x.e.logStorage("save", time.Second, "a save did not work; trying on", err, "run", x.rec.ID, "reactor", x.rec.Reactor)
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// unstorablePause is how long a run is left alone whose state the database
// refuses to take.
const unstorablePause = time.Minute

// letGo ends the ownership of a run for whose last state nobody could wait: it
// stores that as soon as the database can be asked, and then gives the run up,
// because this process may live on and would own the run with nobody at work on
// it. If the process ends before, others take the run over.
func (x *execution) letGo(why error) {
	if c := x.unsaved; c != nil {
		err := x.insist(x.e.life, *c)
		if err == nil && (c.Release || c.Status.Final()) || err != nil && !errors.Is(err, ErrUnstorable) {
			return
		}
	}
	c := Changes{Release: true, Due: true, WakeReason: "handed back"}
	if errors.Is(why, ErrUnstorable) {
		c.DueIn = unstorablePause
	}
	if x.here && x.caller.Err() != nil && x.rec.Status == Running {
		c = x.aborted(x.cutOffByLapse())
	}
	c.WriteID = NewUUID()
	_ = x.insist(x.e.life, c) // what refuses it has the run
}

func (x *execution) trySave(ctx context.Context, c Changes) error {
	if err := x.e.lease.await(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	version, err := x.e.config.Store.Save(ctx, x.fence, c)
	if err == nil {
		x.fence.Version = version
	}
	return err
}

// saveContext outlives the run's own: an outcome is to be stored also when the
// caller has gone. It is bounded once nobody can wait any longer.
func (x *execution) saveContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(x.e.life)
	giveUp := func() { time.AfterFunc(lastSaveTime, func() { cancel(ErrShutdown) }) }
	life := x.life
	stopCaller := context.AfterFunc(x.caller, giveUp)
	stopLife := context.AfterFunc(life, func() {
		if errors.Is(context.Cause(life), ErrShutdown) {
			giveUp()
		}
	})
	return ctx, func() { stopCaller(); stopLife(); cancel(nil) }
}

// refused judges the answer to a save: to be tried again at once, or final.
// Neither means that the database could not be asked.
func (x *execution) refused(err error) (again bool, final error) {
	if errors.Is(err, ErrUnstorable) {
		return false, err
	}
	f, ok := errors.AsType[*FenceError](err)
	switch {
	case !ok:
		return false, nil
	case f.Lost && f.Owner == x.fence.Token && x.fence.Process == x.e.processID():
		return false, nil // our lease is over, and nobody has taken the run: once renewed it is accepted
	case f.Lost:
		x.logLost(f)
		return false, f
	}
	return x.reread(f)
}

// reread looks why a save is stale although the token is ours: somebody with a
// right to do so has changed the header. The save is repeated on the version
// that is there; the node is not run again. A run whose status was changed is
// ours no more, whatever its token says.
func (x *execution) reread(f *FenceError) (again bool, final error) {
	ctx, cancel := context.WithTimeout(x.e.life, saveTime)
	defer cancel()
	now, err := x.e.config.Store.Get(ctx, x.rec.ID)
	switch {
	case err != nil:
		return false, nil
	case now.Owner == x.fence.Token && now.Status == x.rec.Status:
		again = now.Version != x.fence.Version
		x.fence.Version = now.Version
		return again, nil
	}
	f.Lost, f.Found, f.Owner, f.Process = true, now.Version, now.Owner, now.Process
	x.logLost(f)
	return false, f
}

// apply brings the loaded record up to what was saved.
func (x *execution) apply(c Changes) {
	if c.Status != "" {
		x.rec.Status = c.Status
	}
	if c.Rollback != "" {
		x.rec.Rollback = c.Rollback
	}
	if c.Output != nil {
		x.rec.Output = c.Output
	}
	if c.Failure != nil {
		x.rec.Failure = c.Failure
	}
	if c.Reason != "" {
		x.rec.Reason, x.rec.ReasonPath = c.Reason, c.ReasonPath
	}
	x.rec.Version = x.fence.Version
	for _, n := range c.Nodes {
		x.applyNode(n)
	}
}

func (x *execution) applyNode(n NodeChange) {
	row := n.NodeRow
	if old := x.nodes[row.Path]; old != nil && n.Keep {
		row.Input, row.Output = old.Input, old.Output
	}
	if row.State == NodeWaiting {
		row.Due = x.now().Add(n.DueIn)
	}
	x.nodes[row.Path] = &row
}

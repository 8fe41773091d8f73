package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Drive claims the runs of a wake-up and drives each until it ends, parks or is
// handed back; runs that others own, that are final or not due are passed over.
// It is for adapters that deliver wake-ups, such as package river: when ctx
// ends, bodies get ErrShutdown and their runs are handed back. The error is one
// of the start of the engine or of the claim; then nothing was claimed and the
// wake-up may be delivered again.
func (e *Engine) Drive(ctx context.Context, w Wake) error {
	defer e.hold()()
	switch {
	case ctx.Err() != nil:
		return callerGone(ctx)
	case len(w.Runs) == 0:
		return nil
	}
	if err := e.start(ctx); err != nil {
		return err
	}
	free, err := e.seats.take(ctx, e.stopping, len(w.Runs))
	if err != nil {
		return err
	}
	claims, err := e.claim(ctx, w, free)
	if err != nil {
		e.seats.free(free)
		return fmt.Errorf("claim runs: %w", err)
	}
	e.seats.free(free - len(claims.Claimed))
	var drives sync.WaitGroup
	for _, c := range claims.Claimed {
		drives.Go(func() {
			defer e.seats.free(1)
			e.driveClaimed(ctx, c)
		})
	}
	locked := e.notClaimed(claims.Refused)
	drives.Wait()
	return e.again(ctx, w, locked)
}

// lockedPause is how long a claim waits before it tries a locked run once more.
const lockedPause = 50 * time.Millisecond

// again tries runs whose rows were locked once more, one by one.
func (e *Engine) again(ctx context.Context, w Wake, locked []string) error {
	for _, run := range locked {
		select {
		case <-ctx.Done():
			return nil // the sweep wakes it
		case <-time.After(lockedPause):
		}
		if _, err := e.seats.take(ctx, e.stopping, 1); err != nil {
			return nil
		}
		claims, err := e.claim(ctx, Wake{Runs: []string{run}, Queue: w.Queue, Priority: w.Priority}, 1)
		for _, c := range claims.Claimed {
			e.driveClaimed(ctx, c)
		}
		e.seats.free(1)
		if err != nil {
			return fmt.Errorf("claim runs: %w", err)
		}
	}
	return nil
}

// claim asks for as many runs as there are seats; the others are queued anew in
// the same transaction.
func (e *Engine) claim(ctx context.Context, w Wake, seats int) (Claims, error) {
	c := Claim{Process: e.processID(), Knows: e.names()}
	for _, run := range w.Runs[:seats] {
		if isUUID(run) {
			c.Wants = append(c.Wants, Want{Run: run, Token: NewUUID(), WriteID: NewUUID()})
		}
	}
	if rest := w.Runs[seats:]; len(rest) > 0 {
		c.Rest = []Wake{{Runs: rest, Queue: w.Queue, Priority: w.Priority}}
	}
	if len(c.Wants) == 0 && len(c.Rest) == 0 {
		return Claims{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	claims, err := e.config.Store.Claim(ctx, c)
	if err != nil {
		c.Rest = nil
		e.later(func(ctx context.Context) (bool, error) { return e.disclaim(ctx, c) })
	}
	return claims, err
}

// disclaim finds out what became of a claim whose reply was lost, and gives up
// what it got: this process would own those runs with nobody at work on them.
func (e *Engine) disclaim(ctx context.Context, c Claim) (answered bool, err error) {
	claims, err := e.config.Store.Claim(ctx, c)
	for _, got := range claims.Claimed {
		x := newExecution(e.life, e, e.definitionOf(got.Reactor, got.Definition), &got.Record, got.Process)
		go x.letGo(nil)
	}
	unsure := slices.ContainsFunc(claims.Refused, func(r Refusal) bool { return r.Why == WhyNoLease })
	return err == nil && (!unsure || c.Process != e.processID()), err
}

// notClaimed logs why, and returns the runs whose rows were locked.
func (e *Engine) notClaimed(refused []Refusal) (locked []string) {
	for _, r := range refused {
		switch {
		case r.Why == WhyLocked:
			locked = append(locked, r.Run)
		case r.Why == WhyUnknown && e.seldom("unknown "+r.Reactor, time.Minute):
			e.config.Logger.Warn("a run is left to other processes: its reactor, or that version, is not registered here", "event", "reactor.run.unknown", "run", r.Run, "reactor", r.Reactor)
		default:
			e.config.Logger.Debug("nothing to drive", "event", "reactor.wake.dropped", "run", r.Run, "reactor", r.Reactor, "reason", string(r.Why))
		}
	}
	return locked
}

// driveClaimed drives one run that was claimed for workers.
func (e *Engine) driveClaimed(ctx context.Context, c Claimed) {
	def := e.definitionOf(c.Reactor, c.Definition)
	x := newExecution(ctx, e, def, &c.Record, e.processID())
	x.fence.Process = c.Process
	x.taken, x.inPlace = c.TakenFrom != "", e.memory != nil
	x.logClaim(&c)
	if end := e.drive(x); end.way == unsaved {
		e.logStorage("last save", time.Second, "a run's state could not be stored in time; it goes on once the database can be asked", end.err, "run", c.ID, "reactor", c.Reactor)
	}
}

// drive carries an execution to its end. After a lapse of the lease it goes on
// where the store has the run, if it is still ours.
func (e *Engine) drive(x *execution) ending {
	end := e.driveOnce(x)
	for end.way == lapsed {
		again, err := e.regain(x)
		if err != nil {
			end = x.saved(err)
			break
		}
		x.continueAs(again)
		end = e.driveOnce(x)
	}
	if end.way == unsaved && e.life.Err() == nil {
		last := *x // which the caller still reads
		last.rec = new(Record)
		*last.rec = *x.rec
		go last.letGo(end.err)
	}
	return end
}

func (e *Engine) driveOnce(x *execution) ending {
	if !e.enter(x) {
		return x.giveBack()
	}
	defer e.leave(x)
	end, fits := x.fit()
	if fits {
		end = x.drive()
	}
	if x.rec.Status.Final() {
		x.logEnd()
		e.announce(x.rec.ID)
	}
	return end
}

// regain waits until the lease lives again, and reads whether the run is still
// ours.
func (e *Engine) regain(x *execution) (*Record, error) {
	ctx, stop := x.regainContext()
	defer stop()
	for {
		if err := e.lease.await(ctx); err != nil {
			return nil, err
		}
		asking, cancel := context.WithTimeout(ctx, saveTime)
		rec, err := e.config.Store.Get(asking, x.rec.ID)
		cancel()
		switch {
		case err == nil && (rec.Owner != x.fence.Token || x.fence.Process != e.processID()):
			x.logLost(&FenceError{Run: x.rec.ID, Lost: true, Expected: x.fence.Version, Found: rec.Version, Owner: rec.Owner, Process: rec.Process})
			return nil, ErrLeaseLost
		case err == nil && rec.Lease.After(rec.Now):
			return rec, nil
		case errors.Is(err, ErrRunNotFound):
			return nil, errors.Join(ErrLeaseLost, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockedPause):
		}
	}
}

// regainContext ends soon after the caller's, and after the engine begins to
// close.
func (x *execution) regainContext() (context.Context, func()) {
	ctx, stop := x.saveContext()
	ctx, cancel := context.WithCancelCause(ctx)
	stopping := x.e.stopping // x itself is replaced by what goes on
	go func() {
		select {
		case <-ctx.Done():
		case <-stopping:
			time.AfterFunc(lastSaveTime, func() { cancel(ErrShutdown) })
		}
	}()
	return ctx, func() { cancel(nil); stop() }
}

// continueAs is the execution that goes on with the run after a lapse. What it
// knew by itself, it keeps: the caller must find its own x again.
func (x *execution) continueAs(rec *Record) {
	y := newExecution(x.caller, x.e, x.def, rec, x.fence.Process)
	y.here, y.inPlace, y.causes = x.here, x.inPlace, x.causes
	if x.cutRow != nil && y.nodes[x.cutRow.Path] == nil {
		y.nodes[x.cutRow.Path] = x.cutRow
	}
	*x = *y
}

// fit compares the run's graph with the definition at hand. A run that does not
// fit is given up with the reason, until a process with a fitting definition
// appears.
func (x *execution) fit() (ending, bool) {
	if x.rec.Fingerprint == x.def.stored.Fingerprint && x.rec.Blocked == "" {
		return ending{}, true
	}
	why, err := x.misfit()
	if err != nil {
		return ending{way: unsaved, err: err}, false
	}
	if why != "" {
		if err := x.save(Changes{Release: true, Blocked: &why}); err != nil {
			return x.saved(err), false
		}
		x.log(slog.LevelWarn, "reactor.run.blocked", "a run is blocked: the definition at hand does not fit", "blocked", why)
		return ending{way: parked}, false
	}
	none := ""
	err = x.save(Changes{Blocked: &none, Fingerprint: x.def.stored.Fingerprint})
	return x.saved(err), err == nil
}

// misfit is why the run does not fit; "" if it does. An error means that the
// database could not be asked for its graph.
func (x *execution) misfit() (string, error) {
	if x.rec.Fingerprint == x.def.stored.Fingerprint {
		return "", nil
	}
	stored, err := x.graphStored()
	if err != nil {
		return "", err
	}
	if stored == nil {
		return "graph " + x.rec.Fingerprint + " is not stored", nil
	}
	old, err := readGraph(stored)
	if err != nil {
		return "its stored graph can't be read: " + cleanText(textOf(err), 1<<10), nil
	}
	difference := x.def.graph.misfit(old, func(name string) bool { return x.nodes[name] != nil })
	if difference == "" {
		return "", nil
	}
	return fmt.Sprintf("definition v%d (%s) does not fit its graph %s: %s; it goes on with a build that fits", x.def.version, x.def.stored.Fingerprint, x.rec.Fingerprint, difference), nil
}

// graphStored reads the graph that the run has begun with, trying on while the
// database can't be asked.
func (x *execution) graphStored() (*StoredGraph, error) {
	ctx, stop := x.saveContext()
	defer stop()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		asking, cancel := context.WithTimeout(ctx, saveTime)
		stored, err := x.e.config.Store.Graph(asking, x.rec.Fingerprint)
		cancel()
		if err == nil {
			return stored, nil
		}
		x.e.logStorage("load graph", time.Second, "the graph of a run could not be loaded; trying on", err, "run", x.rec.ID, "reactor", x.rec.Reactor)
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// Works tells the engine that this process has workers for a queue, with room
// for so many runs at once, and begins heartbeat and sweeper in the background.
// It is for adapters, before their workers start.
func (e *Engine) Works(queue string, seats int) {
	e.mu.Lock()
	if !slices.Contains(e.queues, queue) {
		e.queues = append(e.queues, queue)
	}
	e.seats.limit(seats)
	e.mu.Unlock()
	go e.startInBackground()
}

// startInBackground begins as soon as the database can be asked.
func (e *Engine) startInBackground() {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(e.life, saveTime)
		err := e.start(ctx)
		cancel()
		if err == nil || e.isClosing() {
			return
		}
		e.logStorage("start", 10*time.Second, "the engine can't begin yet; trying on", err)
		select {
		case <-e.life.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Queue is the queue of the engine's wake-ups.
func (e *Engine) Queue() string { return e.config.Queue }

// Logger is the engine's logger.
func (e *Engine) Logger() *slog.Logger { return e.config.Logger }

// StartJSON stores a run of the newest registered version of a reactor, for
// adapters and tools that have JSON. An input that breaks its contract is
// stored as a failed run, whose id is returned without an error. Its errors
// match ErrNotRegistered, ErrKeyConflict or are those of the database.
func (e *Engine) StartJSON(ctx context.Context, reactor string, input json.RawMessage, o StartOptions) (runID string, err error) {
	if err := e.start(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	def := e.newest[reactor]
	e.mu.Unlock()
	if def == nil {
		return "", refuse(ErrNotRegistered, "reactor %s is not registered in this process: give it to engine.New", cleanText(reactor, maxName))
	}
	if o, err = e.options(def, "StartJSON", []StartOptions{o}, false); err != nil {
		return "", refuse(ErrUnstorable, "%s", err)
	}
	if err := checkJSON(input, e.config.Limits.Value); err != nil {
		return "", fmt.Errorf("reactor %s: input: %w", reactor, err)
	}
	normal, refused := def.accept(e, input)
	run, err := e.newRun(def, normal, o)
	if err != nil {
		return "", err
	}
	if refused != nil {
		failure := e.storeRefused(ctx, nil, run, refused)
		if r, ok := errors.AsType[*RunError](failure); ok {
			return r.RunID, nil
		}
		return "", failure
	}
	created, err := e.create(ctx, nil, []NewRun{run})
	if err != nil {
		return "", err
	}
	return created[0].ID, nil
}

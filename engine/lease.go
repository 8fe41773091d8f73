package engine

import (
	"context"
	"sync"
	"time"
)

// lease is what this process may believe of its own lease: it lives for its
// length from when the last confirmed renewal was sent, by the monotonic clock,
// which is never later than others may take over.
type lease struct {
	length  time.Duration
	onLapse func()

	mu        sync.Mutex
	until     time.Time
	timer     *time.Timer
	confirmed chan struct{} // closed and replaced by each renewal
}

func newLease(length time.Duration, onLapse func()) *lease {
	return &lease{length: length, onLapse: onLapse, confirmed: make(chan struct{})}
}

// confirm notes a renewal that was sent at a time and has been answered.
func (l *lease) confirm(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(l.length)
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.until), l.lapse)
	} else {
		l.timer.Reset(time.Until(l.until))
	}
	close(l.confirmed)
	l.confirmed = make(chan struct{})
}

func (l *lease) lapse() {
	if !l.lives() {
		l.onLapse()
	}
}

// lives reports whether the lease is not over.
func (l *lease) lives() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// await blocks until the lease lives or ctx ends.
func (l *lease) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		lives, confirmed := time.Now().Before(l.until), l.confirmed
		l.mu.Unlock()
		if lives {
			return nil
		}
		select {
		case <-confirmed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// heartbeat renews the lease of the process until the engine ends. A process
// that finds its row gone begins again under a new id; what it owned is lost.
func (e *Engine) heartbeat() {
	wait := e.config.Heartbeat
	for {
		select {
		case <-e.life.Done():
			return
		case <-time.After(wait):
		}
		wait = e.config.Heartbeat
		if err := e.beat(); err != nil {
			wait = min(e.config.Heartbeat, 250*time.Millisecond)
			e.logStorage("heartbeat", 10*time.Second, "the lease of this process could not be renewed; trying on", err, "process", e.processID())
		}
	}
}

func (e *Engine) beat() error {
	ctx, cancel := context.WithTimeout(e.life, max(e.config.Heartbeat, time.Second))
	defer cancel()
	sent := time.Now()
	known, err := e.config.Store.Beat(ctx, e.processID(), e.config.Lease)
	switch {
	case err != nil:
		return err
	case known:
		e.lease.confirm(sent)
		return nil
	}
	if e.seldom("process gone", 10*time.Second) {
		e.config.Logger.Warn("the row of this process is gone; it goes on under a new id, and what it owned is lost to it", "event", "reactor.process.gone", "process", e.processID())
	}
	e.interrupt(ErrLeaseLost)
	return e.enrol(ctx, NewUUID())
}

// sweeper runs passes until the engine stops, one at once.
func (e *Engine) sweeper() {
	for {
		if err := e.pass(); err != nil && e.life.Err() == nil {
			e.logStorage("sweep", 10*time.Second, "sweep did not work; trying on", err)
		}
		select {
		case <-e.stopping:
			return
		case <-e.life.Done():
			return
		case <-time.After(e.config.Sweep):
		}
	}
}

func (e *Engine) pass() error {
	ctx, cancel := context.WithTimeout(e.life, max(10*e.config.Sweep, 10*time.Second))
	defer cancel()
	result, err := e.config.Store.Sweep(ctx, SweepPass{Interval: e.config.Sweep, Limit: e.config.SweepLimit})
	e.warnUnworked(result.Unworked) // also beside an error, which may be that of one run
	return err
}

// warnUnworked says once a minute that nobody works a queue.
func (e *Engine) warnUnworked(unworked []Unworked) {
	for _, u := range unworked {
		if e.seldom("unworked "+u.Queue, time.Minute) {
			e.config.Logger.Warn(u.String(), "event", "reactor.queue.unworked", "queue", u.Queue, "runs", u.Runs)
		}
	}
}

// String says what is wrong and what to do.
func (u Unworked) String() string {
	return "no process works queue \"" + u.Queue + "\": " + count(u.Runs, "run waits", "runs wait") +
		" (reactorriver.Attach(config, eng) before river.NewClient)"
}

// Sweep runs one pass of the sweeper and counts what it found, by step; engines
// with a dispatcher sweep by themselves.
func (e *Engine) Sweep(ctx context.Context) (found map[string]int, err error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	result, err := e.config.Store.Sweep(ctx, SweepPass{Limit: e.config.SweepLimit})
	return result.Found, err
}

// alarm queues the wake-up of a run after d, if that is sooner than a sweep
// would. If this process dies before, the sweep does it.
func (e *Engine) alarm(run string, d time.Duration) {
	if d > e.config.Sweep || e.isClosing() {
		return
	}
	time.AfterFunc(d, func() {
		ctx, cancel := context.WithTimeout(e.life, 5*time.Second)
		defer cancel()
		if err := e.config.Store.Wake(ctx, []string{run}); err != nil && e.life.Err() == nil {
			e.config.Logger.Debug("the sweep has to wake a run", "event", "reactor.wake.failed", "run", run, "error", err)
		}
	})
}

package engine

import (
	"context"
	"fmt"
	"time"
)

// Close ends heartbeat and sweeper once the bodies at work have returned, and
// gives back the runs it owns. A context that is over means: do not wait; then
// the contexts of bodies at work end with ErrShutdown, and the lease is kept
// for those that have still not returned.
func (e *Engine) Close(ctx context.Context) error {
	e.beginClosing()
	select {
	case <-e.idle:
	case <-ctx.Done():
		e.interrupt(ErrShutdown)
		select {
		case <-e.idle:
		case <-time.After(handBackTime):
			return fmt.Errorf("close engine: %s: %w", e.leftAtWork(), context.Cause(ctx))
		}
	}
	<-e.finished
	return nil
}

// handBackTime is what a Close that must not wait leaves to bodies that heed
// their context, so that their runs can be given back.
const handBackTime = 500 * time.Millisecond

func (e *Engine) beginClosing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	e.closing = true
	close(e.stopping)
	if e.holds == 0 {
		close(e.idle)
	}
	go e.finish()
}

// unregisterTime is how long a process that leaves tries to say so.
const unregisterTime = 2 * time.Second

// finish leaves the system once nothing is at work any more. Until then the
// heartbeat goes on.
func (e *Engine) finish() {
	defer close(e.finished)
	<-e.idle
	e.end()
	e.starting <- struct{}{} // one that had begun before may start the loops
	<-e.starting
	e.loops.Wait()
	e.lease.stop()
	process := e.processID()
	if process == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), unregisterTime)
	defer cancel()
	if err := e.config.Store.Unregister(ctx, process); err != nil {
		e.config.Logger.Warn("the row of this process stays until its lease is over", "event", "reactor.storage.error", "operation", "unregister", "process", process, "error", err)
	}
}

func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// hold notes a call that may come to own runs: Close waits for it, so that what
// it owns by then can be given back. On a closed engine such a call finds that
// out by itself.
func (e *Engine) hold() (drop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.holds--
		if e.closing && e.holds == 0 && !e.isIdle() {
			close(e.idle)
		}
	}
}

func (e *Engine) isIdle() bool {
	select {
	case <-e.idle:
		return true
	default:
		return false
	}
}

// enter notes an execution, so that it can be interrupted; false if the engine
// is closing.
func (e *Engine) enter(x *execution) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	e.work[x.fence.Token] = x
	return true
}

func (e *Engine) leave(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.work, x.fence.Token)
}

// leftAtWork says what Close would still have to wait for.
func (e *Engine) leftAtWork() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.work); n > 0 {
		return fmt.Sprintf("%d run(s) have a body that has not returned", n)
	}
	return "runs are still being given back"
}

// interrupt ends the contexts of everything at work.
func (e *Engine) interrupt(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.work {
		x.cancel(cause)
	}
}

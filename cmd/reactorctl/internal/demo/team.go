package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// A team is the workers, seen from the parent.
type team struct {
	events  chan event
	workers []*worker
}

// A worker is one process.
type worker struct {
	number int
	cmd    *exec.Cmd
	input  io.Closer // its end makes the worker stop
	killed bool
	ended  chan struct{}
}

func (w *worker) name() string { return fmt.Sprintf("worker %d", w.number) }

func (w *worker) pid() int { return w.cmd.Process.Pid }

// stopTime is how long a worker may take to stop by itself.
const stopTime = 8 * time.Second

// newTeam starts n workers and waits until all of them work.
func newTeam(ctx context.Context, program string, s site, n int) (*team, error) {
	t := &team{events: make(chan event, 256)}
	for number := range n {
		if err := t.hire(program, s, number+1); err != nil {
			return nil, errors.Join(err, t.stop())
		}
	}
	for range n {
		ev, err := t.next(ctx)
		if err == nil && ev.Kind != ready {
			err = ev.problem()
		}
		if err != nil {
			return nil, errors.Join(err, t.stop())
		}
	}
	return t, nil
}

// problem is the event of a worker that does not work.
func (ev event) problem() error {
	if ev.Error == "" {
		return fmt.Errorf("%s has ended", ev.worker.name())
	}
	return fmt.Errorf("%s: %s", ev.worker.name(), ev.Error)
}

// hire starts a worker, in a process group of its own: what a terminal sends to
// ours does not reach it.
func (t *team) hire(program string, s site, number int) error {
	cmd := exec.Command(program, "demo-worker")
	cmd.SysProcAttr = ownGroup()
	cmd.Stderr = os.Stderr // a panic's; what is foreseen is told
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start worker %d: %w", number, err)
	}
	w := &worker{number: number, cmd: cmd, input: input, ended: make(chan struct{})}
	t.workers = append(t.workers, w)
	go t.listen(w, output)
	if err := json.NewEncoder(input).Encode(s); err != nil {
		return fmt.Errorf("start worker %d: %w", number, err)
	}
	return nil
}

// listen hands on what a worker tells, until the process has ended.
func (t *team) listen(w *worker, output io.Reader) {
	d := json.NewDecoder(output)
	for {
		ev := event{worker: w}
		if d.Decode(&ev) != nil {
			break
		}
		t.events <- ev
	}
	_ = w.cmd.Wait() // how it ended is no news: it was told to, or killed
	close(w.ended)
	t.events <- event{Kind: gone, worker: w}
}

// next is the next event of any worker.
func (t *team) next(ctx context.Context) (event, error) {
	select {
	case ev := <-t.events:
		return ev, nil
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

// kill sends SIGKILL to the worker with a process id.
func (t *team) kill(pid int) (*worker, error) {
	i := slices.IndexFunc(t.workers, func(w *worker) bool { return w.pid() == pid })
	if i < 0 {
		return nil, fmt.Errorf("process %d is none of this demo's workers", pid)
	}
	w := t.workers[i]
	w.killed = true
	if err := w.cmd.Process.Kill(); err != nil {
		return nil, fmt.Errorf("kill %s: %w", w.name(), err)
	}
	return w, nil
}

// stop ends the workers and returns when none is left.
func (t *team) stop() error {
	for _, w := range t.workers {
		w.input.Close()
	}
	drained := make(chan struct{})
	go t.drain(drained)
	var problems sync.Map
	var all sync.WaitGroup
	for _, w := range t.workers {
		all.Go(func() {
			select {
			case <-w.ended:
			case <-time.After(stopTime):
				problems.Store(w.number, fmt.Errorf("%s did not stop within %s and was killed", w.name(), stopTime))
				_ = w.cmd.Process.Kill()
				<-w.ended
			}
		})
	}
	all.Wait()
	close(drained)
	var err error
	problems.Range(func(_, problem any) bool {
		err = errors.Join(err, problem.(error))
		return true
	})
	return err
}

// drain takes the events that nobody reads any more, so that nobody waits to
// tell them.
func (t *team) drain(done chan struct{}) {
	for {
		select {
		case <-t.events:
		case <-done:
			return
		}
	}
}

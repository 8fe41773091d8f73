package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

// system looks at processes and runs.
func (e *examination) system(ctx context.Context) error {
	if !e.fits {
		return nil
	}
	eng, err := e.app.reader(e.pool)
	if err != nil {
		return err
	}
	defer eng.Close(context.WithoutCancel(ctx))
	h, err := eng.Health(ctx)
	if err != nil {
		return err
	}
	e.processes(h)
	e.queues(h)
	e.runs(h)
	return e.operators(ctx, eng)
}

// processes lists who works, and who has stopped without a word.
func (e *examination) processes(h *engine.Health) {
	live := 0
	for _, p := range h.Processes {
		who := fmt.Sprintf("process %d on %s", p.PID, p.Host)
		if !p.Lease.After(h.Clock) {
			e.add("processes", warn, "nothing: workers take over what it had; its row goes away by itself",
				"%s has not renewed its lease, which ended %s; it has %s", who, term.Ago(h.Clock, p.Lease), term.Count(p.Owned, "run", "runs"))
			continue
		}
		live++
		e.add("processes", ok, "", "%s, up %s, drives %s; works %s; knows %s", who, term.Length(h.Clock.Sub(p.Started)),
			term.Count(p.Owned, "run", "runs"), listed(p.Queues, "no queue"), listed(p.Knows, "no reactor"))
	}
	if live == 0 {
		e.add("processes", warn, "start a program that has the reactors and workers", "no process is at work: runs wait")
	}
}

// mostListed is how many names are listed.
const mostListed = 8

func listed(names []string, none string) string {
	names = slices.Sorted(slices.Values(names))
	switch rest := len(names) - mostListed; {
	case len(names) == 0:
		return none
	case rest > 0:
		return strings.Join(names[:mostListed], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}

// queues lists those that nobody works although runs wait in them.
func (e *examination) queues(h *engine.Health) {
	for _, u := range h.Unworked {
		e.add("queues", bad, "start a program that works it",
			"no process works queue %q: %s (reactorriver.Attach(config, eng) before river.NewClient)", u.Queue, term.Count(u.Runs, "run waits", "runs wait"))
	}
	if len(h.Unworked) == 0 {
		e.add("queues", ok, "", "none has runs that wait and no process that works it")
	}
}

// runs counts the unfinished ones and lists those that nothing will wake.
func (e *examination) runs(h *engine.Health) {
	for i, s := range h.Stuck {
		if i == mostListed {
			e.add("runs", bad, "reactorctl runs --status pending,running,rolling_back lists them", "there are %d more like it", len(h.Stuck)-i)
			break
		}
		e.add("runs", bad, "reactorctl why "+s.Run, "run %s of reactor %s (%s) is stuck: %s", s.Run, s.Reactor, s.Status, s.Reason)
	}
	if len(h.Stuck) > 0 {
		return
	}
	var counts []string
	for _, status := range statuses {
		if n := h.Counts[engine.Status(status)]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	e.add("runs", ok, "", "none is stuck; not finished: %s", listedInOrder(counts, "none"))
}

func listedInOrder(texts []string, none string) string {
	if len(texts) == 0 {
		return none
	}
	return strings.Join(texts, ", ")
}

// operators counts the runs that wait for a person.
func (e *examination) operators(ctx context.Context, eng *engine.Engine) error {
	for _, q := range []struct {
		query      engine.Query
		what, todo string
	}{
		{engine.Query{Blocked: true}, "blocked: no worker has a definition that fits", "reactorctl runs --blocked lists them and says why"},
		{engine.Query{Inbox: true}, "waiting for an operator", "reactorctl runs --inbox lists them; reactorctl show says what is not rolled back"},
	} {
		page, err := eng.List(ctx, q.query)
		if err != nil {
			return err
		}
		n := term.Count(len(page.Runs), "run is", "runs are")
		if page.Next != "" {
			n = "more than " + n
		}
		if len(page.Runs) > 0 {
			e.add("operator", warn, q.todo, "%s %s", n, q.what)
		}
	}
	return nil
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/examples/checkout"
)

// An act is one order and how it must end.
type act struct {
	title string
	order checkout.Order
	kill  bool // the worker, while it charges

	status   engine.Status
	failedAt string
	undone   []string // steps, in the order of their undo
	calls    []string // that the services got
}

var acts = []act{
	{
		title:  "a book: all goes well",
		order:  checkout.Order{ID: "order-1", SKU: "book", Cents: 1990, Address: "1 Sea Road", Card: "4000-0000-0000-0002"},
		status: engine.Completed,
		calls:  []string{"hold", "charge", "ship"},
	},
	{
		title:    "a piano: the post does not take it, so what was done is undone",
		order:    checkout.Order{ID: "order-2", SKU: "piano", Cents: 499000, Address: nowhere, Card: "4000-0000-0000-0002"},
		status:   engine.Failed,
		failedAt: "ship",
		undone:   []string{"charge", "hold"},
		calls:    []string{"hold", "charge", "refund", "release"},
	},
	{
		title:  "a lamp: its worker is killed while the bank takes the money",
		order:  checkout.Order{ID: "order-3", SKU: "lamp", Cents: 5900, Address: "2 Hill Lane", Card: slowCard},
		kill:   true,
		status: engine.Completed,
		calls:  []string{"hold", "charge", "charge", "ship"},
	},
}

// actTime is how long an act may take on a slow machine, before the demo gives
// up.
const actTime = time.Minute

// play starts the run of an act and shows it until it has ended.
func (d *demo) play(ctx context.Context, a act) (*outcome, error) {
	d.stage.title(a.title)
	handle, err := d.reactor.Start(ctx, d.eng, a.order, engine.StartOptions{Tags: []string{"demo"}})
	if err != nil {
		return nil, err
	}
	o := &outcome{act: a, run: handle.ID}
	ctx, cancel := context.WithTimeoutCause(ctx, actTime, fmt.Errorf("run %s has not ended within %s", o.run, actTime))
	defer cancel()
	return o, d.follow(ctx, o)
}

// follow shows the events of a run until it has ended, and kills its worker if
// the act says so.
func (d *demo) follow(ctx context.Context, o *outcome) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	charging := false // the worker has told so
	for {
		select {
		case ev := <-d.team.events:
			d.stage.show(ev)
			charging = charging || ev.Kind == "reactor.step.started" && ev.Path == "charge"
			switch {
			case ev.Kind == gone && !ev.worker.killed || ev.Kind == broken:
				return ev.problem()
			case ev.Run == o.run && ev.Kind == "reactor.run.ended":
				return nil
			}
		case <-look.C:
			if o.kill && charging && o.killed == nil {
				if err := d.killCharging(ctx, o); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// killCharging kills the worker of a run once the bank has noted its call: then
// the worker is inside the step, and the money is taken.
func (d *demo) killCharging(ctx context.Context, o *outcome) (err error) {
	var pid int
	err = d.pool.QueryRow(ctx, `select worker from `+d.ledger.table+` where run_id = $1 and what = 'charge'`, o.run).Scan(&pid)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.killed, err = d.team.kill(pid); err != nil {
		return err
	}
	d.stage.say("the money is taken, the bank's answer on its way:")
	d.stage.say("SIGKILL to %s, process %d", o.killed.name(), pid)
	d.stage.say("its lease runs out; then another one goes on")
	return nil
}

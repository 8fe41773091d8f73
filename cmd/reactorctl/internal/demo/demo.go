package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/examples/checkout"
	"github.com/pgreactor/reactor/internal/pgdev"
	"github.com/pgreactor/reactor/migrations"
)

// Options say where and how the demo is played.
type Options struct {
	Database    string // URL of a database; "" starts a server that ends with the demo
	Schema      string // of our tables
	RiverSchema string // of River's; "" is the first of the search path
	Keep        bool   // go on until ctx ends
	Program     string // path of reactorctl, which the workers run
	Out         io.Writer
	Colored     bool

	// Connect opens a pool and sees that the database answers.
	Connect func(ctx context.Context, url string) (*pgxpool.Pool, error)

	// Kept is called with Keep, when all is played: the demo ends when it returns.
	Kept func(Report) error
}

// A demo is one that is being played.
type demo struct {
	Options
	stage   *stage
	server  *pgdev.Server // nil on a database of others
	site    site
	pool    *pgxpool.Pool
	ledger  *ledger
	eng     *engine.Engine
	reactor *engine.Reactor[checkout.Order, checkout.Label]
	team    *team
}

// workers is how many work; one of them is killed.
const workers = 2

// Play plays the demo. Report says whether all ended as promised; an error says
// that it could not be played to its end. All that it started has ended when it
// returns.
func Play(ctx context.Context, o Options) (r Report, err error) {
	d := &demo{Options: o, stage: &stage{out: o.Out, colored: o.Colored}}
	defer func() { err = errors.Join(err, d.end()) }()
	if err := d.begin(ctx); err != nil {
		return r, err
	}
	var outcomes []*outcome
	for _, a := range acts {
		outcome, err := d.play(ctx, a)
		if err != nil {
			return r, err
		}
		outcomes = append(outcomes, outcome)
	}
	for _, outcome := range outcomes {
		if err := d.read(ctx, outcome); err != nil {
			return r, err
		}
	}
	r = d.report(outcomes)
	if o.Keep && o.Kept != nil {
		return r, d.keep(r)
	}
	return r, nil
}

// keep lets the audience look around, while events go on.
func (d *demo) keep(r Report) error {
	done := make(chan struct{})
	defer close(done)
	go d.team.drain(done)
	return d.Kept(r)
}

// begin opens the database, makes the tables and starts the workers.
func (d *demo) begin(ctx context.Context) (err error) {
	d.site = site{Database: d.Database, Schema: d.Schema, RiverSchema: d.RiverSchema}
	if d.Database == "" {
		if err := d.startServer(ctx); err != nil {
			return err
		}
	}
	if d.pool, err = d.Connect(ctx, d.site.Database); err != nil {
		return err
	}
	if err := migrations.Up(ctx, d.pool, migrations.Options{Schema: d.Schema, RiverSchema: d.RiverSchema}); err != nil {
		return err
	}
	d.ledger = newLedger(d.pool, d.Schema)
	if err := d.ledger.create(ctx); err != nil {
		return err
	}
	d.stage.printf("schema %q migrated\n", d.Schema)
	if d.eng, d.reactor, err = d.site.engine(d.pool, engine.Config{NoSweep: true}); err != nil {
		return err
	}
	if d.team, err = newTeam(ctx, d.Program, d.site, workers); err != nil {
		return err
	}
	d.stage.printf("%d workers started: process %d and process %d\n", workers, d.team.workers[0].pid(), d.team.workers[1].pid())
	d.stage.printf("%s\n", term.Wrap(fmt.Sprintf("Their leases last %s and are renewed every %s, so that you see the take-over soon; by default it is 8s and 2s.", lease, heartbeat), 0))
	return nil
}

func (d *demo) startServer(ctx context.Context) (err error) {
	d.stage.printf("starting a PostgreSQL, which the first time may have to be downloaded ...\n")
	if d.server, err = pgdev.Start(ctx, pgdev.Options{Download: true}); err != nil {
		return err
	}
	d.site.Database = d.server.URL("postgres")
	d.stage.printf("PostgreSQL %s runs, in %s\n", d.server.Version(), d.server.Folder())
	return nil
}

// end ends what begin began, whatever of it there is.
func (d *demo) end() error {
	var problems []error
	if d.team != nil {
		problems = append(problems, d.team.stop())
	}
	if d.eng != nil {
		problems = append(problems, d.eng.Close(context.Background()))
	}
	if d.pool != nil {
		d.pool.Close()
	}
	if d.server != nil {
		problems = append(problems, d.server.Stop())
	}
	return errors.Join(problems...)
}

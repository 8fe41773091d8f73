package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/migrations"
	"github.com/pgreactor/reactor/pgstore"
)

// A Console is what a command has of the world around it.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(name string) string // the environment
}

// An app is what the commands share: the console and the flags that all have.
type app struct {
	console     Console
	database    string
	schema      string
	riverSchema string
	output      string
	noColor     bool
}

// tell writes one line of message for people, beside the result.
func (a *app) tell(format string, args ...any) {
	fmt.Fprintln(a.console.Err, term.OneLine(fmt.Sprintf(format, args...)))
}

// asJSON reports whether the result is to be JSON.
func (a *app) asJSON() bool { return a.output == "json" }

// colored reports whether out is a terminal that takes colours.
func (a *app) colored(out io.Writer) bool {
	return !a.noColor && a.console.Env("NO_COLOR") == "" && a.console.Env("TERM") != "dumb" && term.IsTerminal(out)
}

// writeJSON writes a result as JSON, indented.
func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// databaseURL is the connection string that the operating commands use.
func (a *app) databaseURL() (string, error) {
	if a.database != "" {
		return a.database, nil
	}
	if url := a.console.Env("DATABASE_URL"); url != "" {
		return url, nil
	}
	return "", usage("no database is named: give --database URL, or set DATABASE_URL")
}

// withPool runs f on a pool whose database answers.
func (a *app) withPool(ctx context.Context, f func(*pgxpool.Pool) error) error {
	url, err := a.databaseURL()
	if err != nil {
		return err
	}
	pool, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return f(pool)
}

// withEngine runs f on an engine that reads and drives nothing.
func (a *app) withEngine(ctx context.Context, f func(*engine.Engine) error) error {
	return a.withPool(ctx, func(pool *pgxpool.Pool) error {
		eng, err := a.reader(pool)
		if err != nil {
			return err
		}
		defer eng.Close(context.WithoutCancel(ctx))
		return f(eng)
	})
}

// reader is an engine that knows no reactor and so owns nothing.
func (a *app) reader(pool *pgxpool.Pool) (*engine.Engine, error) {
	eng, err := engine.New(engine.Config{
		Store:  pgstore.New(pool, pgstore.Options{Schema: a.schema}),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, usage("%v", err) // nothing but the flags can be wrong
	}
	return eng, nil
}

// withMigrator runs f on a migrator of the schemas that the flags name.
func (a *app) withMigrator(ctx context.Context, f func(*migrations.Migrator, *pgxpool.Pool) error) error {
	return a.withPool(ctx, func(pool *pgxpool.Pool) error {
		m, err := a.migrator(pool)
		if err != nil {
			return err
		}
		return f(m, pool)
	})
}

func (a *app) migrator(pool *pgxpool.Pool) (*migrations.Migrator, error) {
	m, err := migrations.New(pool, migrations.Options{Schema: a.schema, RiverSchema: a.riverSchema})
	if err != nil {
		return nil, usage("%v", err)
	}
	return m, nil
}

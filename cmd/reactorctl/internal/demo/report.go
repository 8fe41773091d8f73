package demo

import (
	"fmt"
	"io"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
	"github.com/pgreactor/reactor/engine"
)

// A Report is how the demo ended.
type Report struct {
	OK          bool   `json:"ok"`                 // all runs ended as promised
	Database    string `json:"database,omitempty"` // URL of the demo's own server, with Keep
	Schema      string `json:"schema"`
	RiverSchema string `json:"river_schema,omitempty"`
	Runs        []Run  `json:"runs"`
}

// A Run is one order of the demo.
type Run struct {
	Order    string        `json:"order"`
	RunID    string        `json:"run_id"`
	Status   engine.Status `json:"status"`
	Story    string        `json:"story"`
	Done     int           `json:"done"`   // steps
	Undone   int           `json:"undone"` // of these
	Calls    []string      `json:"calls"`  // that stock, bank and post got
	Problems []string      `json:"problems,omitempty"`
}

func (d *demo) report(outcomes []*outcome) Report {
	r := Report{OK: true, Schema: d.Schema, RiverSchema: d.RiverSchema}
	if d.server != nil && d.Keep {
		r.Database = d.site.Database
	}
	for _, o := range outcomes {
		r.OK = r.OK && len(o.problems) == 0
		r.Runs = append(r.Runs, Run{
			Order: o.order.SKU, RunID: o.run, Status: o.view.Status, Story: o.story(),
			Done: o.done(), Undone: len(o.undone()), Calls: o.whats(), Problems: o.problems,
		})
	}
	return r
}

// Write writes the summary.
func (r Report) Write(out io.Writer, colored bool) error {
	p := &term.Printer{Out: out}
	p.Printf("\n")
	t := term.Table{Head: []string{"ORDER", "RUN", "STATUS", "STEPS", "UNDONE", "WHAT HAPPENED"}, Colored: colored}
	for _, run := range r.Runs {
		c := map[engine.Status]term.Color{engine.Completed: term.Green, engine.Failed: term.Red}[run.Status]
		t.Add(term.Cell{Text: run.Order}, term.Cell{Text: run.RunID[:13]}, term.Cell{Text: string(run.Status), Color: c},
			term.Cell{Text: fmt.Sprint(run.Done)}, term.Cell{Text: fmt.Sprint(run.Undone)}, term.Cell{Text: run.Story})
		t.Note(run.Problems...)
	}
	if p.Err == nil {
		p.Err = t.Write(out)
	}
	verdict, c := "All three ended as promised: so says the database.", term.Green
	if !r.OK {
		verdict, c = "Not all ended as promised.", term.Red
	}
	p.Printf("\n%s\n", term.Paint(verdict, c, colored))
	return p.Err
}

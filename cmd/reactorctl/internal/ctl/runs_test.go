package ctl

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgreactor/reactor/engine"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	all := l.call("runs")
	all.want(t, codeOK, "")
	wantNarrow(t, all.out)
	golden(t, "runs.golden", all.out)
	asJSON := l.call("runs", "-o", "json", "--limit", "2")
	asJSON.want(t, codeOK, "")
	golden(t, "runs.json.golden", asJSON.out)
	for _, c := range []struct {
		flags string
		ends  []string
	}{
		{"--status failed,halted --input sku=book", []string{"stuck", "failed", "halted"}},
		{"--reactor shop --status completed", []string{"skipped", "completed"}},
		{"--reactor other", nil},
		{"--tag web --tag vip", []string{"retried"}},
		{"--tag web,other", nil},
		{"--input sku=lamp --input ends=completed", []string{"pending"}},
		{"--inbox", []string{"stuck"}},
		{"--waiting", []string{"pending", "retried"}},
		{"--blocked", nil},
		{"--kind unit", nil},
		{"--until 1h", nil},
		{"--since 1d --status aborted", []string{"aborted"}},
		{"--since " + time.Now().Add(time.Hour).Format(time.RFC3339), nil},
		{"--since 2020-01-01 --until 2020-01-02", nil},
	} {
		var want []string
		for _, ends := range c.ends {
			want = append(want, ids[ends])
		}
		if diff := cmp.Diff(want, listedIDs(t, l.call(append([]string{"runs", "-o", "json"}, strings.Fields(c.flags)...)...))); diff != "" {
			t.Errorf("runs %s: -want +got\n%s", c.flags, diff)
		}
	}
	l.call("runs", "--blocked").want(t, codeOK, "no run fits")
}

// A run that waits is running, with what it waits for.
//
// spec: C-711
func TestRunThatWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.start("lamp", "retried", engine.StartOptions{})
	l.drive(l.eng, id)
	list := l.call("runs")
	list.want(t, codeOK, "")
	first := strings.Fields(strings.Split(list.out, "\n")[1])
	if first[0] != id || first[1] != "running" || !strings.Contains(list.out, "waits for: ") || strings.Contains(list.out, "failed") {
		t.Errorf("want a run that is running and what it waits for:\n%s", list.out)
	}
}

func listedIDs(t *testing.T, s said) (ids []string) {
	t.Helper()
	s.want(t, codeOK, "")
	var page runsPage
	if err := json.Unmarshal([]byte(s.out), &page); err != nil {
		t.Fatalf("%v in %q", err, s.out)
	}
	for _, r := range page.Runs {
		ids = append(ids, r.RunID)
	}
	return ids
}

// Pages follow one another without a gap while new runs arrive.
func TestRunsPageByPage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var want []string
	for i := range 5 {
		want = append([]string{l.run(fmt.Sprint("book", i), "completed")}, want...)
	}
	first := l.call("runs", "--limit", "2")
	first.want(t, codeOK, "there are more: add --cursor ")
	_, cursor, _ := strings.Cut(strings.TrimSpace(first.err), "--cursor ")
	got := listedIDs(t, l.call("runs", "--limit", "2", "-o", "json"))
	l.run("new", "completed")
	rest := l.call("runs", "--limit", "-7", "--cursor", cursor, "-o", "json")
	got = append(got, listedIDs(t, rest)...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !strings.Contains(rest.out, `"next": ""`) {
		t.Errorf("the last page does not say that it is: %s", rest.out)
	}
}

func TestRunsSizeOfAPage(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: 50, 0: 50, 7: 7, 500: 500, 501: 500} {
		c := &runs{query: engine.Query{Limit: limit}}
		if err := c.read(time.Now()); err != nil || c.query.Limit != want {
			t.Errorf("--limit %d asks for %d (%v), want %d", limit, c.query.Limit, err, want)
		}
	}
}

func TestRunsBlocked(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.start("lamp", "retried", engine.StartOptions{})
	l.drive(l.eng, id)
	l.sql(`update reactor.runs set due = clock_timestamp()`)
	other := l.engine(l.changed, &atomic.Int64{})
	l.drive(other, id)
	if diff := cmp.Diff([]string{id}, listedIDs(t, l.call("runs", "--blocked", "-o", "json"))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	golden(t, "runs_blocked.golden", l.call("runs", "--blocked").out)
	golden(t, "show_blocked.golden", l.call("show", id).out)
	golden(t, "why_blocked.golden", unwrapped(l.call("why", id).out))
}

func TestRunsBadFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, message string }{
		{"--status done", `--status "done": the statuses are pending, running`},
		{"--kind thing", `--kind "thing": the kinds are root`},
		{"--waiting=lock", `--waiting "lock": what a run can wait for is time`},
		{"--since yesterday", `--since "yesterday": write 90m, 2h or 7d`},
		{"--until -2h", `--until "-2h": write`},
		{"--input sku", `--input "sku": write it as field=value`},
		{"--limit many", `invalid argument "many" for "--limit"`},
		{"--colour", `unknown flag: --colour (reactorctl runs --help lists the flags)`},
		{"-o yaml", `-o "yaml": the forms are table and json`},
		{"--schema A-b", `--schema: schema name "A-b" must have only`},
		{"extra", `reactorctl runs takes no argument, and "extra" was given`},
	} {
		s := call(t, append([]string{"runs", "--database", "postgres://nobody@127.0.0.1:1/none"}, strings.Fields(c.args)...)...)
		s.want(t, codeUsage, c.message)
	}
}

package ctl

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/internal/pgtest"
)

// findingsOf are the findings of doctor with the flags, as level and text.
func findingsOf(t *testing.T, code int, args ...string) map[string]string {
	t.Helper()
	s := call(t, append([]string{"doctor", "-o", "json"}, args...)...)
	if s.code != code {
		t.Errorf("doctor %q: exit code %d (%s), want %d", args, s.code, s.err, code)
	}
	var report struct {
		OK       bool
		Findings findings
	}
	if err := json.Unmarshal([]byte(s.out), &report); err != nil {
		t.Fatalf("%v in %q", err, s.out)
	}
	if report.OK != (code == codeOK) {
		t.Errorf("ok is %v with exit code %d", report.OK, code)
	}
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Check] = strings.TrimSpace(found[f.Check] + "\n" + f.Level + " " + f.Text)
		if (f.Level == ok) != (f.ToDo == "") {
			t.Errorf("%s: %s without, or ok with, what to do: %+v", f.Check, f.Level, f)
		}
	}
	return found
}

func wantFinding(t *testing.T, found map[string]string, check, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(found[check]) {
		t.Errorf("%s: got %q, want %s", check, found[check], pattern)
	}
}

func TestDoctorOnALiveSystem(t *testing.T) {
	t.Parallel()
	l, _ := filled(t)
	found := findingsOf(t, codeOK, "--database", l.url)
	wantFinding(t, found, "connection", `^ok PostgreSQL \d+.*, database "pgtest_\w+", at `)
	wantFinding(t, found, "clock", `^ok .* agree within 2s`)
	wantFinding(t, found, "schema", `^ok "reactor" is at version 1; this program needs 1`)
	wantFinding(t, found, "river", `^ok River's tables are there and up to date$`)
	wantFinding(t, found, "processes", `^ok process \d+ on .*, drives 0 runs; works no queue; knows shop@1$`)
	wantFinding(t, found, "queues", `^ok`)
	wantFinding(t, found, "runs", `^ok none is stuck; not finished: 1 pending, 1 running$`)
	wantFinding(t, found, "operator", `^warn 1 run is waiting for an operator$`)
	text := l.call("doctor")
	wantNarrow(t, text.out)
	if !strings.Contains(text.out, "ok    schema ") {
		t.Errorf("got\n%s", text.out)
	}
}

func TestDoctorOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	found := findingsOf(t, codeSchema, "--database", url)
	wantFinding(t, found, "schema", `^bad schema "reactor" is missing: run reactorctl migrate$`)
	wantFinding(t, found, "river", `^bad River's tables are missing`)
	call(t, "doctor", "--database", url).want(t, codeSchema, "doctor: 2 things are bad")
}

func TestDoctorWithoutADatabase(t *testing.T) {
	t.Parallel()
	found := findingsOf(t, codeNoConnection, "--database", "postgres://someone@127.0.0.1:1/none")
	wantFinding(t, found, "connection", `^bad no connection to the database at 127.0.0.1:1: nothing listens there`)
}

func TestDoctorOnRiver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sql(`insert into river_queue (name, created_at, updated_at, paused_at) values ('reactor', now(), now(), now())`)
	wantFinding(t, findingsOf(t, codeOK, "--database", l.url), "river", `ok .*\nwarn queue "reactor" is paused in River: its runs wait$`)
	l.sql(`delete from river_migration where version = 6`)
	wantFinding(t, findingsOf(t, codeSchema, "--database", l.url), "river", `^bad River's tables lack version 6: run river migrate-up`)
	l.sql(`drop table river_migration`)
	wantFinding(t, findingsOf(t, codeOK, "--database", l.url), "river", `^warn River's tables have no record of their version`)
	wantFinding(t, findingsOf(t, codeSchema, "--database", l.url, "--river-schema", "elsewhere"), "river", `^bad River's tables in schema "elsewhere" are missing`)
}

func TestDoctorOnProcesses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	wantFinding(t, findingsOf(t, codeOK, "--database", l.url), "processes", `^warn no process is at work`)
	l.sql(`insert into reactor.processes (id, host, pid, started_at, beat_at, lease_until, knows, queues)
		values (gen_random_uuid(), 'old', 7, now(), now(), now() - interval '90 seconds', '{}', '{}')`)
	wantFinding(t, findingsOf(t, codeOK, "--database", l.url), "processes",
		`^warn process 7 on old has not renewed its lease, which ended 1m ago; it has 0 runs\nwarn no process is at work`)
}

func TestDoctorOnStuckRuns(t *testing.T) {
	t.Parallel()
	pgtestAllowsG1(t)
	l := newLab(t)
	id := l.run("book", "aborted")
	l.sql(`update reactor.runs set status = 'running', ended_at = null`)
	found := findingsOf(t, codeOther, "--database", l.url)
	wantFinding(t, found, "runs", `^bad run `+id+` of reactor shop \(running\) is stuck: no owner and no due time`)
}

func pgtestAllowsG1(t *testing.T) {
	t.Helper()
	pgtest.Allow(t, "G1", "the test makes a stuck run, for doctor to find")
	pgtest.Allow(t, "G3", "the test makes a stuck run, for doctor to find")
}

func TestDoctorOnSettings(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	config, err := pgx.ParseConfig(l.url)
	if err != nil {
		t.Fatal(err)
	}
	l.sql(`alter database ` + config.Database + ` set synchronous_commit = off`)
	l.sql(`alter database ` + config.Database + ` set statement_timeout = '800ms'`)
	l.sql(`alter database ` + config.Database + ` set default_transaction_read_only = on`)
	found := findingsOf(t, codeOK, "--database", l.url)
	for _, pattern := range []string{
		`(?m)^warn synchronous_commit is off: `, `(?m)^warn statement_timeout is 800ms: `, `(?m)^warn default_transaction_read_only is on: `,
	} {
		wantFinding(t, found, "settings", pattern)
	}
}

func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		time.Second:       "ok",
		-3 * time.Second:  "warn the server's clock is 3s behind that of this machine",
		90 * time.Second:  "warn the server's clock is 1m30s ahead of that of this machine",
		-10 * time.Second: "warn the server's clock is 10s behind",
	} {
		e := &examination{findings: &findings{}}
		e.clock(ahead)
		if got := (*e.findings)[0]; !strings.HasPrefix(got.Level+" "+got.Text, want) {
			t.Errorf("%s ahead: got %s %s, want %s", ahead, got.Level, got.Text, want)
		}
	}
}

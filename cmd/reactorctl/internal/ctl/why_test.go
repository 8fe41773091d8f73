package ctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/engine"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	for ends, id := range ids {
		s := l.call("why", id[:36])
		s.want(t, codeOK, "")
		wantNarrow(t, s.out)
		golden(t, "why_"+ends+".golden", unwrapped(s.out))
		if strings.Contains(s.out, card) || strings.ContainsRune(s.out, '\x1b') {
			t.Errorf("%s: a secret or an escape sequence is shown: %q", ends, s.out)
		}
	}
	var got struct{ RunID, Why string }
	s := l.call("why", ids["retried"], "-o", "json")
	if err := json.Unmarshal([]byte(strings.ReplaceAll(s.out, "run_id", "RunID")), &got); err != nil || got.RunID != ids["retried"] || !strings.Contains(got.Why, "the bank is closed") {
		t.Errorf("got %+v, %v of %s", got, err, s.out)
	}
}

// Nobody calls Attach: why and doctor say so, in the same words.
func TestQueueThatNobodyWorks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.start("lamp", "completed", engine.StartOptions{})
	l.sql(`update reactor.runs set due = due - interval '1 minute', wake_at = wake_at - interval '1 minute'`)
	doctor := l.call("doctor")
	doctor.want(t, codeOther, "doctor: 2 things are bad")
	for _, s := range []said{l.call("why", id), doctor} {
		text := strings.Join(strings.Fields(s.out), " ")
		for _, part := range []string{`no process works queue "reactor"`, "reactorriver.Attach(config, eng) before river.NewClient"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, s.out)
			}
		}
	}
	if text := strings.Join(strings.Fields(doctor.out), " "); !strings.Contains(text, `queue "reactor": 1 run waits`) || !strings.Contains(text, "reactorctl why "+id) {
		t.Errorf("doctor says:\n%s", doctor.out)
	}
}

// The queue is worked, but by processes that do not know the reactor: why and
// doctor say so. A run whose owner died waits for the same.
// spec: C-996
func TestReactorThatNoWorkerKnows(t *testing.T) {
	t.Parallel()
	pgtestAllowsG1(t)
	l := newLab(t)
	due, dead := l.start("lamp", "completed", engine.StartOptions{}), l.start("lamp", "completed", engine.StartOptions{})
	l.sql(`update reactor.runs set due = due - interval '1 minute', wake_at = wake_at - interval '1 minute'`)
	l.sql(`update reactor.runs set owner = gen_random_uuid(), process = gen_random_uuid(), status = 'running', started_at = now() where id = '` + dead + `'`)
	l.sql(`insert into reactor.processes (id, host, pid, started_at, beat_at, lease_until, knows, queues)
		values (gen_random_uuid(), 'h', 7, now(), now(), now() + interval '1 hour', '{billing@1,shop@2}', '{reactor}')`)
	doctor := l.call("doctor")
	doctor.want(t, codeOther, "doctor: 2 things are bad")
	for _, s := range []said{l.call("why", due), l.call("why", dead), doctor} {
		text := strings.Join(strings.Fields(s.out), " ")
		if want := `reactor shop v1 is not registered on any worker of queue "reactor"`; !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, s.out)
		}
	}
	l.sql(`update reactor.processes set knows = '{shop@1}' where host = 'h'`)
	for _, s := range []said{l.call("why", due), l.call("why", dead), l.call("doctor")} {
		if text := strings.Join(strings.Fields(s.out), " "); strings.Contains(text, "not registered") {
			t.Errorf("it is registered now, and still:\n%s", s.out)
		}
	}
}

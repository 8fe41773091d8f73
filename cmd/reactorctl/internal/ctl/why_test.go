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

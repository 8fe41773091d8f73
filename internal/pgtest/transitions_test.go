package pgtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allowedTransitions are section 5.2 of the core specification once more, as a
// list: kinds of run, from, to, and the stored cause of the rollback if it
// matters.
const allowedTransitions = `
all (new) pending; all (new) running; all (new) failed
all pending running; all pending cancelled; all pending rolling_back failure; all pending rolling_back undo
all running completed; all running halted; all running paused; all running failed; all running aborted; all running cancelled
all running rolling_back failure; all running rolling_back undo
all paused running; all paused failed; all paused cancelled; all paused rolling_back failure; all paused rolling_back undo
all rolling_back failed failure; all rolling_back cancelled undo
root,child completed rolling_back undo; root,child completed cancelled
root,child halted rolling_back undo; root,child halted cancelled
root,child failed rolling_back undo; root,child failed cancelled
root,child cancelled rolling_back undo; root,child cancelled cancelled
root,child aborted rolling_back undo; root,child aborted cancelled
element completed rolling_back any; element completed cancelled; element halted rolling_back any; element halted cancelled
element pending rolling_back any; element running rolling_back any; element paused rolling_back any
element rolling_back failed any; element rolling_back cancelled any`

func TestTransitions(t *testing.T) {
	t.Parallel()
	kinds := []string{"root", "child", "unit", "element"}
	statuses := []string{"(new)", "pending", "running", "paused", "rolling_back", "completed", "halted", "failed", "cancelled", "aborted"}
	causes := []string{"", "failure", "undo"}

	want := map[string]bool{}
	for _, line := range strings.FieldsFunc(allowedTransitions, func(r rune) bool { return r == ';' || r == '\n' }) {
		fields := append(strings.Fields(line), "any")
		of := kinds
		if fields[0] != "all" {
			of = strings.Split(fields[0], ",")
		}
		for _, kind := range of {
			for _, cause := range causes {
				if fields[3] == "any" || fields[3] == cause {
					want[fmt.Sprintf("%s %s %s %s", kind, fields[1], fields[2], cause)] = true
				}
			}
		}
	}

	got := map[string]bool{}
	for _, kind := range kinds {
		for _, was := range statuses {
			for _, is := range statuses[1:] {
				for _, cause := range causes {
					c := transition{Kind: kind, Was: strings.Replace(was, "(new)", "", 1), IsNow: is, Rollback: cause}
					if c.problem() == "" {
						got[fmt.Sprintf("%s %s %s %s", kind, was, is, cause)] = true
					}
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("allowed transitions: -want +got\n%s", diff)
	}
}

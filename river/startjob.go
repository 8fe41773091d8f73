package river

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/riverqueue/river"

	"github.com/pgreactor/reactor/engine"
)

// startAttempts is as many as River can count.
const startAttempts = 32767

// StartJob is a job for your own River client, Insert or InsertTx, that starts r
// on in when it is worked. Its id is the run's start key (river:ID) unless opts
// has one, so a job that runs twice starts one run; the run's id becomes the
// output of the job. The input lies in the job as plain JSON until then.
//
// The job waits in queue "reactor", or in opts' Queue; where Config.Queue is
// another, name it in opts. A reactor that no worker knows and a database that
// is not there are tried again every 5 s. An input that breaks its contract
// becomes a failed run. Another input under a key that has started a run cancels
// the job. An input that is not JSON and a second value of opts are errors of
// Insert.
func StartJob[In, Out any](r *engine.Reactor[In, Out], in In, opts ...engine.StartOptions) StartArgs {
	if r == nil {
		return StartArgs{err: errors.New("StartJob was given a nil reactor")}
	}
	args := StartArgs{Reactor: r.Name()}
	switch len(opts) {
	case 0:
	case 1:
		args.Options = opts[0]
	default:
		args.err = fmt.Errorf("reactor %s: StartJob was given %d StartOptions; it takes one", args.Reactor, len(opts))
		return args
	}
	input, err := r.Input(in)
	if err != nil {
		args.err = fmt.Errorf("reactor %s: %w", args.Reactor, err)
	}
	args.Input = input
	return args
}

// StartArgs is the job of StartJob; a program that does not have the definition
// may fill it in. As JSON, for programs in other languages, it is an object with
// reactor and input, and if need be key, at (RFC 3339), queue, priority and tags.
type StartArgs struct {
	Reactor string
	Input   json.RawMessage
	Options engine.StartOptions

	err error // what Insert says
}

// Kind is "reactor_start".
func (StartArgs) Kind() string { return "reactor_start" } // in the rows of jobs: it never changes

// InsertOpts are the queue, the priority of the run, and as many attempts as
// River can count.
func (a StartArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		Queue: cmp.Or(a.Options.Queue, Queue), Priority: a.Options.Priority, MaxAttempts: startAttempts,
	}
}

// startForm is StartArgs as they are stored.
type startForm struct {
	Reactor   string          `json:"reactor"`
	Input     json.RawMessage `json:"input,omitempty"`
	InputText string          `json:"input_text,omitempty"` // the JSON of an input that jsonb can't keep
	Key       string          `json:"key,omitempty"`
	At        time.Time       `json:"at,omitzero"`
	Queue     string          `json:"queue,omitempty"`
	Priority  int             `json:"priority,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
}

// MarshalJSON is called by Insert. Its errors are those of StartJob, and values
// that the job's row can't keep.
func (a StartArgs) MarshalJSON() ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	o := a.Options
	form := startForm{
		Reactor: a.Reactor, Input: a.Input, Key: o.Key, At: o.At, Queue: o.Queue, Priority: o.Priority, Tags: o.Tags,
	}
	if escapesJSONB(a.Input) {
		form.Input, form.InputText = nil, string(a.Input)
	}
	return json.Marshal(form)
}

// check finds what would make the insert fail in the database, where it would
// end the caller's transaction.
func (a StartArgs) check() error {
	if a.Reactor == "" {
		return errors.New("StartArgs has no Reactor")
	}
	if len(a.Input) > 0 && (!json.Valid(a.Input) || !utf8.Valid(a.Input)) {
		return fmt.Errorf("reactor %s: Input is not JSON in UTF-8", a.Reactor)
	}
	for _, text := range slices.Concat([]string{a.Reactor, a.Options.Key, a.Options.Queue}, a.Options.Tags) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("start job of reactor %q: %q must be UTF-8 without U+0000", a.Reactor, text)
		}
	}
	return nil
}

// escapesJSONB reports whether the text may have U+0000 or a lone surrogate,
// which JSON can say and PostgreSQL's jsonb refuses.
func escapesJSONB(input json.RawMessage) bool {
	lower := strings.ToLower(string(input))
	return strings.Contains(lower, `\u0000`) || strings.Contains(lower, `\ud`)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *StartArgs) UnmarshalJSON(data []byte) error {
	var form startForm
	if err := json.Unmarshal(data, &form); err != nil {
		return fmt.Errorf("read the arguments of a start job: %w", err)
	}
	*a = StartArgs{Reactor: form.Reactor, Input: form.Input, Options: engine.StartOptions{
		Key: form.Key, At: form.At, Queue: form.Queue, Priority: form.Priority, Tags: form.Tags,
	}}
	if form.Input == nil {
		a.Input = json.RawMessage(cmp.Or(form.InputText, "null"))
	}
	return nil
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StartOptions are what one start may ask for; give at most one value, a second
// one is an error.
type StartOptions struct {
	Key      string    // starts at most one run for each reactor and key; the same input gets the existing run
	At       time.Time // not before; the zero time is now
	Queue    string    // of the wake-ups; default Config.Queue
	Priority int       // which due run a free worker takes first: 1 (first) to 4; default 1
	Tags     []string  // for finding the run later
}

// Run runs r on in, in the calling process, until it ends or is handed to
// workers; a failure is a *RunError. If ctx ends before, the run is stored as
// Aborted and Run returns the error of ctx with its cause.
func (r *Reactor[In, Out]) Run(ctx context.Context, e *Engine, in In) (Result[Out], error) {
	if e == nil {
		return Result[Out]{}, errNilEngine
	}
	defer e.hold()()
	x, err := e.begin(ctx, r.def, in)
	if err != nil {
		return refusedResult[Out](err), err
	}
	end := e.drive(x)
	return resultOfRun[Out](e, x, end)
}

// Start stores a run of r on in for workers.
func (r *Reactor[In, Out]) Start(ctx context.Context, e *Engine, in In, opts ...StartOptions) (*Handle[Out], error) {
	return one(startAll[Out](ctx, e, r.def, nil, []any{in}, opts, "Start"))
}

// StartTx is Start in your transaction: the run exists if and only if it
// commits. Call it last: it may wait for another start with the same key.
func (r *Reactor[In, Out]) StartTx(ctx context.Context, e *Engine, tx Tx, in In, opts ...StartOptions) (*Handle[Out], error) {
	if tx == nil {
		return nil, fmt.Errorf("reactor %s: StartTx: the transaction is nil", r.def.name)
	}
	return one(startAll[Out](ctx, e, r.def, tx, []any{in}, opts, "StartTx"))
}

// StartMany stores a run for each of ins in few round trips, all or none. The
// handles are in the order of ins. opts may not have a Key.
func (r *Reactor[In, Out]) StartMany(ctx context.Context, e *Engine, ins []In, opts ...StartOptions) ([]*Handle[Out], error) {
	return startAll[Out](ctx, e, r.def, nil, boxed(ins), opts, "StartMany")
}

// StartManyTx is StartMany in your transaction.
func (r *Reactor[In, Out]) StartManyTx(ctx context.Context, e *Engine, tx Tx, ins []In, opts ...StartOptions) ([]*Handle[Out], error) {
	if tx == nil {
		return nil, fmt.Errorf("reactor %s: StartManyTx: the transaction is nil", r.def.name)
	}
	return startAll[Out](ctx, e, r.def, tx, boxed(ins), opts, "StartManyTx")
}

// Find is the handle on a run of r, of any version, that exists; else the error
// matches ErrRunNotFound.
func (r *Reactor[In, Out]) Find(ctx context.Context, e *Engine, runID string) (*Handle[Out], error) {
	switch {
	case e == nil:
		return nil, errNilEngine
	case ctx == nil:
		return nil, errNilContext
	}
	rec, err := e.load(ctx, runID)
	if err != nil {
		return nil, err
	}
	if rec.Reactor != r.def.name {
		return nil, refuse(ErrRunNotFound, "run not found: %s is a run of reactor %s, not of %s", runID, rec.Reactor, r.def.name)
	}
	return &Handle[Out]{ID: rec.ID, e: e}, nil
}

func boxed[In any](ins []In) []any {
	all := make([]any, len(ins))
	for i, in := range ins {
		all[i] = in
	}
	return all
}

func one[Out any](handles []*Handle[Out], err error) (*Handle[Out], error) {
	if err != nil {
		return nil, err
	}
	return handles[0], nil
}

var (
	errNilContext = errors.New("engine: the context is nil")
	errNilEngine  = errors.New("engine: the engine is nil: give the one that engine.New returned")
)

// ready is what every start needs: a context that lives, a definition that is
// known, and an engine that has begun.
func (e *Engine) ready(ctx context.Context, def *definition) error {
	switch {
	case e == nil:
		return errNilEngine
	case ctx == nil:
		return errNilContext
	}
	if err := e.knows(def); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return callerGone(ctx)
	}
	if err := e.start(ctx); err != nil && ctx.Err() != nil {
		return callerGone(ctx)
	} else if err != nil {
		return err
	}
	return nil
}

// prepare brings an input into its stored form. Refused is what its contract
// says against it; err is an input that can't be stored.
func (e *Engine) prepare(def *definition, in any) (plain json.RawMessage, refused, err error) {
	plain, err = encode(in, "input", e.config.Limits.Value)
	if err != nil {
		return nil, nil, fmt.Errorf("reactor %s: %w", def.name, err)
	}
	_, refused = def.accept(e, plain)
	return plain, refused, nil
}

// newRun is a pending root.
func (e *Engine) newRun(def *definition, plain json.RawMessage, o StartOptions) (NewRun, error) {
	id := strings.ToLower(e.config.NewID()) // as databases write it
	if !isUUID(id) {
		return NewRun{}, fmt.Errorf("Config.NewID gave %q, which is not a UUID", cleanText(id, 64))
	}
	sealed, err := e.seal(plain)
	if err != nil {
		return NewRun{}, fmt.Errorf("reactor %s: input: %w", def.name, err)
	}
	run := NewRun{WriteID: NewUUID(), DueAt: o.At, Input: sealed, Tags: o.Tags}
	run.Header = Header{
		ID: id, Root: id, Kind: Root, Reactor: def.name, Definition: def.version, Fingerprint: def.stored.Fingerprint,
		Status: Pending, StartKey: o.Key, Queue: o.Queue, Priority: o.Priority,
	}
	if e.config.Codec == nil {
		run.Fields = searchable(plain, def.graph.In.Redact)
	}
	return run, nil
}

// maxField is the longest text by which a field of an input can be found.
const maxField = 255

// searchable are the top-level scalars of an input that may be searched for.
func searchable(plain json.RawMessage, hidden redaction) map[string]string {
	var top map[string]json.RawMessage
	if len(plain) == 0 || plain[0] != '{' || json.Unmarshal(plain, &top) != nil {
		return nil
	}
	fields := map[string]string{}
	for name, raw := range top {
		if text, ok := scalar(raw); ok && len(name) <= maxField && !hidden.hides(name) {
			fields[name] = text
		}
	}
	return fields
}

func scalar(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil || len(text) > maxField || slices.Contains([]byte(text), 0) {
			return "", false
		}
		return text, true
	}
	return string(raw), len(raw) <= maxField
}

// storeRefused stores a run that its input's contract refuses, and returns its
// failure. In the caller's transaction nothing is stored.
func (e *Engine) storeRefused(ctx context.Context, tx Tx, run NewRun, refused error) error {
	def := e.definitionOf(run.Reactor, run.Definition)
	r := &RunError{Reactor: run.Reactor, RunID: run.ID, Permanent: true}
	var secrets []string
	if plain, err := e.unseal(run.Input); err == nil {
		r.Input, secrets = def.graph.In.Redact.apply(plain), def.graph.In.Redact.secrets(plain)
	}
	r.describe(refused, e.config.Limits.ErrorText, secrets)
	if tx != nil {
		r.RunID = ""
		return r
	}
	sealed, err := e.seal(r.stored(e.config.Limits.ErrorText, secrets))
	if err != nil {
		return fmt.Errorf("reactor %s: failure: %w", run.Reactor, err)
	}
	run.Status, run.Failure, run.Fence = Failed, sealed, Fence{}
	created, err := e.config.Store.Create(ctx, nil, []NewRun{run})
	if err != nil {
		return fmt.Errorf("reactor %s: store the refused run: %w", run.Reactor, err)
	}
	if created[0].Existing {
		if err := e.sameInput(run, created[0]); err != nil {
			return err
		}
	}
	r.RunID = created[0].ID
	return r
}

// options is the one value that may be given, checked and with its defaults.
func (e *Engine) options(def *definition, call string, opts []StartOptions, many bool) (StartOptions, error) {
	o := StartOptions{}
	switch len(opts) {
	case 0:
	case 1:
		o = opts[0]
	default:
		return o, fmt.Errorf("reactor %s: %s was given %d StartOptions; it takes one", def.name, call, len(opts))
	}
	orString(&o.Queue, e.config.Queue)
	orDefault(&o.Priority, 1)
	switch {
	case o.Priority < 1 || o.Priority > 4:
		return o, fmt.Errorf("reactor %s: priority %d; it goes from 1 (first) to 4", def.name, o.Priority)
	case o.Key != "" && many:
		return o, fmt.Errorf("reactor %s: %s can't have a Key, because it starts many runs", def.name, call)
	case e.config.Dispatcher == nil:
		return o, fmt.Errorf("reactor %s: %s needs a Dispatcher in Config (see package river); Run does not", def.name, call)
	}
	if problem := badQueue(o.Queue); problem != "" {
		return o, fmt.Errorf("reactor %s: queue %s", def.name, problem)
	}
	for i, tag := range o.Tags {
		if tag != cleanText(tag, e.config.Limits.Key) || tag == "" {
			return o, fmt.Errorf("reactor %s: tag %d must be text of 1 to %d bytes", def.name, i+1, e.config.Limits.Key)
		}
	}
	if err := checkKey(o.Key, "start", e.config.Limits.Key); err != nil {
		return o, fmt.Errorf("reactor %s: %w", def.name, err)
	}
	return o, nil
}

// startAll stores a run for each input, in one transaction.
func startAll[Out any](ctx context.Context, e *Engine, def *definition, tx Tx, ins []any, opts []StartOptions, call string) ([]*Handle[Out], error) {
	if err := e.ready(ctx, def); err != nil {
		return nil, err
	}
	many := call == "StartMany" || call == "StartManyTx"
	o, err := e.options(def, call, opts, many)
	if err != nil || len(ins) == 0 {
		return nil, err
	}
	runs := make([]NewRun, len(ins))
	for i, in := range ins {
		if runs[i], err = e.toStart(ctx, def, tx, in, o, many); err != nil && many {
			return nil, fmt.Errorf("input %d: %w", i, err)
		} else if err != nil {
			return nil, err
		}
	}
	created, err := e.create(ctx, tx, runs)
	if err != nil {
		return nil, err
	}
	handles := make([]*Handle[Out], len(runs))
	for i, c := range created {
		handles[i] = &Handle[Out]{ID: c.ID, Existing: c.Existing, e: e}
	}
	return handles, nil
}

// toStart is one run to be stored. An input that its contract refuses is stored
// as a failed run, unless others or the caller's transaction depend on it.
func (e *Engine) toStart(ctx context.Context, def *definition, tx Tx, in any, o StartOptions, many bool) (NewRun, error) {
	plain, refused, err := e.prepare(def, in)
	if err != nil {
		return NewRun{}, err
	}
	run, err := e.newRun(def, plain, o)
	if err != nil || refused == nil {
		return run, err
	}
	if many && tx == nil {
		r := &RunError{Reactor: def.name, Permanent: true}
		r.describe(refused, e.config.Limits.ErrorText, def.graph.In.Redact.secrets(plain))
		return run, r
	}
	return run, e.storeRefused(ctx, tx, run, refused)
}

// create stores pending runs, and tells a start key that is known with another
// input.
func (e *Engine) create(ctx context.Context, tx Tx, runs []NewRun) ([]Created, error) {
	created, err := e.config.Store.Create(ctx, tx, runs)
	if err != nil {
		return nil, fmt.Errorf("reactor %s: start: %w", runs[0].Reactor, err)
	}
	for i, c := range created {
		if c.Existing {
			if err := e.sameInput(runs[i], c); err != nil {
				return nil, err
			}
		} else if e.memory != nil {
			e.driveInMemory(ctx, runs[i], c)
		}
	}
	return created, nil
}

func (e *Engine) sameInput(run NewRun, c Created) error {
	ours, err := e.canonicalInput(run.Input)
	if err != nil {
		return fmt.Errorf("reactor %s: input: %w", run.Reactor, err)
	}
	theirs, err := e.canonicalInput(c.Input)
	if err != nil {
		return fmt.Errorf("reactor %s: input of run %s: %w", run.Reactor, c.ID, err)
	}
	if ours != theirs {
		return refuse(ErrKeyConflict, "reactor %s: key %q has started run %s on another input: use another key, or the same input", run.Reactor, run.StartKey, c.ID)
	}
	return nil
}

func (e *Engine) canonicalInput(sealed json.RawMessage) (string, error) {
	plain, err := e.unseal(sealed)
	if err != nil {
		return "", err
	}
	return canonical(plain)
}

// driveInMemory does what workers would, before the call returns; a run that is
// due later is driven then.
func (e *Engine) driveInMemory(ctx context.Context, run NewRun, c Created) {
	wake := Wake{Runs: []string{c.ID}, Queue: run.Queue, Priority: run.Priority}
	if later := run.DueAt.Sub(c.Now); !run.DueAt.IsZero() && later > 0 {
		time.AfterFunc(later, func() { _ = e.Drive(context.Background(), wake) })
		return
	}
	_ = e.memory.take() // the wake-up of this run, and others that their starters drive
	_ = e.Drive(context.WithoutCancel(ctx), wake)
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		if dash != (c == '-') || !dash && !hex {
			return false
		}
	}
	return true
}

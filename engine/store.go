package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Store keeps runs. Every operation is one transaction, or takes part in the
// one it is given; every one may be repeated after a lost reply and then
// changes nothing twice. What each promises is written once more as tests, in
// package storetest, which memory and Postgres both pass.
//
// An error of a Store that is neither a *FenceError nor wraps ErrUnstorable
// means that the database could not be asked: the engine asks again.
type Store interface {
	// Attach binds the store to the dispatcher that its transactions queue
	// wake-ups with; nil means that nothing is queued. New calls it once and
	// without I/O; a second call is an error, since a store serves one engine.
	// What is wrong with the options that the store was made with is also said
	// here; a store that has a Validate() error says it there too, and New then
	// lists it with all other problems.
	Attach(d Dispatcher) error

	// Check compares the schema that is there with the one this release
	// needs. Missing, older and newer are three errors that say what to run.
	Check(ctx context.Context) error

	// Register adds the process with a lease that begins now, stores the
	// graphs it knows, and makes the blocked runs of these reactors due.
	Register(ctx context.Context, p Process, lease time.Duration) error

	// Beat renews the lease of a process, for as long as lease says from now;
	// known is false if the process has no row any more.
	Beat(ctx context.Context, process string, lease time.Duration) (known bool, err error)

	// Unregister removes the row of a process that stops. Runs that still name
	// it count as owned by a dead process.
	Unregister(ctx context.Context, process string) error

	// Create adds runs and queues the wake-ups of those that are due, all or
	// none; in tx if that is not nil. A run whose start key is taken is not
	// added: its Created names the run that has the key. A run that is there
	// already is a *FenceError, unless this very write had added it.
	Create(ctx context.Context, tx Tx, runs []NewRun) ([]Created, error)

	// Claim makes the process the owner of those of the wanted runs that are
	// due and have no live owner, and whose definition the process knows, and
	// loads them as they are then; for each of the others it says why not. It
	// waits for nobody's lock. Rest is queued anew in the same transaction.
	Claim(ctx context.Context, c Claim) (Claims, error)

	// Save changes a run as c says, all or nothing, if the fence still holds:
	// token and version match and the lease of the process is not over. It
	// returns the new version. A refused save is a *FenceError and leaves
	// nothing behind. A save whose WriteID had landed before is a success.
	Save(ctx context.Context, f Fence, c Changes) (version int64, err error)

	// Wake queues the wake-ups of those of the runs that are due and have no
	// live owner.
	Wake(ctx context.Context, runs []string) error

	// Sweep runs one pass: it queues the wake-ups of runs that are due or whose
	// owner died and which nothing else will wake, and clears what dead
	// processes left. Its counts are by step.
	Sweep(ctx context.Context, s SweepPass) (SweepResult, error)

	// Get loads one run as it is; ErrRunNotFound if there is none.
	Get(ctx context.Context, run string) (*Record, error)

	// List gives headers, newest first, at most q.Limit of them, and the cursor
	// of the next page or "".
	List(ctx context.Context, q Query) (page []Record, next string, err error)

	// Statuses gives the status of each of the runs that exist.
	Statuses(ctx context.Context, runs []string) (map[string]Status, error)

	// Graph loads a stored graph by its fingerprint; nil if there is none.
	Graph(ctx context.Context, fingerprint string) (*StoredGraph, error)

	// Health says what an operator must know of the database and of the
	// processes that work on it.
	Health(ctx context.Context) (*Health, error)
}

// A Dispatcher queues "drive these runs now". It never sees a payload, a path
// or a state; what it queues may be lost, doubled or late.
type Dispatcher interface {
	// Wake queues the wake-ups in tx. With notify the workers are told by the
	// commit of tx itself; without it the caller rings the bell afterwards.
	Wake(ctx context.Context, tx Tx, wakes []Wake, notify bool) error

	// Ring tells the workers of the queues to look, now. It returns at once,
	// may be lost, and is coalesced.
	Ring(queues ...string)

	// Validate says what is wrong with the options that the dispatcher was
	// made with. New calls it, without I/O.
	Validate() error
}

// A Wake is a wake-up for up to MaxWake runs of one queue and priority.
type Wake struct {
	Runs     []string
	Queue    string
	Priority int
}

// MaxWake is how many runs one wake-up names.
const MaxWake = 16

// A Tx is a database transaction that the store understands; the engine never
// looks into it.
type Tx interface{ EngineTx() }

// A Clock is the time of this process. The database's clock decides everything
// that two processes must agree on.
type Clock interface{ Now() time.Time }

// A Process is one engine instance, as other processes see it.
type Process struct {
	ID     string
	Host   string
	PID    int
	Knows  []string // the definitions it can drive, as Knows returns them
	Queues []string // of which it has workers
	Graphs []StoredGraph
}

// Knows is how a definition is named among those that a process can drive.
func Knows(reactor string, version int) string { return fmt.Sprintf("%s@%d", reactor, version) }

// A StoredGraph is a definition as the store keeps it.
type StoredGraph struct {
	Fingerprint string
	Reactor     string
	Version     int
	Text        string          // as Graph prints it
	Form        json.RawMessage // the graph as data; the engine's own
}

// A Kind says what part of a tree a run is.
type Kind string

// The kinds of runs.
const (
	Root    Kind = "root"    // started by the application
	Child   Kind = "child"   // an async child
	Unit    Kind = "unit"    // an async step
	Element Kind = "element" // one element of a fan-out map
)

// A Header is the row of a run that is read and written most; it has no payload.
type Header struct {
	ID          string
	Kind        Kind
	Reactor     string
	Definition  int // version of the definition
	Fingerprint string
	Status      Status

	Parent, Root string // run ids; Root is ID for a root
	ParentPath   string // of the node that dispatched it
	Element      int    // index in its map

	Owner   string // token of the execution that owns it; "" for nobody
	Process string // of the owner
	Version int64

	Due        time.Time // from when on it has a reason to be driven; zero for none
	WakeReason string    // why it will be
	Blocked    string    // why its definition does not fit; "" if it does
	Suspended  string    // why an operator stopped it; "" if none did
	Rollback   Rollback  // what started its rollback; "" if none did

	StartKey    string
	Queue       string
	Priority    int
	RetriedFrom string // the run it was started again from

	Created, Started, Ended time.Time
}

// A Rollback is what started a rollback, and so how it ends.
type Rollback string

// The triggers of a rollback.
const (
	ByFailure Rollback = "failure" // ends failed
	ByUndo    Rollback = "undo"    // ends cancelled
)

// A Record is a run as it is stored. Values are in their stored form.
type Record struct {
	Header
	Input, Output json.RawMessage
	Failure       json.RawMessage // the engine's form of a failure
	Reason        string          // of a halt or a cancel
	ReasonPath    string          // of the node that halted
	Tags          []string
	Nodes         []NodeRow // in no promised order

	Lease time.Time // end of the owner's lease; zero without an owner or a row of its process
	Beat  time.Time // its last heartbeat
	Host  string    // of the owner's process
	Now   time.Time // the database's clock when this was read
}

// A NodeState is where a node of a run is.
type NodeState string

// The states of a node that has a row.
const (
	NodeRunning    NodeState = "running"    // a body is at work, or was when an owner died or handed back
	NodeWaiting    NodeState = "waiting"    // between attempts, or for something else
	NodeDispatched NodeState = "dispatched" // an async node whose run was created
	NodeDone       NodeState = "done"
	NodeSkipped    NodeState = "skipped"
	NodeFailed     NodeState = "failed"
	NodeHalted     NodeState = "halted"
	NodeOpen       NodeState = "open" // cut off: begun, without a result, not compensated
)

// A HookState is what the rollback hook of a node did.
type HookState string

// The states of a hook.
const (
	HookNone      HookState = ""
	HookRunning   HookState = "running" // an owner died in it
	HookCompleted HookState = "completed"
	HookFailed    HookState = "failed"
	HookSkipped   HookState = "skipped" // none is written
)

// A NodeRow is the state of one node. A save writes it whole, but for the times
// that the store gives: Started stays as it was first stored.
type NodeRow struct {
	Path, Kind string
	State      NodeState
	Seq        int64 // order of completion, from 1; 0 until it has settled
	Attempt    int   // the attempt at work or the last one, from 1
	Begun      bool  // its body was called, or may have been
	Recoveries int   // take-overs since it made progress
	Recovered  int   // take-overs in all

	Input   json.RawMessage // nil if it could not be made
	Output  json.RawMessage
	Failure json.RawMessage // of the last failed attempt; the engine's form
	Reason  string          // of a skip or halt, or what it waits for

	Hook           string // compensate or undo; "" before a rollback reached it
	HookState      HookState
	HookSeq        int64 // order of the hooks' ends, in one count with Seq
	HookRecoveries int
	HookFailure    json.RawMessage // the engine's form

	RunID string // of the run that it dispatched

	Due       time.Time // end of its wait
	Started   time.Time
	Ended     time.Time
	HookEnded time.Time
}

// A NewRun is a run to be created. Status is Pending, or Running with an owner,
// or Failed for one that never ran.
type NewRun struct {
	Header
	Fence   Fence           // of a run that is created owned; its Version is not read
	WriteID string          // recognises a repeat of the same creation
	DueIn   time.Duration   // with Pending: due so long after now by the database's clock
	DueAt   time.Time       // with Pending: due then; the zero time means DueIn
	Input   json.RawMessage // in stored form
	Failure json.RawMessage
	Tags    []string
	Fields  map[string]string // of the input, for Query.Input
}

// A Created is what became of one NewRun.
type Created struct {
	ID       string
	Existing bool            // the start key was taken; ID is the run that has it
	Input    json.RawMessage // of that run
	Now      time.Time       // the database's clock
}

// A Fence is what an execution must show to write: it owns the run under this
// token, at this version, in a process whose lease is not over.
type Fence struct {
	Run     string
	Token   string
	Process string
	Version int64
}

// A FenceError is a save that was refused. It matches ErrLeaseLost if the run
// is lost: another token is on it, or the lease of the process is over. Else it
// is stale: the token is ours and the version is not.
type FenceError struct {
	Run             string
	Lost            bool
	Expected, Found int64  // versions
	Owner, Process  string // as they are now
	Status          Status // as it is now; "" if the run is gone
}

// Error names the run and which of the two it is.
func (e *FenceError) Error() string {
	if e.Lost {
		return fmt.Sprintf("run %s: ownership lost: version %d expected, %d found under owner %q", e.Run, e.Expected, e.Found, e.Owner)
	}
	return fmt.Sprintf("run %s: stale: version %d expected, %d found", e.Run, e.Expected, e.Found)
}

// Is makes a lost run match ErrLeaseLost.
func (e *FenceError) Is(target error) bool { return e.Lost && target == ErrLeaseLost }

// Changes is everything that must become true together. The zero value of a
// field changes nothing, but for Due: a save that releases the run says when it
// is due again, or leaves it without a due time.
type Changes struct {
	WriteID string // of this save; the same again when it is repeated

	Status   Status   // "" keeps it
	Rollback Rollback // what started the rollback; "" keeps it
	Nodes    []NodeChange

	Output     json.RawMessage
	Failure    json.RawMessage
	Reason     string
	ReasonPath string

	Release     bool          // give up ownership; a final status does so too
	Due         bool          // with Release: due after DueIn
	DueIn       time.Duration // 0 is now: then the wake-up is queued too
	WakeReason  string
	Blocked     *string // sets the reason, "" takes it away
	Fingerprint string  // the graph that the run goes on with; "" keeps it
}

// A NodeChange is the new state of one node. Times are given as spans, because
// the database's clock has the last word.
type NodeChange struct {
	NodeRow               // Started, Ended, HookEnded and Due are not read
	Took    time.Duration // how long before now it started, if it has no Started yet
	DueIn   time.Duration // with NodeWaiting: its wait ends so long after now
	Keep    bool          // keep the stored input and output: Input and Output are not read
}

// A Claim asks for runs. Tokens and write ids are the caller's, so that a
// repeat is recognised.
type Claim struct {
	Process string
	Wants   []Want
	Knows   []string // definitions that can be driven, see Knows
	Rest    []Wake   // runs to be queued anew
}

// A Want is one run of a Claim.
type Want struct{ Run, Token, WriteID string }

// Claims is what became of a Claim.
type Claims struct {
	Claimed []Claimed
	Refused []Refusal
}

// A Claimed is a run that is ours now, as loaded after the claim.
type Claimed struct {
	Record                  // Owner is our token
	TakenFrom        string // the token of the dead owner; "" if nobody had it
	TakenFromProcess string // its process
}

// A Refusal is why a run was not claimed.
type Refusal struct {
	Run     string
	Why     Why
	Status  Status
	Reactor string
}

// A Why is the reason of a Refusal.
type Why string

// The reasons of refusals.
const (
	WhyGone    Why = "not found"
	WhyFinal   Why = "already final"
	WhyOwned   Why = "has a live owner"
	WhyNotDue  Why = "not due"
	WhyUnknown Why = "reactor not registered here"
	WhyLocked  Why = "row is locked"
	WhyStopped Why = "blocked or suspended"
	WhyNoLease Why = "the lease of this process is over"
)

// A SweepPass is one pass of the sweeper.
type SweepPass struct {
	Interval time.Duration // the pass is left to others if one began within it; 0 runs it in any case
	Limit    int           // most rows that one statement takes
}

// A SweepResult is what a pass found, by step.
type SweepResult struct {
	Ran      bool // false: another process has done this interval's pass
	Found    map[string]int
	Unworked []Unworked
}

// An Unworked is a queue with runs that have been due for 30 s and that no live
// process works.
type Unworked struct {
	Queue string
	Runs  int
}

// The steps of a sweep.
const (
	SweepDead      = "dead_processes" // runs of processes without a live lease
	SweepDue       = "due_runs"
	SweepLeftovers = "leftovers" // rows of processes that are long gone
)

// A Health is the state of a database as doctor needs it.
type Health struct {
	Server    string // version of PostgreSQL
	Schema    int64  // version of ours
	Want      int64  // the one this release needs
	Clock     time.Time
	Processes []ProcessHealth
	Unworked  []Unworked
	Counts    map[Status]int // unfinished runs only
	Stuck     []Stuck
}

// A ProcessHealth is one row of the processes.
type ProcessHealth struct {
	ID, Host      string
	PID           int
	Started, Beat time.Time
	Lease         time.Time
	Knows, Queues []string
	Owned         int // runs
}

// A Stuck is an unfinished run that has no reason to wake up, or whose reason
// has long passed.
type Stuck struct {
	Run, Reactor string
	Status       Status
	Reason       string
}

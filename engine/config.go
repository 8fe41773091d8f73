package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Unlimited takes away a limit.
const Unlimited = -1

// Config is what an engine is made of. Zero values mean the documented
// defaults.
type Config struct {
	Store      Store      // keeps runs; required (package pgstore)
	Dispatcher Dispatcher // queues wake-ups; required for Start (package river). Default none

	Queue      string                 // of the wake-ups. Default "reactor"
	Logger     *slog.Logger           // Default slog.Default()
	Middleware []func(next Next) Next // around each event of a run; the first is outermost. Default none
	Validator  func(v any) error      // beside a type's own Validate: for tag-based libraries. Default none
	Codec      Codec                  // between JSON and what is stored. Default none
	Limits     Limits                 // of what is stored

	Lease      time.Duration // how long a silent process keeps its runs. Default 8 s
	Heartbeat  time.Duration // how often the lease is renewed; at most a third of Lease. Default 2 s
	Sweep      time.Duration // how often runs without an owner are looked for. Default 1 s
	SweepLimit int           // most rows that one statement of a pass takes. Default 1000
	NoSweep    bool          // this process does not sweep. Default false
	Recoveries int           // recoveries of a node without progress before it counts as failed, or Unlimited. Default 10

	HookTimeout time.Duration // of an undo or compensate whose step has no Timeout. Default 1 min
	BackoffCap  time.Duration // longest pause between two attempts, whatever a Backoff says. Default 24 h

	Clock Clock         // of this process; the database's decides what processes must agree on. Default system
	NewID func() string // of runs. Default UUID version 7
}

// Limits are sizes in bytes.
type Limits struct {
	Value     int // one stored value. Default 1 MiB
	Key       int // one key. Default 512 bytes
	ErrorText int // one stored error text. Default 16 KiB
}

// A Codec changes JSON on its way into the store and back: encryption,
// compression. Limits and contracts see the plain form.
type Codec interface {
	Encode(ctx context.Context, value []byte) (stored []byte, err error)
	Decode(ctx context.Context, stored []byte) (value []byte, err error)
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	orString(&c.Queue, "reactor")
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	orDefault(&c.Limits.Value, 1<<20)
	orDefault(&c.Limits.Key, 512)
	orDefault(&c.Limits.ErrorText, 16<<10)
	orDefault(&c.Lease, 8*time.Second)
	orDefault(&c.Heartbeat, 2*time.Second)
	orDefault(&c.Sweep, time.Second)
	orDefault(&c.SweepLimit, 1000)
	orDefault(&c.Recoveries, 10)
	orDefault(&c.HookTimeout, time.Minute)
	orDefault(&c.BackoffCap, 24*time.Hour)
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.NewID == nil {
		c.NewID = NewUUID
	}
	return c
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func orString(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// problems names every field that has a bad value. It is asked after
// withDefaults.
func (c Config) problems() (bad []error) {
	add := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if c.Store == nil {
		add("config has no Store (see package pgstore)")
	}
	if problem := badQueue(c.Queue); problem != "" {
		add("Queue %s", problem)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Lease", c.Lease}, {"Heartbeat", c.Heartbeat}, {"Sweep", c.Sweep}, {"HookTimeout", c.HookTimeout}, {"BackoffCap", c.BackoffCap}} {
		if d.value < 0 {
			add("%s %s must be above 0", d.name, d.value)
		}
	}
	if c.Lease > 0 && c.Heartbeat > 0 && c.Lease < 3*c.Heartbeat {
		add("Lease %s must be at least three times Heartbeat %s", c.Lease, c.Heartbeat)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"SweepLimit", c.SweepLimit}, {"Limits.Value", c.Limits.Value}, {"Limits.Key", c.Limits.Key}, {"Limits.ErrorText", c.Limits.ErrorText}} {
		if n.value < 0 {
			add("%s %d must be above 0", n.name, n.value)
		}
	}
	if c.Recoveries < Unlimited {
		add("Recoveries %d must be above 0, or engine.Unlimited", c.Recoveries)
	}
	for i, m := range c.Middleware {
		if m == nil {
			add("Middleware[%d] is nil", i)
		}
	}
	if s, ok := c.Store.(interface{ Validate() error }); ok { // so that it is told beside the others; Attach binds
		if err := s.Validate(); err != nil {
			bad = append(bad, err)
		}
	}
	if c.Dispatcher != nil {
		if err := c.Dispatcher.Validate(); err != nil {
			bad = append(bad, err)
		}
	}
	if err := apart(c.Store, c.Dispatcher); err != nil {
		bad = append(bad, err)
	}
	return bad
}

// maxQueue is the most bytes that the name of a queue may have.
const maxQueue = 64

var queueRE = regexp.MustCompile(`^[a-z0-9]+([_-]?[a-z0-9]+)*$`)

// badQueue says what is wrong with the name of a queue; a wake-up for it could
// not be queued.
func badQueue(name string) string {
	switch {
	case len(name) > maxQueue:
		return fmt.Sprintf("has %d bytes; it may have %d", len(name), maxQueue)
	case !queueRE.MatchString(name):
		return fmt.Sprintf("%q must match %s", name, queueRE)
	}
	return ""
}

// join words problems as one error of New, one a line.
func join(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	e := &DefinitionError{}
	for _, p := range problems {
		e.Problems = append(e.Problems, Problem{Node: "engine", Msg: textOf(p)})
		e.causes = append(e.causes, fmt.Errorf("engine: %w", p))
	}
	return e
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// NewUUID is a UUID of version 7: ids of later runs are greater, to the
// millisecond.
func NewUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	ms := time.Now().UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

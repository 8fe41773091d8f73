package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// failing is the runs that a sweep of this process could not handle. Nothing
// can be noted in their rows, so it is kept here when each is tried again.
type failing struct {
	mu   sync.Mutex
	runs map[string]failure
}

type failure struct {
	pause time.Duration
	next  time.Time // when it is tried again
}

const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// failed notes that a run has failed once more.
func (f *failing) failed(run string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs == nil {
		f.runs = map[string]failure{}
	}
	pause := min(max(2*f.runs[run].pause, firstPause), longestPause)
	f.runs[run] = failure{pause: pause, next: time.Now().Add(pause)}
}

// pausing is the runs that are not to be tried yet. One whose time has long
// come was handled elsewhere and is forgotten.
func (f *failing) pausing() (runs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for run, last := range f.runs {
		switch {
		case now.Before(last.next):
			runs = append(runs, run)
		case now.Sub(last.next) > 2*longestPause:
			delete(f.runs, run)
		}
	}
	return runs
}

// forget forgets runs that could be handled.
func (f *failing) forget(runs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runs) == 0 {
		return
	}
	for _, run := range runs {
		delete(f.runs, run)
	}
}

// toBlame reports whether an error lies in one of the rows that were written,
// as that of a trigger or a constraint, and not in the queue of the wake-ups.
func toBlame(err error) bool {
	if _, ok := errors.AsType[*enqueueError](err); ok {
		return false
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (unstorable(err) || strings.HasPrefix(pg.Code, "P0"))
}

// badRuns is the runs that failed in one pass.
type badRuns struct {
	texts  []string
	causes []error
	more   int
}

// mostNamed is how many runs one error names.
const mostNamed = 10

func (b *badRuns) add(run string, err error) {
	if len(b.texts) == mostNamed {
		b.more++
		return
	}
	b.texts = append(b.texts, fmt.Sprintf("run %s can't be woken: %s", run, plainText(err)))
	b.causes = append(b.causes, err)
}

// err is nil if no run failed.
func (b *badRuns) err() error {
	if len(b.texts) == 0 {
		return nil
	}
	text := "sweep: " + strings.Join(b.texts, "; ")
	if b.more > 0 {
		text += fmt.Sprintf("; and %d more", b.more)
	}
	return &storeError{text: text, cause: b.causes}
}

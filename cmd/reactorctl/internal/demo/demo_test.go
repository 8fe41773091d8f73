package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// options are those of a demo in a database of the test's own.
func options(t *testing.T, out io.Writer) Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Database: pgtest.Empty(t), Schema: "shop", RiverSchema: "shop", Program: program, Out: out,
		Connect: pgxpool.New,
	}
}

func TestPlay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := options(t, &out)
	r, err := Play(t.Context(), o)
	if err != nil || !r.OK {
		t.Fatalf("report %+v, error %v\n%s", r, err, out.String())
	}
	type end struct {
		Order        string
		Status       engine.Status
		Done, Undone int
		Calls        string
	}
	var got []end
	for _, run := range r.Runs {
		got = append(got, end{run.Order, run.Status, run.Done, run.Undone, strings.Join(run.Calls, " ")})
	}
	want := []end{
		{"book", engine.Completed, 3, 0, "hold charge ship"},
		{"piano", engine.Failed, 2, 2, "hold charge refund release"},
		{"lamp", engine.Completed, 3, 0, "hold charge charge ship"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs: -want +got\n%s", diff)
	}
	wantInOrder(t, out.String(),
		"Order 2", "ship    failed: the post does not deliver to Atlantis", "charge  undone", "hold    undone", "run failed",
		"Order 3", "SIGKILL to worker", "takes the run over", "charge  begins again, under the same key", "run completed")
	wantLeft(t, o)
}

// wantLeft looks at what the demo leaves in the database of somebody else.
func wantLeft(t *testing.T, o Options) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var runs, processes int
	var schemas []string
	err = conn.QueryRow(t.Context(), `select (select count(*) from shop.runs), (select count(*) from shop.processes
			where lease_until > clock_timestamp()),
		(select array_agg(distinct schemaname::text) from pg_tables where schemaname not in ('pg_catalog', 'information_schema'))`).
		Scan(&runs, &processes, &schemas)
	if err != nil || runs != 3 || processes != 0 || !slices.Equal(schemas, []string{"shop"}) {
		t.Errorf("left are %d runs, %d processes and tables in %q (%v), want 3 runs and no process in shop alone", runs, processes, schemas, err)
	}
}

func wantInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("%q is not where it belongs in\n%s", part, text)
		}
		rest = after
	}
}

// Whenever the audience leaves, no worker is left on the stage.
func TestInterruptedPlayLeavesNoWorker(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"workers started", "run failed", "SIGKILL"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			out := &watcher{at: at, then: leave}
			o := options(t, out)
			_, err := Play(ctx, o)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the end of the context", err)
			}
			pids := regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(out.text(), 2)
			if len(pids) != 2 {
				t.Fatalf("no two workers in\n%s", out.text())
			}
			for _, pid := range pids {
				if alive(t, pid[1]) {
					t.Errorf("worker %s is still there", pid[1])
				}
			}
		})
	}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// processWith is a command whose process has an id.
func processWith(pid int) *exec.Cmd { return &exec.Cmd{Process: &os.Process{Pid: pid}} }

// A watcher keeps what is written, and acts when it has read something.
type watcher struct {
	at   string
	then func()

	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	if strings.Contains(w.buf.String(), w.at) {
		w.then()
	}
	return n, err
}

func (w *watcher) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func TestWorkerThatCanNotBegin(t *testing.T) {
	t.Parallel()
	o := options(t, io.Discard)
	s := site{Database: o.Database, Schema: "shop"} // with no tables
	_, err := newTeam(t.Context(), o.Program, s, 2)
	if err == nil || !strings.Contains(err.Error(), "worker") || !strings.Contains(err.Error(), "river_queue") {
		t.Errorf("got %v, want what the worker said", err)
	}
}

func TestProgramThatIsNoWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := newTeam(ctx, "/bin/true", site{}, 1)
	if err == nil || ctx.Err() != nil {
		t.Errorf("got %v, want an error at once", err)
	}
}

// What the demo says is judged by the database: a run that ended otherwise is
// found.
func TestJudgeFindsBrokenPromises(t *testing.T) {
	t.Parallel()
	done := func(path string) engine.NodeView { return engine.NodeView{Path: path, State: string(engine.NodeDone)} }
	good := func() *outcome {
		taken := done("charge")
		taken.Recovered = 1
		w := &worker{number: 1, cmd: processWith(7)}
		return &outcome{
			act: acts[2], killed: w, view: engine.View{Status: engine.Completed, Nodes: []engine.NodeView{done("hold"), taken, done("ship")}},
			calls: []callRow{{"hold", "k1", true, 7}, {"charge", "k2", true, 7}, {"charge", "k2", false, 8}, {"ship", "k3", true, 8}},
		}
	}
	o := good()
	if o.judge(); len(o.problems) > 0 {
		t.Fatalf("problems of a run that kept its promise: %q", o.problems)
	}
	for name, spoil := range map[string]func(*outcome){
		"status":         func(o *outcome) { o.view.Status = engine.Failed },
		"charged twice":  func(o *outcome) { o.calls[2].First = true },
		"another key":    func(o *outcome) { o.calls[2].Key = "k9" },
		"same worker":    func(o *outcome) { o.calls[2].Worker = 7 },
		"other victim":   func(o *outcome) { o.calls[1].Worker = 9 },
		"no take-over":   func(o *outcome) { o.view.Nodes[1].Recovered = 0 },
		"a call missing": func(o *outcome) { o.calls = o.calls[:3] },
		"not killed":     func(o *outcome) { o.killed = nil },
		"undone":         func(o *outcome) { o.view.Trace = []string{"undo hold"}; o.view.Nodes[0].HookState = "completed" },
		"failure":        func(o *outcome) { o.view.Failure = &engine.RunError{Node: "ship"} },
	} {
		o := good()
		spoil(o)
		if o.judge(); len(o.problems) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

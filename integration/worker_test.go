package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// A worker process is this test binary with these variables set.
const (
	workerRole = "REACTOR_TEST_WORKER" // its name in the ledger
	workerURL  = "REACTOR_TEST_WORKER_URL"
)

// short are the settings of engines in tests: leases of a second.
func short(c engine.Config) engine.Config {
	c.Lease, c.Heartbeat, c.Sweep = time.Second, 250*time.Millisecond, 200*time.Millisecond
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// work is the main function of a worker process. It says when it is ready, and
// stops on SIGTERM within its soft-stop time, with code 0.
func work() {
	if err := workUntilStopped(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func workUntilStopped() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv(workerURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	l := &ledger{pool: pool, worker: os.Getenv(workerRole)}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	eng, err := engine.New(short(engine.Config{
		Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(pool), Validator: l.afterBody, Logger: log, Recoveries: 3,
	}), abc(l), picky(l))
	if err != nil {
		return err
	}
	client, err := workers(pool, eng)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	<-client.Stopped()
	closing, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return eng.Close(closing)
}

// workers is a River client with our workers and a short soft stop.
func workers(pool *pgxpool.Pool, eng *engine.Engine, o ...reactorriver.AttachOptions) (*river.Client[pgx.Tx], error) {
	config := riverConfig()
	if err := reactorriver.Attach(config, eng, o...); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool), config)
}

func riverConfig() *river.Config {
	return &river.Config{SoftStopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler), TestOnly: true}
}

// A process is a worker that the test may kill.
type process struct {
	cmd    *exec.Cmd
	stderr *strings.Builder
	mu     *sync.Mutex
	ended  chan struct{}
}

// startWorker starts a worker process and waits until it is ready.
func startWorker(t *testing.T, name, url string, env ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), stderr: &strings.Builder{}, mu: &sync.Mutex{}, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerRole+"="+name, workerURL+"="+url)
	p.cmd.Env = append(p.cmd.Env, env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill(); <-p.ended })
	ready, err := bufio.NewReader(out).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, out); _ = p.cmd.Wait(); close(p.ended) }()
	if err != nil || ready != "ready\n" {
		t.Fatalf("worker %s: %q, %v: %s", name, ready, err, p.log())
	}
	return p
}

// Write keeps what the worker logs.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }
func (p *process) kill()                   { p.signal(syscall.SIGCONT); p.signal(syscall.SIGKILL) }

// wait is the exit code of the process.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the worker does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// A job is the input of the test reactors.
type job struct {
	Block string // where to wait at the barrier of that name: body:b, after:b, undo:a, comp:c
	Fail  string // path of the step that fails
	Crash string // where the process kills itself: body:b, undo:a
}

// abc is a chain of three steps with effects; each passes the job on.
func abc(l *ledger) *engine.Reactor[job, job] {
	return engine.MustDefine("abc", func(b *engine.Builder, in engine.Ref[job]) engine.Ref[job] {
		a := l.step(b, "a", in)
		bb := l.step(b, "b", a)
		return l.step(b, "c", bb)
	})
}

// errScripted is how a step fails that the job names.
var errScripted error = scripted{}

type scripted struct{}

func (scripted) Error() string     { return "as the job says" }
func (scripted) ErrorCode() string { return "scripted" }

func (l *ledger) step(b *engine.Builder, name string, in engine.Ref[job]) *engine.StepNode[job, job] {
	return engine.Step(b, name, in, func(ctx context.Context, j job) (job, error) {
		l.note(ctx, "do")
		if err := l.act(ctx, j, "body:"+name); err != nil {
			return j, err
		}
		if j.Fail == name {
			return j, errScripted
		}
		if j.Block == "after:"+name {
			l.mark(ctx)
		}
		return j, nil
	}).Undo(func(ctx context.Context, j, _ job) error {
		l.note(ctx, "undo")
		return l.act(ctx, j, "undo:"+name)
	}).Compensate(func(ctx context.Context, j job, cause error) error {
		l.note(ctx, "compensate")
		l.noteCause(ctx, cause)
		return l.act(ctx, j, "comp:"+name)
	})
}

// act waits or dies where the job says so.
func (l *ledger) act(ctx context.Context, j job, at string) error {
	if j.Crash == at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if j.Block == at {
		return l.pass(ctx, j.Block)
	}
	return nil
}

// marked are runs whose next result waits between the body and its save.
var marked sync.Map

func (l *ledger) mark(context.Context) { marked.Store("next", true) }

// afterBody is a validator that holds a marked result between body and save.
func (l *ledger) afterBody(v any) error {
	j, ok := v.(job)
	if !ok || !strings.HasPrefix(j.Block, "after:") {
		return nil
	}
	if _, now := marked.LoadAndDelete("next"); now {
		return l.pass(context.Background(), j.Block)
	}
	return nil
}

// picky has an input whose contract waits at a barrier: a start job hangs
// there before its run is created.
func picky(l *ledger) *engine.Reactor[pickyInput, string] {
	return engine.MustDefine("picky", func(b *engine.Builder, in engine.Ref[pickyInput]) engine.Ref[string] {
		return engine.Step(b, "only", in, func(ctx context.Context, _ pickyInput) (string, error) {
			l.note(ctx, "do")
			return "done", nil
		})
	})
}

type pickyInput struct{ Block string }

// Validate waits where the input says so.
func (p pickyInput) Validate() error {
	if p.Block == "" || os.Getenv(workerRole) == "" {
		return nil
	}
	pool, err := pgxpool.New(context.Background(), os.Getenv(workerURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	return (&ledger{pool: pool}).pass(context.Background(), p.Block)
}

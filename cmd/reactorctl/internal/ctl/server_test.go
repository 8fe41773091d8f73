package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/demo"
	"github.com/pgreactor/reactor/internal/pgtest"
)

// A running is a call of reactorctl that goes on until it is told to stop.
type running struct {
	t         *testing.T
	stop      context.CancelFunc
	ended     chan int
	out, errs *pipe
}

// A pipe is output that can be read while it is written.
type pipe struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

func launch(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, stop: stop, ended: make(chan int, 1), out: &pipe{}, errs: &pipe{}}
	console := Console{In: strings.NewReader(""), Out: r.out, Err: r.errs, Env: func(name string) string {
		if name == "DATABASE_URL" {
			return "postgres://must-not@127.0.0.1:1/be-read"
		}
		return ""
	}}
	go func() { r.ended <- Main(ctx, args, console) }()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// says waits until the output has a text with a pattern, and returns its group.
func (r *running) says(pattern string) string {
	r.t.Helper()
	p := regexp.MustCompile(pattern)
	deadline := time.After(2 * time.Minute)
	for {
		if m := p.FindStringSubmatch(r.out.String()); m != nil {
			return m[1]
		}
		select {
		case code := <-r.ended:
			r.ended <- code
			r.t.Fatalf("it has ended with code %d: %s%s", code, r.out, r.errs)
		case <-deadline:
			r.t.Fatalf("%s is not said in\n%s%s", pattern, r.out, r.errs)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// leave stops it as Ctrl-C does, and wants success.
func (r *running) leave() {
	r.t.Helper()
	r.stop()
	code := <-r.ended
	r.ended <- code
	if code != codeOK {
		r.t.Errorf("stopped with code %d: %s", code, r.errs)
	}
}

const urlPattern = `export DATABASE_URL='(.*)'`

// The folder keeps the data and the URL from one call of dev to the next.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := reachable(t) + "/dev"
	first := launch(t, "dev", "--dir", dir)
	url1 := first.says(urlPattern)
	wantStatus(t, url1)
	exec(t, url1, `create table kept as select 1`)
	first.leave()
	if !strings.Contains(first.errs.String(), "stopped; the data stays in "+dir) {
		t.Errorf("the message is %q", first.errs)
	}
	second := launch(t, "dev", "--dir", dir)
	if url2 := second.says(urlPattern); url2 != url1 {
		t.Errorf("the URL has changed from %s to %s", url1, url2)
	}
	exec(t, url1, `drop table kept`)
	second.leave()
	wantAnotherPort(t, dir, url1)
}

// wantAnotherPort wants dev to start although its port is in use by now.
func wantAnotherPort(t *testing.T, dir, last string) {
	t.Helper()
	u, err := url.Parse(last)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	third := launch(t, "dev", "--dir", dir, "-o", "json")
	now := third.says(`"url": "(.*)"`)
	if now == last {
		t.Errorf("the URL is still %s", now)
	}
	wantStatus(t, now)
	third.leave()
}

func wantStatus(t *testing.T, url string) {
	t.Helper()
	if s := call(t, "migrate", "status", "--database", url); !strings.Contains(s.out, "as this program needs") {
		t.Errorf("got %q %q", s.out, s.err)
	}
}

func exec(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// reachable is a folder that another user can enter.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reactorctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The demo on a server of its own, which goes on until it is left.
func TestDemoThatIsKept(t *testing.T) {
	t.Parallel()
	d := launch(t, "demo", "--keep")
	url := d.says(urlPattern)
	run := d.says(`show (\S{13})\n$`)
	if !strings.Contains(d.out.String(), "All three ended as promised: so says the database.") {
		t.Errorf("got\n%s", d.out)
	}
	wantNarrow(t, strings.ReplaceAll(d.out.String(), url, ""))
	s := call(t, "show", run, "--database", url)
	s.want(t, codeOK, "")
	if !strings.Contains(s.out, "done (taken over 1 time, took ") {
		t.Errorf("got\n%s", s.out)
	}
	call(t, "doctor", "--database", url).want(t, codeOK, "")
	folder := d.says(`runs, in (\S+)`)
	d.leave()
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is still there", folder)
	}
}

// The demo in somebody's database stays in a schema of its own.
func TestDemoInADatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	s := call(t, "demo", "--database", url, "-o", "json")
	var r demo.Report
	if err := json.Unmarshal([]byte(s.out), &r); err != nil || s.code != codeOK || !r.OK || len(r.Runs) != 3 || r.Database != "" {
		t.Fatalf("code %d, report %+v, %v, %s", s.code, r, err, s.err)
	}
	list := call(t, "runs", "--database", url, "--schema", demoSchema, "--tag", "demo", "--status", "failed", "-o", "json")
	if ids := listedIDs(t, list); len(ids) != 1 || ids[0] != r.Runs[1].RunID {
		t.Errorf("failed are %q, want %s", ids, r.Runs[1].RunID)
	}
	exec(t, url, `drop schema reactor_demo cascade`)
	if s := call(t, "migrate", "status", "--database", url); !strings.Contains(s.out, "River's tables: there are none") {
		t.Errorf("something is left elsewhere: %q", s.out)
	}
}

func TestWhatTheDemoLeaves(t *testing.T) {
	t.Parallel()
	own := leftBehind(demo.Options{Schema: demoSchema})
	given := leftBehind(demo.Options{Schema: "shop"})
	if !strings.Contains(own, "drop schema reactor_demo cascade;") || !strings.Contains(given, `demo_calls in schema "shop"`) {
		t.Errorf("got %q and %q", own, given)
	}
	for path, want := range map[string]string{"/tmp/go-build1/b001/exe/reactorctl": "go run ./cmd/reactorctl", "/usr/bin/reactorctl": "reactorctl"} {
		if got := programName(path); got != want {
			t.Errorf("%s is called %s, want %s", path, got, want)
		}
	}
}

// Where a question gets no answer nothing is changed.
func TestQuestionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull) // a device, so it may be asked
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for in, want := range map[any]string{null: "nothing was changed", nil: "Nobody can be asked here: give --yes"} {
		a := &app{console: Console{Err: &bytes.Buffer{}}}
		if in == null {
			a.console.In = null
		}
		if err := a.confirm("All is deleted."); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
	reactorriver "github.com/pgreactor/reactor/river"
)

// echo passes its input on; b makes what the input says.
func echo() *engine.Reactor[string, string] {
	return engine.MustDefine("echo", func(b *engine.Builder, in engine.Ref[string]) engine.Ref[string] {
		a := engine.Step(b, "a", in, func(_ context.Context, s string) (string, error) { return s, nil }).
			Undo(func(context.Context, string, string) error { return nil })
		return engine.Step(b, "b", a, func(_ context.Context, s string) (string, error) {
			switch s {
			case "too much":
				return strings.Repeat("x", 3000), nil
			case "a long error":
				return "", errors.New(strings.Repeat("no ", 20000))
			}
			return s, nil
		}).Compensate(func(context.Context, string, error) error { return nil })
	})
}

// A key of 512 bytes is found by its value, to the last byte; a longer one is
// refused before anything is written, and neither cut nor hashed.
// spec: K-430, K-423
func TestLongKeys(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	r := echo()
	eng := starter(t, pool, r)
	long := strings.Repeat("ü1", 170) + "a" // 511 bytes
	ids := map[string]bool{}
	for _, key := range []string{long + "a", long + "b", long + "a"} {
		h, err := r.Start(t.Context(), eng, "x", engine.StartOptions{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		ids[h.ID] = true
	}
	if len(ids) != 2 || runsOf(t, pool, "echo") != 2 {
		t.Errorf("%d handles and %d runs of two keys", len(ids), runsOf(t, pool, "echo"))
	}
	_, err := r.Start(t.Context(), eng, "x", engine.StartOptions{Key: long + "ab"})
	if err == nil || !strings.Contains(err.Error(), "the start key is 513 bytes long, the limit is 512") {
		t.Errorf("%v", err)
	}
	if n := runsOf(t, pool, "echo"); n != 2 {
		t.Errorf("%d runs after a refused key", n)
	}
}

// A value past its limit is refused before it is written, naming node, size and
// limit; an error text past its own is cut with a mark.
// spec: K-423
func TestValuesPastTheirLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	r := echo()
	eng, err := engine.New(short(engine.Config{Store: pgstore.New(pool), Limits: engine.Limits{Value: 2000, ErrorText: 1000}}), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	if _, err := r.Run(t.Context(), eng, strings.Repeat("y", 2500)); err == nil || !strings.Contains(err.Error(), "input is") || runsOf(t, pool, "echo") != 0 {
		t.Errorf("%d runs, %v", runsOf(t, pool, "echo"), err)
	}
	res, err := r.Run(t.Context(), eng, "too much")
	failure, ok := errors.AsType[*engine.RunError](err)
	if !ok || failure.Node != "b" || failure.Code != "value" || !strings.Contains(err.Error(), "result is 2.9 KiB, the limit is") {
		t.Fatalf("%v", err)
	}
	if n := one[int](t, pool, `select count(*) from reactor.nodes where run_id = $1 and path = 'b' and output is not null`, res.RunID); n != 0 {
		t.Error("the result was stored")
	}
	res, err = r.Run(t.Context(), eng, "a long error")
	if n := one[int](t, pool, `select length(failure::text) from reactor.run_payloads where run_id = $1`, res.RunID); n > 2000 || len(err.Error()) > 2000 {
		t.Errorf("a failure of %d bytes is stored, and its text has %d", n, len(err.Error()))
	}
	if !strings.Contains(err.Error(), "bytes cut") {
		t.Errorf("the cut has no mark: %v", err)
	}
}

// wanted is an input with fields that can be searched for and others.
type wanted struct {
	Short, Long, Nul string
	Number           int64
	Yes              bool
	Nested           struct{ Short string }
	Nothing          *string
	Secret           string `reactor:"redact"`
}

// Top-level scalars of an input can be searched for, up to 255 characters,
// without U+0000 and unless they are redacted. They are stored once.
// spec: K-421, K-420
func TestSearchableFields(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	r := engine.MustDefine("wanted", func(b *engine.Builder, in engine.Ref[wanted]) engine.Ref[int] {
		return engine.Step(b, "a", in, func(context.Context, wanted) (int, error) { return 1, nil })
	})
	eng, _ := open(t, pool, engine.Config{}, r)
	in := wanted{Short: strings.Repeat("s", 255), Long: strings.Repeat("l", 256), Nul: "a\x00b", Number: 1<<53 + 1, Yes: true, Secret: "s3cret"}
	in.Nested.Short = "inside"
	h, err := r.Start(t.Context(), eng, in)
	if err != nil {
		t.Fatal(err)
	}
	fields := `select array_to_string(fields, ' ') from reactor.run_payloads where run_id = $1`
	before := one[string](t, pool, fields, h.ID)
	for query, want := range map[string]int{
		"Short=" + in.Short: 1, "Number=9007199254740993": 1, "Yes=true": 1,
		"Short=" + in.Short[1:]: 0, "Long=" + in.Long: 0, "Nul=a\\u0000b": 0, "Nested=inside": 0, "Nothing=null": 0, "Nothing=": 0, "Secret=s3cret": 0,
	} {
		name, value, _ := strings.Cut(query, "=")
		page, err := eng.List(t.Context(), engine.Query{Input: map[string]string{name: value}})
		if err != nil || len(page.Runs) != want {
			t.Errorf("%.20s: %d runs, %v", query, len(page.Runs), err)
		}
	}
	if strings.Contains(before, "s3cret") {
		t.Error("a redacted field is among those that are stored for searching")
	}
	if v := final(t, eng, h.ID); v.Status != engine.Completed {
		t.Errorf("%s", v.Status)
	}
	if after := one[string](t, pool, fields, h.ID); after != before {
		t.Errorf("the fields were written again:\n%s\n%s", before, after)
	}
}

// Notices are hints: where none can be sent, runs are started and finished all
// the same.
// spec: K-448, K-854
func TestNoticesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, closed := poolOn(t, url), poolOn(t, url)
	closed.Close()
	r := echo()
	eng := mute(t, pool, closed, r)
	for i := range 5 {
		h, err := r.Start(t.Context(), eng, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if v := final(t, eng, h.ID); v.Status != engine.Completed {
			t.Errorf("%s", v.Status)
		}
	}
}

// mute is an engine with workers whose dispatcher has a closed pool: it inserts
// jobs in transactions of others, and its notices fail.
func mute(t *testing.T, pool, closed *pgxpool.Pool, r engine.Definition) *engine.Engine {
	t.Helper()
	eng, err := engine.New(short(engine.Config{Store: pgstore.New(pool), Dispatcher: reactorriver.NewDispatcher(closed)}), r)
	if err != nil {
		t.Fatal(err)
	}
	client, err := workers(pool, eng)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(client.Stop(ctx), eng.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return eng
}

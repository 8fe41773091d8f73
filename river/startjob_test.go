package river_test

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	reactorriver "github.com/pgreactor/reactor/river"
)

type parcel struct {
	To    string  `json:"to"`
	Grams float64 `json:"grams"`
}

var ship = engine.MustDefine("ship", func(b *engine.Builder, in engine.Ref[parcel]) engine.Ref[parcel] {
	return engine.Step(b, "send", in, func(_ context.Context, p parcel) (parcel, error) { return p, nil })
})

var all = engine.StartOptions{
	Key: "k", At: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), Queue: "q", Priority: 2, Tags: []string{"a", "b"},
}

var plain = cmpopts.IgnoreUnexported(reactorriver.StartArgs{})

func TestStartArgsSurviveTheirRow(t *testing.T) {
	t.Parallel()
	options := reflect.ValueOf(all)
	for i := range options.NumField() {
		if options.Field(i).IsZero() {
			t.Fatalf("this test must set StartOptions.%s", options.Type().Field(i).Name)
		}
	}
	pool := pgtest.Pool(t)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []reactorriver.StartArgs{
		{Reactor: "ship", Input: json.RawMessage(`null`)},
		{Reactor: "ship", Input: json.RawMessage(`{"n": 9007199254740993}`), Options: all},
		{Reactor: "ship", Input: json.RawMessage(`"\u0000 and \\u0000"`)},
		{Reactor: "ship", Input: json.RawMessage(`["\uD800"]`)},
	} {
		res, err := client.Insert(t.Context(), want, nil)
		if err != nil {
			t.Fatalf("%s: %v", want.Input, err)
		}
		var stored []byte
		if err := pool.QueryRow(t.Context(), `select args from river_job where id = $1`, res.Job.ID).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		var got reactorriver.StartArgs
		if err := json.Unmarshal(stored, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, plain); diff != "" {
			t.Errorf("%s: -want +got\n%s", stored, diff)
		}
	}
}

// spec: C-1140
func TestStartJobThroughTheApplicationsClient(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Insert(t.Context(), reactorriver.StartJob(ship, parcel{"Ada", 1}), nil); err != nil {
		t.Fatal(err)
	}
	within(t, pool, func(tx pgx.Tx) error {
		_, err := client.InsertTx(t.Context(), tx, reactorriver.StartJob(ship, parcel{"Bob", 2}, engine.StartOptions{Queue: "billing", Priority: 4}), nil)
		return err
	})
	want := []jobRow{
		{Kind: "reactor_start", Queue: "reactor", Priority: 1, MaxAttempts: 32767, State: "available",
			Args: []byte(`{"input": {"to": "Ada", "grams": 1}, "reactor": "ship"}`)},
		{Kind: "reactor_start", Queue: "billing", Priority: 4, MaxAttempts: 32767, State: "available",
			Args: []byte(`{"input": {"to": "Bob", "grams": 2}, "queue": "billing", "reactor": "ship", "priority": 4}`)},
	}
	if diff := cmp.Diff(want, jobsIn(t, pool), cmpopts.IgnoreFields(jobRow{}, "ID", "Metadata")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// An insert that can't be is refused before it reaches the database: the
// caller's transaction goes on.
func TestBadStartJobsAreErrorsOfInsert(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var none *engine.Reactor[parcel, parcel]
	within(t, pool, func(tx pgx.Tx) error {
		for want, bad := range map[string]reactorriver.StartArgs{
			"nil reactor":                  reactorriver.StartJob(none, parcel{}),
			"2 StartOptions; it takes one": reactorriver.StartJob(ship, parcel{}, engine.StartOptions{}, engine.StartOptions{}),
			"reactor ship: ":               reactorriver.StartJob(ship, parcel{Grams: math.NaN()}),
			"has no Reactor":               {Input: []byte(`1`)},
			"is not JSON":                  {Reactor: "ship", Input: []byte(`{`)},
			"is not JSON in UTF-8":         {Reactor: "ship", Input: []byte("\"\xff\"")},
			`reactor "a\x00b"`:             {Reactor: "a\x00b"},
			`"k\x00" `:                     {Reactor: "ship", Options: engine.StartOptions{Key: "k\x00"}},
			`"\xff" `:                      {Reactor: "ship", Options: engine.StartOptions{Tags: []string{"a", "\xff"}}},
			"priority must be between":     {Reactor: "ship", Options: engine.StartOptions{Priority: 5}},
			"queue name":                   {Reactor: "ship", Options: engine.StartOptions{Queue: "Not a queue"}},
		} {
			_, err := client.InsertTx(t.Context(), tx, bad, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
		}
		_, err := client.InsertTx(t.Context(), tx, reactorriver.StartJob(ship, parcel{}), nil)
		return err
	})
	if n := len(jobsIn(t, pool)); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
}

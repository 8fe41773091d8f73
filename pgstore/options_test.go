package pgstore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/pgstore"
)

// spec: C-1010, C-1142
func TestOptionsAreCheckedByNew(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none") // not used
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for want, store := range map[string]*pgstore.Store{
		"engine: pgstore: 2 values of Options given, at most one is taken":   pgstore.New(pool, pgstore.Options{Schema: "a"}, pgstore.Options{Schema: "a"}),
		"engine: pgstore: the pool is nil: give New an open pgxpool.Pool":    pgstore.New(nil),
		`engine: pgstore: the schema name "a\xff" is not UTF-8 or has a NUL`: pgstore.New(pool, pgstore.Options{Schema: "a\xff"}),
	} {
		_, err := engine.New(engine.Config{Store: store, Limits: engine.Limits{Key: -1}})
		if err == nil {
			t.Fatalf("no error, want %s", want)
		}
		if diff := cmp.Diff([]string{"engine: Limits.Key -1 must be above 0", want}, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/migrations/schema"
	"github.com/pgreactor/reactor/pgstore"
)

// spec: K-424
func TestCheck(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.must(f.store.Check(t.Context()))
	missing := pgstore.New(f.pool, pgstore.Options{Schema: "elsewhere"})
	err := missing.Check(t.Context())
	if _, ok := errors.AsType[*schema.MissingError](err); !ok || !strings.Contains(err.Error(), "reactorctl migrate --schema elsewhere") {
		t.Errorf("missing: %v", err)
	}
	h, err := missing.Health(t.Context())
	if err != nil || h.Schema != 0 || h.Want != schema.Latest {
		t.Errorf("health without a schema: %+v, %v", h, err)
	}
	f.exec(`update reactor.schema_version set version_id = 4711, oldest = 4711 where version_id = (select max(version_id) from reactor.schema_version)`)
	err = f.store.Check(t.Context())
	if _, ok := errors.AsType[*schema.NewerError](err); !ok || !strings.Contains(err.Error(), "4711") {
		t.Errorf("newer: %v", err)
	}
	empty := pgstore.New(open(t, pgtest.Empty(t), nil))
	err = empty.Check(t.Context())
	if _, ok := errors.AsType[*schema.MissingError](err); !ok {
		t.Errorf("empty database: %v", err)
	}
	_, err = empty.Statuses(t.Context(), []string{newID()})
	(&fixture{T: t}).away(err)
}

package pgstore_test

import (
	"testing"

	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

func TestZZPlan(t *testing.T) {
	pool := pgtest.Pool(t)
	conn, _ := pool.Acquire(t.Context())
	defer conn.Release()
	for _, h := range hots() {
		for range 5 {
			tx, _ := conn.Begin(t.Context())
			tx.Exec(t.Context(), pgstore.Statements()["limits"], "1s", "1min")
			rows, err := tx.Query(t.Context(), "explain (analyze, timing off, summary on) "+pgstore.Statements()[h.name], h.arguments...)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for rows.Next() {
				var l string
				rows.Scan(&l)
				lines = append(lines, l)
			}
			if err := rows.Err(); err != nil {
				t.Log(h.name, err)
			} else {
				t.Log(h.name, lines[len(lines)-2:])
			}
			tx.Rollback(t.Context())
		}
	}
}

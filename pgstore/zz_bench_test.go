package pgstore_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgreactor/reactor/engine"
	"github.com/pgreactor/reactor/internal/pgtest"
	"github.com/pgreactor/reactor/pgstore"
)

func uid() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func BenchmarkSave(b *testing.B) {
	for _, size := range []int{10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			pool := pgtest.Pool(b)
			s := pgstore.New(pool)
			s.Attach(nil)
			p := uid()
			s.Register(b.Context(), engine.Process{ID: p, Knows: []string{"checkout@1"}, Queues: []string{"reactor"}}, time.Hour)
			r := engine.NewRun{Header: engine.Header{ID: uid(), Kind: engine.Root, Reactor: "checkout", Definition: 1, Fingerprint: "f", Status: engine.Running, Queue: "reactor", Priority: 2}, WriteID: uid(), Input: json.RawMessage(`1`)}
			r.Fence = engine.Fence{Run: r.ID, Token: uid(), Process: p}
			if _, err := s.Create(b.Context(), nil, []engine.NewRun{r}); err != nil {
				b.Fatal(err)
			}
			f := r.Fence
			f.Version = 1
			val := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
			b.ResetTimer()
			for i := range b.N {
				v, err := s.Save(b.Context(), f, engine.Changes{WriteID: uid(), Nodes: []engine.NodeChange{{NodeRow: engine.NodeRow{Path: fmt.Sprint("n", i), Kind: "step", State: engine.NodeDone, Seq: int64(i), Input: json.RawMessage(`1`), Output: val}}}})
				if err != nil {
					b.Fatal(err)
				}
				f.Version = v
			}
			b.StopTimer()
			for range 3 {
				rows, _ := pool.Query(b.Context(), `select 1`)
				rows.Close()
			}
		})
	}
}

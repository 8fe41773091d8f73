package engine

import (
	"context"
	"sync"
)

// seats is room for runs that workers of this process drive at the same time.
type seats struct {
	mu    sync.Mutex
	total int
	taken int
	freed chan struct{} // closed and replaced when a seat becomes free
}

func newSeats(total int) *seats { return &seats{total: total, freed: make(chan struct{})} }

// limit changes how many there are.
func (s *seats) limit(total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = total
	s.tell()
}

func (s *seats) tell() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// take waits until a seat is free and takes up to n.
func (s *seats) take(ctx context.Context, stopping <-chan struct{}, n int) (int, error) {
	for {
		got, freed := s.try(n)
		if got > 0 {
			return got, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, callerGone(ctx)
		case <-stopping:
			return 0, errClosed
		}
	}
}

func (s *seats) try(n int) (got int, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got = max(0, min(n, s.total-s.taken))
	s.taken += got
	return got, s.freed
}

func (s *seats) free(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	s.tell()
}

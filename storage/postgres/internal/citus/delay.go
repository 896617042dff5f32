package citus

import (
	"sync"
	"time"
)

// LogDelay limits how far followers of the log may read. If tables are
// distributed, a change that also writes vault_lookups is committed in two
// phases. Its transaction ends here some moments before its entries become
// visible on the worker. So followers read only up to a bound from a while ago.
type LogDelay struct {
	Wait time.Duration // zero to hold nothing back
	Now  func() time.Time

	mu      sync.Mutex
	cluster int64       // the server of the bounds
	seen    []seenBound // oldest first
}

type seenBound struct {
	at     time.Time
	oldest int64
}

// UsualLogDelay is how long a bound is held back. Committing a prepared
// transaction takes milliseconds.
const UsualLogDelay = 10 * time.Second

// Bound records a bound and returns the latest old enough bound, or zero.
func (s *LogDelay) Bound(cluster, oldest int64) int64 {
	if s.Wait == 0 {
		return oldest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.cluster != cluster {
		s.cluster, s.seen = cluster, nil
	}
	// A few bounds are enough, because a delay of another tenth does not
	// matter.
	if n := len(s.seen); n == 0 || now.Sub(s.seen[n-1].at) >= s.Wait/10 {
		s.seen = append(s.seen, seenBound{now, oldest})
	}
	for len(s.seen) > 1 && now.Sub(s.seen[1].at) >= s.Wait {
		s.seen = s.seen[1:]
	}
	if now.Sub(s.seen[0].at) < s.Wait {
		return 0
	}
	return min(s.seen[0].oldest, oldest)
}

package postgres

import (
	"sync"
	"time"
)

// settling limits how far followers of the log may read. If tables are
// distributed, a change that also writes vault_lookups is committed in two
// phases. Its transaction ends here some moments before its entries become
// visible on the worker. So followers read only up to a bound from a while ago.
type settling struct {
	wait time.Duration // zero to hold nothing back
	now  func() time.Time

	mu      sync.Mutex
	cluster int64       // the server of the bounds
	seen    []seenBound // oldest first
}

type seenBound struct {
	at     time.Time
	oldest int64
}

// settleTime is how long a bound is held back. Committing a prepared
// transaction takes milliseconds.
const settleTime = 10 * time.Second

// bound records a bound and returns the latest old enough bound, or zero.
func (s *settling) bound(b *logBounds) int64 {
	if s.wait == 0 {
		return b.oldest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.cluster != b.cluster {
		s.cluster, s.seen = b.cluster, nil
	}
	// A few bounds are enough, because a delay of another tenth does not
	// matter.
	if n := len(s.seen); n == 0 || now.Sub(s.seen[n-1].at) >= s.wait/10 {
		s.seen = append(s.seen, seenBound{now, b.oldest})
	}
	for len(s.seen) > 1 && now.Sub(s.seen[1].at) >= s.wait {
		s.seen = s.seen[1:]
	}
	if now.Sub(s.seen[0].at) < s.wait {
		return 0
	}
	return min(s.seen[0].oldest, b.oldest)
}

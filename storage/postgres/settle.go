package postgres

import (
	"sync"
	"time"
)

// settling holds back how far followers of the log may read. Where tables are
// distributed, a change that also writes vault_lookups is committed in two phases:
// its transaction has ended here some moments before its entries can be seen on
// the worker. So followers read up to a bound that was true a while ago.
type settling struct {
	wait time.Duration // nothing is held back when zero
	now  func() time.Time

	mu      sync.Mutex
	cluster int64       // that the bounds are of
	seen    []seenBound // the oldest first
}

type seenBound struct {
	at     time.Time
	oldest int64
}

// settleTime is for how long a bound is held back. To commit what is prepared
// takes milliseconds.
const settleTime = 10 * time.Second

// bound notes a bound, and returns the latest of those that are old enough, or
// zero when none is.
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
	// A few are enough: a bound may be a tenth later than it could be.
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

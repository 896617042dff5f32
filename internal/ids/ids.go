// Package ids creates identifiers: UUIDs in the order of their creation, random
// text in base58, and API keys.
package ids

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Source creates UUIDv7s: 48 bits of milliseconds, 12 bits of the fraction of
// a millisecond, a 16-bit counter and 46 random bits. The counter numbers the
// ids of the same moment, so that lists are in the order of creation even if
// the clock stands still.
//
// The zero value is ready to use. A Source is safe for concurrent use.
type Source struct {
	mu    sync.Mutex
	last  time.Time
	count uint16
}

// At returns an id for a time. Ids are ordered by their times.
func (s *Source) At(t time.Time) uuid.UUID {
	s.mu.Lock()
	if t.Equal(s.last) {
		s.count++
	} else {
		s.last, s.count = t, 0
	}
	count := s.count
	s.mu.Unlock()

	var id uuid.UUID
	rand.Read(id[10:])
	ms := uint64(t.UnixMilli())
	fraction := uint64(t.Nanosecond()%int(time.Millisecond)) * 4096 / uint64(time.Millisecond)
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|fraction)
	id[8] = 0x80 | byte(count>>10)
	id[9] = byte(count >> 2)
	id[10] = byte(count<<6) | id[10]&0x3f
	return id
}

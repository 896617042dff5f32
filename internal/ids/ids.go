// Package ids makes what identifies things: UUIDs in the order of their
// creation, and random text in base58.
package ids

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Source makes UUIDv7s: 48 bits of milliseconds, 12 bits of the fraction below
// one, 16 bits that count the ids of one such moment, and 46 random bits. The
// count keeps what one process makes at one moment in order, so that lists are
// in the order of creation even under a clock that stands still.
//
// The zero value is ready to use, by several goroutines at once.
type Source struct {
	mu    sync.Mutex
	last  time.Time
	count uint16
}

// At returns an id whose place in lists is that of a time.
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

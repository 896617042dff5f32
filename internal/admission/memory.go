package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// use is what memory is taken for.
type use uint8

const (
	working  use = iota
	arriving     // for a body that is on its way
)

// payer is whose share a request counts against.
type payer struct {
	id        uuid.UUID
	anonymous bool // its share is half as large
}

// memory counts what requests hold. All of them may hold limit bytes together,
// one tenant half of that, and calls of its proxies by strangers a quarter. So
// one tenant never takes all that others need. Large requests leave the last eighth of both to
// small ones, which therefore do not wait for them.
type memory struct {
	limit    int64
	patience time.Duration

	mu       sync.Mutex
	used     int64
	onTheWay int64
	held     map[payer]int64
	coming   map[payer]int64 // the part of it that is on its way
	waiting  []*wait         // in the order of their coming
}

// wait is a request that waits for memory.
type wait struct {
	payer   payer
	bytes   int64
	use     use
	granted chan struct{}
}

// smallPart is the part of the limit up to which a request is a small one.
const smallPart = 1024

func (m *memory) share(p payer) int64 {
	if p.anonymous {
		return m.limit / 4
	}
	return m.limit / 2
}

// bound returns how much of a limit may be in use once bytes are added.
func (m *memory) bound(limit, bytes int64) int64 {
	if bytes <= m.limit/smallPart {
		return limit
	}
	return limit - limit/8
}

// try takes memory if there is some.
func (m *memory) try(p payer, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fits(p, bytes, working) {
		return ErrFull
	}
	m.add(p, bytes, working)
	return nil
}

// take waits for memory.
func (m *memory) take(ctx context.Context, p payer, bytes int64, u use) error {
	w, err := m.line(p, bytes, u)
	if w == nil {
		return err
	}
	timer := time.NewTimer(m.patience)
	defer timer.Stop()
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
		return m.giveUp(w, ErrFull)
	case <-ctx.Done():
		return m.giveUp(w, ctx.Err())
	}
}

// line takes memory, or a place among those that wait for it.
func (m *memory) line(p payer, bytes int64, u use) (*wait, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > m.most(p, bytes, u) {
		return nil, ErrNever
	}
	if m.fits(p, bytes, u) {
		m.add(p, bytes, u)
		return nil, nil
	}
	w := &wait{p, bytes, u, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	return w, nil
}

// most returns the most that a tenant which holds nothing may take at once.
func (m *memory) most(p payer, bytes int64, u use) int64 {
	if u == arriving {
		return m.share(p) / 2
	}
	return m.bound(m.share(p), bytes)
}

// giveUp ends a wait. Memory that was given at the last moment is kept.
func (m *memory) giveUp(w *wait, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, w)
	if i < 0 {
		return nil
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	return err
}

// give takes memory back and hands it to those that wait and find it enough.
func (m *memory) give(p payer, bytes int64, wasArriving bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	lower(m.held, p, bytes)
	if wasArriving {
		m.onTheWay -= bytes
		lower(m.coming, p, bytes)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(w *wait) bool {
		if !m.fits(w.payer, w.bytes, w.use) {
			return false
		}
		m.add(w.payer, w.bytes, w.use)
		close(w.granted)
		return true
	})
}

func (m *memory) fits(p payer, bytes int64, u use) bool {
	if u == arriving && (m.coming[p]+bytes > m.share(p)/2 || m.onTheWay+bytes > m.limit/2) {
		return false
	}
	return m.used+bytes <= m.bound(m.limit, bytes) && m.held[p]+bytes <= m.bound(m.share(p), bytes)
}

func (m *memory) add(p payer, bytes int64, u use) {
	m.used += bytes
	m.held[p] += bytes
	if u == arriving {
		if m.coming == nil {
			m.coming = map[payer]int64{}
		}
		m.onTheWay += bytes
		m.coming[p] += bytes
	}
}

// lower takes bytes from a payer, and forgets one that holds none.
func lower(held map[payer]int64, p payer, bytes int64) {
	if held[p] -= bytes; held[p] == 0 {
		delete(held, p)
	}
}

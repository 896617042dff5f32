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

// memory counts what requests hold. All of them may hold limit bytes together,
// and one tenant half of that. Large requests leave the last eighth of both to
// small ones, which therefore do not wait for them.
type memory struct {
	limit    int64
	patience time.Duration

	mu       sync.Mutex
	used     int64
	onTheWay int64
	held     map[uuid.UUID]int64 // by tenant
	coming   map[uuid.UUID]int64 // the part of it that is on its way
	waiting  []*wait             // in the order of their coming
}

// wait is a request that waits for memory.
type wait struct {
	tenant  uuid.UUID
	bytes   int64
	use     use
	granted chan struct{}
}

// smallPart is the part of the limit up to which a request is a small one.
const smallPart = 1024

func (m *memory) share() int64 { return m.limit / 2 }

// bound returns how much of a limit may be in use once bytes are added.
func (m *memory) bound(limit, bytes int64) int64 {
	if bytes <= m.limit/smallPart {
		return limit
	}
	return limit - limit/8
}

// try takes memory if there is some.
func (m *memory) try(tenant uuid.UUID, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fits(tenant, bytes, working) {
		return ErrFull
	}
	m.add(tenant, bytes, working)
	return nil
}

// take waits for memory.
func (m *memory) take(ctx context.Context, tenant uuid.UUID, bytes int64, u use) error {
	w, err := m.line(tenant, bytes, u)
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
func (m *memory) line(tenant uuid.UUID, bytes int64, u use) (*wait, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > m.most(bytes, u) {
		return nil, ErrNever
	}
	if m.fits(tenant, bytes, u) {
		m.add(tenant, bytes, u)
		return nil, nil
	}
	w := &wait{tenant, bytes, u, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	return w, nil
}

// most returns the most that a tenant which holds nothing may take at once.
func (m *memory) most(bytes int64, u use) int64 {
	if u == arriving {
		return m.share() / 2
	}
	return m.bound(m.share(), bytes)
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
func (m *memory) give(tenant uuid.UUID, bytes int64, wasArriving bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	lower(m.held, tenant, bytes)
	if wasArriving {
		m.onTheWay -= bytes
		lower(m.coming, tenant, bytes)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(w *wait) bool {
		if !m.fits(w.tenant, w.bytes, w.use) {
			return false
		}
		m.add(w.tenant, w.bytes, w.use)
		close(w.granted)
		return true
	})
}

func (m *memory) fits(tenant uuid.UUID, bytes int64, u use) bool {
	if u == arriving && (m.coming[tenant]+bytes > m.share()/2 || m.onTheWay+bytes > m.limit/2) {
		return false
	}
	return m.used+bytes <= m.bound(m.limit, bytes) && m.held[tenant]+bytes <= m.bound(m.share(), bytes)
}

func (m *memory) add(tenant uuid.UUID, bytes int64, u use) {
	m.used += bytes
	m.held[tenant] += bytes
	if u == arriving {
		if m.coming == nil {
			m.coming = map[uuid.UUID]int64{}
		}
		m.onTheWay += bytes
		m.coming[tenant] += bytes
	}
}

// lower takes bytes from a tenant, and forgets a tenant that holds none.
func lower(held map[uuid.UUID]int64, tenant uuid.UUID, bytes int64) {
	if held[tenant] -= bytes; held[tenant] == 0 {
		delete(held, tenant)
	}
}

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
	coming   map[payer]int64     // the part of it that is on its way
	apps     map[uuid.UUID]int64 // the part of that by application
	waiting  []*wait             // in the order of their coming
}

// wait is a request that waits for memory.
type wait struct {
	ask
	granted chan struct{}
}

// ask is what a request asks for.
type ask struct {
	payer payer
	bytes int64
	use   use
	// app is the application that sends a body, zero for none, and own what the
	// request holds of that body already.
	app uuid.UUID
	own int64
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
	a := ask{payer: p, bytes: bytes}
	if !m.fits(&a) {
		return ErrFull
	}
	m.add(&a)
	return nil
}

// take waits for memory.
func (m *memory) take(ctx context.Context, a ask) error {
	w, err := m.line(a)
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
func (m *memory) line(a ask) (*wait, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.bytes > m.most(a.payer, a.bytes, a.use) {
		return nil, ErrNever
	}
	if m.fits(&a) {
		m.add(&a)
		return nil, nil
	}
	w := &wait{a, make(chan struct{})}
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
func (m *memory) give(a ask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= a.bytes
	lower(m.held, a.payer, a.bytes)
	if a.use == arriving {
		m.onTheWay -= a.bytes
		lower(m.coming, a.payer, a.bytes)
		lower(m.apps, a.app, a.bytes)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(w *wait) bool {
		if !m.fits(&w.ask) {
			return false
		}
		m.add(&w.ask)
		close(w.granted)
		return true
	})
}

func (m *memory) fits(a *ask) bool {
	if a.use == arriving && !m.mayArrive(a) {
		return false
	}
	return m.used+a.bytes <= m.bound(m.limit, a.bytes) && m.held[a.payer]+a.bytes <= m.bound(m.share(a.payer), a.bytes)
}

// mayArrive reports whether there is memory for a body on its way. One application
// has half of what its tenant has for that, so that its slow bodies make its own
// requests wait first. A request that is its only one may take more.
func (m *memory) mayArrive(a *ask) bool {
	most := m.share(a.payer) / 2
	if others := m.apps[a.app] - a.own; a.app != (uuid.UUID{}) && others > 0 && others+a.own+a.bytes > most/2 {
		return false
	}
	return m.coming[a.payer]+a.bytes <= most && m.onTheWay+a.bytes <= m.limit/2
}

func (m *memory) add(a *ask) {
	m.used += a.bytes
	m.held[a.payer] += a.bytes
	if a.use == arriving {
		if m.coming == nil {
			m.coming, m.apps = map[payer]int64{}, map[uuid.UUID]int64{}
		}
		m.onTheWay += a.bytes
		m.coming[a.payer] += a.bytes
		m.apps[a.app] += a.bytes
	}
}

// lower takes bytes from a holder, and forgets one that holds none.
func lower[K comparable](held map[K]int64, of K, bytes int64) {
	if held[of] -= bytes; held[of] == 0 {
		delete(held, of)
	}
}

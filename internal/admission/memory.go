package admission

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// use is the purpose of memory.
type use uint8

const (
	working  use = iota
	arriving     // for a body that is still arriving
)

// payer is the holder of the share that a request counts against.
type payer struct {
	id        uuid.UUID
	anonymous bool // has half as large a share
}

// memory counts the memory of requests. All requests together may hold limit
// bytes, one tenant half of that, and anonymous calls of its proxies a
// quarter. One tenant thus never takes all memory. Large requests leave the
// last eighth of each limit to small requests, which therefore do not wait
// for large ones.
//
// Small bodies draw on that eighth without the lock: see draw.
type memory struct {
	limit    int64
	patience time.Duration

	small  atomic.Int64 // held for small bodies
	used   atomic.Int64 // held for everything else; changes with mu
	queued atomic.Int64 // the length of waiting; changes with mu

	mu       sync.Mutex
	onTheWay int64
	held     map[payer]int64
	coming   map[payer]int64     // the part of held for arriving bodies
	apps     map[uuid.UUID]int64 // the part of coming by application
	waiting  []*wait             // in order of arrival
}

// wait is a request that waits for memory.
type wait struct {
	ask
	granted chan struct{}
}

// ask is a request for memory.
type ask struct {
	payer payer
	bytes int64
	use   use
	// app is the application that sends a body, or zero. own is how much
	// memory the request already holds for that body.
	app uuid.UUID
	own int64
}

// smallPart determines which requests are small: up to limit/smallPart bytes.
const smallPart = 1024

func (m *memory) share(p payer) int64 {
	if p.anonymous {
		return m.limit / 4
	}
	return m.limit / 2
}

// bound returns how much of a limit may be in use after bytes are added, besides
// small bodies. Those have the last eighth at most, so a large request need not know
// how many there are.
func (m *memory) bound(limit, bytes int64) int64 {
	if bytes <= m.limit/smallPart {
		return limit - m.small.Load()
	}
	return limit - limit/8
}

// draw takes memory for a small body, and reports whether there was some. All small
// bodies have one counter, which ends at an eighth of a tenant's share, and so below
// an eighth of the process. A tenant's own part of it is not known. Therefore nothing
// is drawn when all other memory and the small bodies would be more than a share:
// a tenant cannot have more than its share then, and the small body asks as others do.
//
// draw adds before it looks at used, and grant adds to used before it looks at small,
// so if both happen at once, at least one of them sees the other.
func (m *memory) draw(p payer, bytes int64) bool {
	share := m.share(p)
	if small := m.small.Add(bytes); small <= share/8 && small+m.used.Load() <= share {
		return true
	}
	m.putBack(bytes)
	return false
}

// putBack returns memory of a small body.
func (m *memory) putBack(bytes int64) {
	m.small.Add(-bytes)
	if m.queued.Load() > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.grantWaiting()
	}
}

// try takes memory if it is available.
func (m *memory) try(p payer, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.grant(&ask{payer: p, bytes: bytes}) {
		return ErrFull
	}
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

// line takes memory, or joins the queue.
func (m *memory) line(a ask) (*wait, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.bytes > m.most(a.payer, a.bytes, a.use) {
		return nil, ErrNever
	}
	if m.grant(&a) {
		return nil, nil
	}
	w := &wait{a, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	m.queued.Store(int64(len(m.waiting)))
	m.grantWaiting() // a small body may have left before it could see w
	return w, nil
}

// most returns the most that a tenant without other memory may take at once.
func (m *memory) most(p payer, bytes int64, u use) int64 {
	if u == arriving {
		return m.share(p) / 2
	}
	return m.bound(m.share(p), bytes)
}

// giveUp ends a wait. If memory was granted at the last moment, the request
// keeps it.
func (m *memory) giveUp(w *wait, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, w)
	if i < 0 {
		return nil
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	m.queued.Store(int64(len(m.waiting)))
	return err
}

// give returns memory and grants it to waiting requests.
func (m *memory) give(a ask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Add(-a.bytes)
	lower(m.held, a.payer, a.bytes)
	if a.use == arriving {
		m.onTheWay -= a.bytes
		lower(m.coming, a.payer, a.bytes)
		lower(m.apps, a.app, a.bytes)
	}
	m.grantWaiting()
}

// grantWaiting grants memory to the waiting requests for which there is enough.
func (m *memory) grantWaiting() {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *wait) bool {
		if !m.grant(&w.ask) {
			return false
		}
		close(w.granted)
		return true
	})
	m.queued.Store(int64(len(m.waiting)))
}

// grant takes memory, and reports whether there was enough.
func (m *memory) grant(a *ask) bool {
	if a.use == arriving && !m.mayArrive(a) {
		return false
	}
	used := m.used.Add(a.bytes) // before bound looks at small: see draw
	if used > m.bound(m.limit, a.bytes) || m.held[a.payer]+a.bytes > m.bound(m.share(a.payer), a.bytes) {
		m.used.Add(-a.bytes)
		return false
	}
	m.held[a.payer] += a.bytes
	if a.use == arriving {
		if m.coming == nil {
			m.coming, m.apps = map[payer]int64{}, map[uuid.UUID]int64{}
		}
		m.onTheWay += a.bytes
		m.coming[a.payer] += a.bytes
		m.apps[a.app] += a.bytes
	}
	return true
}

// mayArrive reports whether there is memory for an arriving body. One
// application may use half of its tenant's share for arriving bodies, so that
// its slow bodies delay its own requests first. If it is the application's
// only request, it may take more.
func (m *memory) mayArrive(a *ask) bool {
	most := m.share(a.payer) / 2
	if others := m.apps[a.app] - a.own; a.app != (uuid.UUID{}) && others > 0 && others+a.own+a.bytes > most/2 {
		return false
	}
	return m.coming[a.payer]+a.bytes <= most && m.onTheWay+a.bytes <= m.limit/2
}

// lower subtracts bytes from a holder, and deletes a holder without memory.
func lower[K comparable](held map[K]int64, of K, bytes int64) {
	if held[of] -= bytes; held[of] == 0 {
		delete(held, of)
	}
}

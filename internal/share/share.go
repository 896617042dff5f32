// Package share divides a number of places among holders, such as tenants: so
// many in all, so many for each, and a caller that finds none waits or is
// refused. One holder's flood leaves places for the others.
package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The reasons for which a caller gets no place.
var (
	// ErrFull means that no place became free while the caller was willing to
	// wait, or that too many wait already.
	ErrFull = errors.New("no place is free")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("closed")
)

// Limits bound places and those who wait for one. Zero means no bound, except
// for Each, which is required.
type Limits struct {
	Total int // places in all
	Each  int // places of one holder

	Queue     int           // callers that wait, in all; negative if nobody waits
	QueueEach int           // callers of one holder that wait
	Patience  time.Duration // how long a caller waits
}

// Places are divided among holders. Make one with [New].
type Places[K comparable] struct {
	limits Limits
	queued atomic.Int32 // callers that wait

	mu      sync.Mutex
	closed  bool
	taken   int
	holders map[K]*holder[K] // that have or want a place
	next    []*holder[K]     // that want one, the longest passed over first
}

// holder is what one holder has and wants.
type holder[K comparable] struct {
	key     K
	taken   int
	waiting []*wait // oldest first
}

// wait is a caller that waits.
type wait struct {
	over    chan struct{} // closed when the wait is over
	granted bool          // with a place
}

// New returns free places.
func New[K comparable](l Limits) *Places[K] {
	return &Places[K]{limits: l, holders: map[K]*holder[K]{}}
}

// Try takes a place if one is free, and reports whether it did.
func (p *Places[K]) Try(key K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try(key)
}

// Take takes a place. If none is free it waits for one until the context ends,
// or fails with ErrFull when the limits allow no more waiting. The caller gives
// the place back with Give.
func (p *Places[K]) Take(ctx context.Context, key K) error {
	w, err := p.line(key)
	if w == nil {
		return err
	}
	var patience <-chan time.Time
	if p.limits.Patience > 0 {
		timer := time.NewTimer(p.limits.Patience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-w.over:
		if !w.granted {
			return ErrClosed
		}
		return nil
	case <-patience:
		err = ErrFull
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.giveUp(key, w)
	return err
}

// Give gives a place back and hands it to the next caller that waits: of the
// holders that want one, the holder with the fewest places, and among equals the
// one passed over for longest.
func (p *Places[K]) Give(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holders[key]
	h.taken--
	p.taken--
	p.forget(h)
	p.admit()
}

// Wanted reports whether another holder waits and could have this one's place.
func (p *Places[K]) Wanted(key K) bool {
	if p.queued.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.next, func(h *holder[K]) bool { return h.key != key && h.taken < p.limits.Each })
}

// Taken returns how many places are taken.
func (p *Places[K]) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Waiting returns how many callers wait.
func (p *Places[K]) Waiting() int { return int(p.queued.Load()) }

// Close refuses all callers from now on, those that wait included, with
// ErrClosed.
func (p *Places[K]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.next {
		for _, w := range h.waiting {
			close(w.over)
			p.queued.Add(-1)
		}
		h.waiting = nil
		p.forget(h)
	}
	p.next = nil
}

func (p *Places[K]) try(key K) bool {
	if p.closed || !p.free() {
		return false
	}
	h := p.holder(key)
	if h.taken >= p.limits.Each {
		return false
	}
	h.taken++
	p.taken++
	return true
}

func (p *Places[K]) free() bool { return p.limits.Total == 0 || p.taken < p.limits.Total }

func (p *Places[K]) holder(key K) *holder[K] {
	h := p.holders[key]
	if h == nil {
		h = &holder[K]{key: key}
		p.holders[key] = h
	}
	return h
}

// line takes a place, or puts the caller at the end of its holder's line.
func (p *Places[K]) line(key K) (*wait, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.try(key):
		return nil, nil
	}
	h := p.holder(key)
	l := &p.limits
	if l.Queue != 0 && p.Waiting() >= l.Queue || l.QueueEach > 0 && len(h.waiting) >= l.QueueEach {
		p.forget(h)
		return nil, ErrFull
	}
	w := &wait{over: make(chan struct{})}
	if h.waiting = append(h.waiting, w); len(h.waiting) == 1 {
		p.next = append(p.next, h)
	}
	p.queued.Add(1)
	return w, nil
}

// admit hands out the places that are free.
func (p *Places[K]) admit() {
	for p.free() {
		i := p.first()
		if i < 0 {
			return
		}
		h := p.next[i]
		w := h.waiting[0]
		h.waiting = h.waiting[1:]
		p.next = slices.Delete(p.next, i, i+1)
		if len(h.waiting) > 0 {
			p.next = append(p.next, h)
		}
		h.taken++
		p.taken++
		p.queued.Add(-1)
		w.granted = true
		close(w.over)
	}
}

// first returns the index in next of the holder that gets the next place, or -1.
func (p *Places[K]) first() int {
	best := -1
	for i, h := range p.next {
		if h.taken < p.limits.Each && (best < 0 || h.taken < p.next[best].taken) {
			best = i
		}
	}
	return best
}

// giveUp takes a caller out of its line. A place that came at the last moment is
// handed on.
func (p *Places[K]) giveUp(key K, w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holders[key]
	switch i := slices.Index(waitingOf(h), w); {
	case i >= 0:
		h.waiting = slices.Delete(h.waiting, i, i+1)
		p.queued.Add(-1)
		if len(h.waiting) == 0 {
			p.next = slices.DeleteFunc(p.next, func(other *holder[K]) bool { return other == h })
		}
	case w.granted:
		h.taken--
		p.taken--
	default:
		return // closed meanwhile
	}
	p.forget(h)
	p.admit()
}

// waitingOf returns the line of a holder, which may be forgotten already.
func waitingOf[K comparable](h *holder[K]) []*wait {
	if h == nil {
		return nil
	}
	return h.waiting
}

// forget drops a holder that has and wants no place.
func (p *Places[K]) forget(h *holder[K]) {
	if h.taken == 0 && len(h.waiting) == 0 {
		delete(p.holders, h.key)
	}
}

// Package share divides a number of slots among holders, such as tenants. It
// bounds the slots in total and for each holder, so that one busy holder leaves
// slots for the others. A caller that finds no free slot waits or is refused.
package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The reasons why a caller gets no slot.
var (
	// ErrFull means that no slot became free within the caller's patience, or that
	// too many callers already wait.
	ErrFull = errors.New("no slot is free")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("closed")
)

// Limits bound the slots and the waiting callers. Zero means no bound, except for
// Each, which is required.
type Limits struct {
	Total int // in total
	Each  int // of one holder

	Queue     int           // waiting callers in total; negative if no caller may wait
	QueueEach int           // waiting callers of one holder
	Patience  time.Duration // how long a caller waits
}

// Slots are divided among holders. Make one with [New].
type Slots[K comparable] struct {
	limits Limits
	queued atomic.Int32 // waiting callers

	mu      sync.Mutex
	closed  bool
	taken   int
	holders map[K]*holder[K] // holders that have or want a slot
	next    []*holder[K]     // holders that want a slot, longest passed over first
}

// holder counts the slots and the waiting callers of one holder.
type holder[K comparable] struct {
	key     K
	taken   int
	waiting []*wait // oldest first
}

// wait is a waiting caller.
type wait struct {
	over    chan struct{} // closed when the wait is over
	granted bool          // the caller got a slot
}

// New returns slots that are all free.
func New[K comparable](l Limits) *Slots[K] { return &Slots[K]{limits: l} }

// Try takes a slot if one is free, and reports whether it did.
func (p *Slots[K]) Try(key K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try(key)
}

// Take takes a slot. If no slot is free, it waits until the context ends, or
// returns ErrFull when the limits allow no more waiting. The caller returns the
// slot with Give.
func (p *Slots[K]) Take(ctx context.Context, key K) error {
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

// Give returns a slot and passes it to the next waiting caller. The holder with
// the fewest slots comes first. Among equal holders, the holder that was passed
// over for longest comes first.
func (p *Slots[K]) Give(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holders[key]
	h.taken--
	p.taken--
	p.forget(h)
	p.admit()
}

// Wanted reports whether another holder waits and could use this holder's slot.
func (p *Slots[K]) Wanted(key K) bool {
	if p.queued.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.next, func(h *holder[K]) bool { return h.key != key && h.taken < p.limits.Each })
}

// Taken returns the number of taken slots.
func (p *Slots[K]) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Waiting returns the number of waiting callers.
func (p *Slots[K]) Waiting() int { return int(p.queued.Load()) }

// Close refuses all callers with ErrClosed from now on, including waiting callers.
func (p *Slots[K]) Close() {
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

func (p *Slots[K]) try(key K) bool {
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

func (p *Slots[K]) free() bool { return p.limits.Total == 0 || p.taken < p.limits.Total }

func (p *Slots[K]) holder(key K) *holder[K] {
	h := p.holders[key]
	if h == nil {
		if p.holders == nil {
			p.holders = map[K]*holder[K]{}
		}
		h = &holder[K]{key: key}
		p.holders[key] = h
	}
	return h
}

// line takes a slot, or puts the caller at the end of its holder's line.
func (p *Slots[K]) line(key K) (*wait, error) {
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

// admit hands out the free slots.
func (p *Slots[K]) admit() {
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

// first returns the index in next of the holder that gets the next slot, or -1.
func (p *Slots[K]) first() int {
	best := -1
	for i, h := range p.next {
		if h.taken < p.limits.Each && (best < 0 || h.taken < p.next[best].taken) {
			best = i
		}
	}
	return best
}

// giveUp removes a caller from its line. It passes on a slot that arrived at the
// last moment.
func (p *Slots[K]) giveUp(key K, w *wait) {
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
		return // Close was called in between
	}
	p.forget(h)
	p.admit()
}

// waitingOf returns the line of a holder, which may be nil.
func waitingOf[K comparable](h *holder[K]) []*wait {
	if h == nil {
		return nil
	}
	return h.waiting
}

// forget removes a holder that neither has nor wants a slot.
func (p *Slots[K]) forget(h *holder[K]) {
	if h.taken == 0 && len(h.waiting) == 0 {
		delete(p.holders, h.key)
	}
}

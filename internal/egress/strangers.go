package egress

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Limits on the duration of an anonymous call.
const (
	maxAnonymous = time.Minute
	// maxCrowded is the limit while all slots of the proxy are taken and
	// another caller wants one.
	maxCrowded = 10 * time.Second
)

// strangers bounds the anonymous calls of each proxy. When all slots of a proxy
// are taken, a new call ends the oldest one if it has lasted for maxCrowded. So
// slow callers cannot keep others out.
type strangers struct {
	each    int // calls of one proxy
	crowded time.Duration

	mu    sync.Mutex
	calls map[string]*list.List // *anonymous by proxy, oldest first
}

// anonymous is an anonymous call of a proxy.
type anonymous struct {
	proxy   string // with its tenant
	end     context.CancelCauseFunc
	timer   *time.Timer
	began   time.Time
	element *list.Element // nil if the call has lost its slot
}

// begin returns an anonymous call of a proxy, and the context that ends with it.
func begin(ctx context.Context, tenant, proxy string) (context.Context, *anonymous) {
	ctx, end := context.WithCancelCause(ctx)
	c := &anonymous{proxy: tenant + "/" + proxy, end: end, began: time.Now()}
	c.timer = time.AfterFunc(maxAnonymous, func() { end(ErrTooLong) })
	return ctx, c
}

// stop releases the resources of a call that has ended.
func (c *anonymous) stop() {
	if c != nil {
		c.timer.Stop()
		c.end(nil)
	}
}

// try takes a slot for a call, and reports whether it did.
func (s *strangers) try(c *anonymous) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls[c.proxy]
	if calls == nil {
		calls = list.New()
		s.calls[c.proxy] = calls
	}
	if calls.Len() >= s.each {
		oldest := calls.Front().Value.(*anonymous)
		if c.began.Sub(oldest.began) < s.crowded {
			return false
		}
		calls.Remove(oldest.element)
		oldest.element = nil
		oldest.end(ErrTooLong)
	}
	c.element = calls.PushBack(c)
	return true
}

// give returns the slot of a call.
func (s *strangers) give(c *anonymous) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.element == nil {
		return
	}
	calls := s.calls[c.proxy]
	calls.Remove(c.element)
	c.element = nil
	if calls.Len() == 0 {
		delete(s.calls, c.proxy)
	}
}

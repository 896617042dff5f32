package egress

import (
	"container/list"
	"net/http"
	"sync"
	"time"
)

// Limits on the connections of one tenant. An idle one is closed before the
// minute after which many servers drop it, so that few requests meet one that
// is just being closed.
const (
	maxIdleConns        = 128
	maxIdleConnsPerHost = 64
	idleTimeout         = 45 * time.Second
)

// maxResting is how many tenants without a request in progress keep
// connections.
const maxResting = 64

// pools holds the connections of each tenant, and counts its requests in
// progress. Tenants do not share connections: whatever one tenant's request or
// its response leaves behind on a connection could corrupt the next request,
// which may carry another tenant's card.
type pools struct {
	limit   int // of one tenant's requests in progress
	connect func() *http.Transport

	mu      sync.Mutex
	all     map[string]*pool
	resting list.List // of *pool without a request in progress, the longest idle first
}

// pool is what one tenant has.
type pool struct {
	*http.Transport
	tenant string
	used   int           // requests in progress
	place  *list.Element // in resting, if used is 0
	since  time.Time     // when it began to rest
}

// take counts a request and returns the connections for it, or nil if the
// tenant has as many in progress as it may have.
func (p *pools) take(tenant string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.all[tenant]
	switch {
	case t == nil:
		t = &pool{Transport: p.connect(), tenant: tenant}
		p.all[tenant] = t
	case t.used >= p.limit:
		return nil
	case t.used == 0:
		p.resting.Remove(t.place)
	}
	t.used++
	return t
}

// give ends a request. Pools that have rested for long, and the oldest if there
// are too many, are closed in the background, because a destination may be slow
// to notice that a connection ends.
func (p *pools) give(t *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.used--; t.used > 0 {
		return
	}
	t.place, t.since = p.resting.PushBack(t), time.Now()
	for {
		oldest := p.resting.Front().Value.(*pool)
		if p.resting.Len() <= maxResting && time.Since(oldest.since) < idleTimeout {
			return
		}
		p.resting.Remove(oldest.place)
		delete(p.all, oldest.tenant)
		go oldest.CloseIdleConnections()
	}
}

// close closes the idle connections.
func (p *pools) close() {
	p.mu.Lock()
	var all []*pool
	for _, t := range p.all {
		all = append(all, t)
	}
	p.mu.Unlock()
	for _, t := range all {
		t.CloseIdleConnections()
	}
}

package egress

import (
	"container/list"
	"net/http"
	"sync"
	"time"
)

// What the connections of one tenant are bounded to. An idle one is given up
// before the minute after which many servers drop it, so that few requests meet
// one that is just being closed.
const (
	maxIdleConns        = 128
	maxIdleConnsPerHost = 64
	idleTimeout         = 45 * time.Second
)

// maxResting is how many tenants without a request under way keep connections.
const maxResting = 64

// pools holds the connections of each tenant, and counts the requests that it
// has under way. Tenants share no connection: what the request of one, or the
// answer to it, leaves there for a destination to misread would meet the next
// request, and that may carry somebody else's card.
type pools struct {
	limit   int // of requests under way of one tenant
	connect func() *http.Transport

	mu      sync.Mutex
	all     map[string]*pool
	resting list.List // of *pool without a request under way, that for longest first
}

// pool is what one tenant has.
type pool struct {
	*http.Transport
	tenant string
	used   int           // requests under way
	place  *list.Element // among those that rest, if used is 0
	since  time.Time     // when it began to rest
}

// take counts a request and returns the connections for it, or nil when the
// tenant has as many under way as it may.
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

// give says that a request is over. Pools that rest for long, or that are too
// many, are given up, in the background: a destination may take its time to
// read that a connection ends.
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

// close closes what is idle.
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

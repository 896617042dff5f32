package egress

import (
	"container/list"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
)

// Limits on the connections of one tenant. Idle connections are closed before
// the minute after which many servers drop them, so that few requests use a
// connection that is just being closed.
const (
	maxIdleConns        = 128
	maxIdleConnsPerHost = 64
	idleTimeout         = 45 * time.Second
)

// maxResting is the maximum number of tenants without requests in progress
// that keep connections.
const maxResting = 64

// pools holds the connections of each tenant, and counts its requests in
// progress. Tenants do not share connections. Leftovers of one tenant's
// request or response on a connection could corrupt the next request, which
// may carry another tenant's card.
type pools struct {
	slots     *share.Slots[string] // of a tenant's requests in progress
	strangers strangers            // anonymous calls of its proxies

	connect func() *http.Transport

	mu      sync.Mutex
	all     map[string]*pool
	resting list.List // *pool without a request in progress, longest idle first
}

// pool holds the connections of one tenant.
type pool struct {
	*http.Transport
	tenant  string
	used    int           // requests in progress
	element *list.Element // in resting, if used is 0
	since   time.Time     // start of the idle time
}

// take counts a request and returns its connections, or nil if the limit is
// reached. A request of a stranger is c, otherwise c is nil.
func (p *pools) take(tenant string, c *anonymous) *pool {
	if c == nil && !p.slots.Try(tenant) || c != nil && !p.strangers.try(c) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.all[tenant]
	switch {
	case t == nil:
		t = &pool{Transport: p.connect(), tenant: tenant}
		p.all[tenant] = t
	case t.used == 0:
		p.resting.Remove(t.element)
	}
	t.used++
	return t
}

// give ends a request. Pools that have been idle for long are closed, and the
// oldest if there are too many. This happens in the background, because a
// destination may be slow to notice that a connection ends.
func (p *pools) give(t *pool, c *anonymous) {
	if c == nil {
		p.slots.Give(t.tenant)
	} else {
		p.strangers.give(c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.used--; t.used > 0 {
		return
	}
	t.element, t.since = p.resting.PushBack(t), time.Now()
	for {
		oldest := p.resting.Front().Value.(*pool)
		if p.resting.Len() <= maxResting && time.Since(oldest.since) < idleTimeout {
			return
		}
		p.resting.Remove(oldest.element)
		delete(p.all, oldest.tenant)
		go oldest.CloseIdleConnections()
	}
}

// close closes the idle connections.
func (p *pools) close() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.all))
	p.mu.Unlock()
	for _, t := range all {
		t.CloseIdleConnections()
	}
}

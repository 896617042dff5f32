package main

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
)

// Limits of requests for one client address, in a second and at once.
const (
	vaultPerSecond, vaultAtOnce   = 20, 50 // from the page to the vault
	ordersPerSecond, ordersAtOnce = 1, 20  // new orders
)

// maxAddresses is the maximum number of limiters for recent addresses. The
// limiters of as many earlier addresses are kept too.
const maxAddresses = 10_000

// eachAddress has a limiter for every client address. All visitors use one
// public key, so with a limit on the key one visitor could shut out all
// others. Behind a load balancer, take the address from the header that it
// sets.
type eachAddress struct {
	limit rate.Limit
	burst int

	mu          sync.Mutex
	recent, old map[netip.Prefix]*rate.Limiter
}

// of returns the limiter for the address of a request.
func (e *eachAddress) of(r *http.Request) *rate.Limiter {
	from := network(r.RemoteAddr)
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.recent[from]; l != nil {
		return l
	}
	l := e.old[from]
	if l == nil {
		l = rate.NewLimiter(e.limit, e.burst)
	}
	if e.recent == nil || len(e.recent) >= maxAddresses {
		e.old, e.recent = e.recent, map[netip.Prefix]*rate.Limiter{}
	}
	e.recent[from] = l
	return l
}

// network returns the network that counts as one address. For IPv6 it has 64
// bits, the smallest network that a customer has. All invalid addresses count
// as one.
func network(remote string) netip.Prefix {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := peer.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// limitPages limits the requests of pages to the vault, with the public key
// or in a session. It does not limit the shop's server, which sends only as
// many requests as its visitors cause. One visitor must not use up the limit
// of all others.
func limitPages(access *vaultAccess) func(*http.Request, *vault.Client, int) (time.Duration, bool) {
	pages := &eachAddress{limit: vaultPerSecond, burst: vaultAtOnce}
	return func(r *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
		if c.ApplicationID() != access.page || pages.of(r).AllowN(time.Now(), cost) {
			return 0, true
		}
		return time.Second, false
	}
}

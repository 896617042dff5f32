package main

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
)

// Requests that one client address may send in a second, and at once.
const (
	vaultPerSecond, vaultAtOnce   = 20, 50 // to the vault, by the page
	ordersPerSecond, ordersAtOnce = 1, 20  // new ones
)

// maxAddresses bounds the limiters that are kept: those of this many recent
// addresses, and of as many before them.
const maxAddresses = 10_000

// eachAddress has a limiter for every client address. All visitors use one public
// key: a limit on the key would let one visitor shut out all others. Behind a
// load balancer, take the address from the header that it sets.
type eachAddress struct {
	limit rate.Limit
	burst int

	mu          sync.Mutex
	recent, old map[netip.Prefix]*rate.Limiter
}

// of returns the limiter of the address that a request comes from.
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

// network is what counts as one address. For IPv6 that is a network of 64 bits,
// the least that a customer has. Everything that is not an address counts as one.
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

// limitPages limits what pages send to the vault, with the public key or in a
// session. The shop's own server is not limited here: it asks for no more than
// its visitors may, and one visitor must not use up what is meant for all.
func limitPages(access *vaultAccess) func(*http.Request, *vault.Client, int) (time.Duration, bool) {
	pages := &eachAddress{limit: vaultPerSecond, burst: vaultAtOnce}
	return func(r *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
		if c.ApplicationID() != access.page || pages.of(r).AllowN(time.Now(), cost) {
			return 0, true
		}
		return time.Second, false
	}
}

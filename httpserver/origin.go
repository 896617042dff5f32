package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// from returns the client with the origin of the request. The client may be nil.
func (x *exchange) from(c *vault.Client) *vault.Client {
	if c == nil {
		return nil
	}
	return c.From(originOf(x.r, x.handler.opts.TrustedProxies))
}

// originOf returns the address that a request comes from. Each proxy appends the
// address of its caller to X-Forwarded-For, so the list is read from its end for as
// long as a trusted proxy has written it.
func originOf(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if !contains(trusted, at) {
		return at.Unmap().WithZone("").String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !contains(trusted, at) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break // what is before it may be anybody's
		}
		at = next
	}
	return at.Unmap().WithZone("").String()
}

func contains(prefixes []netip.Prefix, at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}

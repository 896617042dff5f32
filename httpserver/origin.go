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

// originOf returns the address that a request comes from. Each proxy appends
// the address of its caller to X-Forwarded-For. So originOf reads the list from
// its end, as long as a trusted proxy wrote the address.
func originOf(r *http.Request, trusted []netip.Prefix) string {
	host := r.RemoteAddr
	if host == "" {
		return "" // not from a connection
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if !contains(trusted, at) {
		return textOf(at, host)
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !contains(trusted, at) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break // earlier addresses may be forged
		}
		at = next
	}
	return textOf(at, "")
}

// textOf returns an address as text. It returns given if that is already the
// right text, so that most requests need no allocation.
func textOf(at netip.Addr, given string) string {
	var room [64]byte
	text := at.Unmap().WithZone("").AppendTo(room[:0])
	if string(text) == given {
		return given
	}
	return string(text)
}

func contains(prefixes []netip.Prefix, at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}

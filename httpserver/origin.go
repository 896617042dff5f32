package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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
	at = at.Unmap().WithZone("")
	if contains(trusted, at) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			next, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break // earlier addresses may be forged
			}
			if at = next.Unmap().WithZone(""); !contains(trusted, at) {
				break
			}
		}
	}
	var room [64]byte
	if text := at.AppendTo(room[:0]); string(text) != host {
		return string(text)
	}
	return host // most requests need no allocation
}

func contains(prefixes []netip.Prefix, at netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}

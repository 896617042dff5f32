package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// MaxURLLength is the maximum length of a URL in bytes.
const MaxURLLength = 4096

// publicMetadata are addresses outside the registries of special addresses at
// which a cloud serves only its own machines.
var publicMetadata = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure
}

// guard checks URLs and addresses under a policy.
type guard struct {
	*Policy
	// public knows the registries of special addresses. It rejects
	// special-purpose IPv4 addresses. It also rejects IPv6 addresses that are
	// not global unicast or that embed an IPv4 address (mapped, NAT64, 6to4,
	// Teredo).
	public *ssrf.Guardian
}

func newGuard(p *Policy) guard {
	return guard{p, ssrf.New(ssrf.WithDeniedV4Prefixes(publicMetadata...))}
}

// control checks the address of a socket before it connects. The dialer calls
// it after each lookup, with the address that it passes to the kernel.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return forbidden("the destination has no address that can be checked")
	}
	return g.checkAddr(target.Addr())
}

func (g guard) checkAddr(ip netip.Addr) error {
	if within(g.DenyPrefixes, ip.Unmap().WithZone("")) {
		return forbidden("the egress policy denies the address of the destination")
	}
	if within(g.AllowPrefixes, ip) || g.AllowPrivate && !isMetadata(ip.Unmap()) {
		return nil
	}
	if err := g.public.SafeAddr(ip); err != nil {
		return &failure{ErrForbidden, "the address of the destination is not public", err}
	}
	return nil
}

// isMetadata reports whether clouds may serve the credentials of a machine at an
// address: it is link-local, or one of publicMetadata.
func isMetadata(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || within(publicMetadata, ip)
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func (g guard) checkURL(text string) (*url.URL, error) {
	if len(text) > MaxURLLength {
		return nil, forbidden("the URL is longer than " + strconv.Itoa(MaxURLLength) + " bytes")
	}
	if strings.Contains(text, "#") {
		return nil, forbidden("the URL must not have a fragment")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, forbidden("the URL is malformed") // err quotes the URL
	}
	if err := g.checkParsed(u); err != nil {
		return nil, err
	}
	return u, nil
}

func (g guard) checkParsed(u *url.URL) error {
	switch {
	case u == nil || u.Opaque != "" || u.Host == "":
		return forbidden("the URL must be absolute and have a host")
	case u.Scheme != "https" && !g.AllowHTTP:
		return forbidden("the URL must use https")
	case u.Scheme != "https" && u.Scheme != "http":
		return forbidden("the URL must use https or http")
	case u.User != nil:
		return forbidden("the URL must not have a user name or password")
	case strings.ContainsFunc(u.RawQuery, isSpace):
		// net/http would write it into the request line unchanged.
		return forbidden("the query string of the URL has spaces or control characters; escape them")
	}
	if err := g.checkPort(u); err != nil {
		return err
	}
	return g.checkHost(u.Hostname())
}

func (g guard) checkPort(u *url.URL) error {
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return forbidden("the port of the URL must be between 1 and 65535")
	}
	if len(g.Ports) > 0 && !slices.Contains(g.Ports, uint16(n)) {
		return forbidden("the egress policy does not allow the port of the URL")
	}
	return nil
}

// checkHost checks a host without a lookup. Some resolvers read a name that
// ends in a number as an address: 2130706433, 0177.0.0.1 and 0x7f.1 are all
// 127.0.0.1 to them. Only the usual form is accepted as an address.
func (g guard) checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.checkAddr(ip)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	if len(host) > 253 || slices.ContainsFunc(labels, invalidLabel) {
		return forbidden("the host of the URL must be an IP address or a domain name in ASCII (write other names in their xn-- form)")
	}
	last := labels[len(labels)-1]
	if isNumber(last) {
		return forbidden("an IP address in the URL must be four decimal numbers, or IPv6 in brackets")
	}
	if last == "localhost" {
		return g.checkAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

func isSpace(r rune) bool { return r <= ' ' || r == 0x7f }

func invalidLabel(label string) bool {
	return label == "" || len(label) > 63 || !consistsOf(label, "abcdefghijklmnopqrstuvwxyz0123456789-_")
}

func isNumber(label string) bool {
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && consistsOf(hex, "0123456789abcdef") || consistsOf(label, "0123456789")
}

func consistsOf(text, alphabet string) bool { return strings.Trim(text, alphabet) == "" }

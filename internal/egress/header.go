package egress

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hopByHop are the headers that concern only one connection (RFC 9110,
// 7.6.1), including older ones that are still in use.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// RemoveHopByHop removes the headers that must not be forwarded: hop-by-hop
// headers, and headers that Connection lists.
func RemoveHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(strings.Trim(name, " \t"))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// CheckHeader rejects headers that a server could read as more than one
// header. Names must be tokens in the form of [http.CanonicalHeaderKey],
// because net/http would send "content-length" in addition to its own
// Content-Length. Values must not contain CR, LF or other control characters.
func CheckHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, notToken) {
			return forbidden("a header name has characters that are not allowed")
		}
		if name != http.CanonicalHeaderKey(name) {
			return forbidden("header names must be in canonical form: " + http.CanonicalHeaderKey(name))
		}
		for _, value := range values {
			if strings.ContainsFunc(value, isControl) {
				return forbidden("the value of the header " + name + " has control characters")
			}
		}
	}
	return nil
}

// RetryAfter returns the pause that the header of a response names.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}

// IsLoopback reports whether the host of a URL is this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ValidMethod reports whether a text can be the method of a request.
func ValidMethod(method string) bool {
	return method != "" && !strings.ContainsFunc(method, notToken)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notToken reports whether a character cannot be part of a token (RFC 9110,
// 5.6.2).
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// KnownMethod reports whether HTTP itself defines the method.
func KnownMethod(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}, method)
}

package egress

import (
	"net/http"
	"strings"
)

// hopByHop are the headers that concern one connection only (RFC 9110, 7.6.1),
// with the older ones that are still in use.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// RemoveHopByHop removes the headers that must not be passed on: the
// hop-by-hop ones and those that Connection names.
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

// CheckHeader refuses headers that could be read as more than one: names that
// are not tokens or not in the form of [http.CanonicalHeaderKey] (net/http
// would send "content-length" beside its own Content-Length), and values with
// CR, LF or other control characters.
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

// ValidMethod reports whether a text can be the method of a request.
func ValidMethod(method string) bool {
	return method != "" && !strings.ContainsFunc(method, notToken)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notToken tells characters that no token has (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// KnownMethod reports whether a method is one of those that HTTP itself defines.
func KnownMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

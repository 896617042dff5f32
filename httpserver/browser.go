package httpserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Headers that keep a browser from running a response as a page of the API's
// origin.
const (
	headerPolicy         = "Content-Security-Policy"
	headerNoSniff        = "X-Content-Type-Options"
	headerResourcePolicy = "Cross-Origin-Resource-Policy"
)

// originHeaders are response headers that act on the whole origin or send the
// browser elsewhere. A destination cannot set them, because the origin is the
// API's.
var originHeaders = []string{
	"Accept-Ch", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Nel", "Origin-Agent-Cluster",
	"Public-Key-Pins", "Public-Key-Pins-Report-Only", "Refresh", "Report-To", "Reporting-Endpoints",
	"Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2", "Strict-Transport-Security",
}

// activeDestinations are the values of Sec-Fetch-Dest for which a browser
// runs or displays the response. A program's own pages use fetch, which sends
// "empty".
var activeDestinations = []string{
	"audioworklet", "document", "embed", "fencedframe", "frame", "iframe", "object",
	"paintworklet", "script", "serviceworker", "sharedworker", "worker", "xslt",
}

// checkDestination rejects a request with which a browser would run or
// display the response of a proxy: a navigation, a frame, a script, a worker.
// The response would have the rights of the API's origin.
func (h *handler) checkDestination(r *http.Request) error {
	if h.opts.RawProxy {
		return nil
	}
	worker := r.Header.Get("Service-Worker") != "" // sent by browsers without Sec-Fetch-Dest
	if dest := r.Header.Get("Sec-Fetch-Dest"); worker || slices.Contains(activeDestinations, strings.ToLower(dest)) {
		return fault.New(vault.ErrForbidden, "a browser may call a proxy with fetch only, not open it as a page, frame, script or worker")
	}
	return nil
}

// disarm removes from a response everything that would give it the rights of
// the API's origin in a browser. It is for responses that a destination or a
// tenant's code chose. Policies of the response stay, because a browser
// applies all of them.
func (h *handler) disarm(header http.Header) {
	if h.opts.RawProxy {
		return
	}
	for _, name := range originHeaders {
		header.Del(name)
	}
	header[headerPolicy] = append([]string{"sandbox"}, header[headerPolicy]...)
	header[headerNoSniff] = []string{"nosniff"}
	header[headerResourcePolicy] = []string{"same-origin"}
}

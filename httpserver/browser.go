package httpserver

import (
	"maps"
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
	"Sec-Session-Registration", "Secure-Session-Registration", "Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2",
	"Set-Login", "Strict-Transport-Security", "Use-As-Dictionary",
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

// newSites returns the protection of users against pages of other origins.
func newSites(opts *Options) *http.CrossOriginProtection {
	if opts.CrossOrigin != nil {
		return opts.CrossOrigin
	}
	sites := http.NewCrossOriginProtection()
	for _, origin := range opts.Origins {
		if origin != "*" {
			_ = sites.AddTrustedOrigin(origin) // checkOrigin has checked it
		}
	}
	return sites
}

// checkSite rejects a request of a user that a page of another origin sent with the
// user's cookies. Below /proxy that includes GET, because the request sends data of
// tokens to a destination.
func (x *exchange) checkSite() error {
	r := x.r
	if x.endpoint == x.handler.proxy {
		r = r.WithContext(r.Context())
		r.Method = http.MethodPost
	}
	if x.handler.sites.Check(r) != nil {
		return fault.New(vault.ErrForbidden, "a page of another origin may not act for a user")
	}
	return nil
}

// forwardedHeader returns the headers of a request that a proxy forwards. A browser
// sends the cookies of the API's host with each request. They belong to other pages
// of that host, such as a console on another port, and not to the destination.
func (h *handler) forwardedHeader(r *http.Request) http.Header {
	if h.opts.RawProxy || r.Header["Cookie"] == nil || !fromBrowser(r.Header) {
		return r.Header
	}
	header := r.Header.Clone()
	header.Del("Cookie")
	return header
}

// fromBrowser reports whether a request has headers that only browsers set.
func fromBrowser(header http.Header) bool {
	return header["Sec-Fetch-Site"] != nil || header["Sec-Fetch-Dest"] != nil || header["Origin"] != nil
}

// disarm removes from a response everything that would give it the rights of
// the API's origin in a browser. It is for responses that a destination or a
// tenant's code chose. Policies of the response stay, because a browser
// applies all of them.
func disarm(header http.Header) {
	for _, name := range originHeaders {
		header.Del(name)
	}
	header[headerPolicy] = append([]string{"sandbox"}, header[headerPolicy]...)
	header[headerNoSniff] = []string{"nosniff"}
	header[headerResourcePolicy] = []string{"same-origin"}
}

// ownHeaders are headers that a tenant's code cannot set, even with
// [Options.RawProxy]. Cookies would belong to the API's origin.
var ownHeaders = []string{"Cache-Control", headerNoSniff, headerPolicy, headerResourcePolicy, "Set-Cookie", "Set-Cookie2"}

// owns reports whether only the server may set a header. Its own headers have the
// prefix.
func owns(name, prefix string) bool {
	return hasPrefixFold(name, prefix) || hasPrefixFold(name, "Access-Control-") || slices.Contains(ownHeaders, name)
}

// disarmChosen is disarm for a response that a tenant's code built. Such a response
// cannot set the server's own headers or redirect.
func disarmChosen(header http.Header, prefix string) {
	maps.DeleteFunc(header, func(name string, _ []string) bool { return owns(name, prefix) })
	header.Del(headerLocation)
	disarm(header)
}

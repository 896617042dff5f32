package httpserver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// origins holds the web origins that may call the API. A nil *origins admits
// none.
type origins struct {
	all     bool
	known   map[string]bool
	headers string // headers that a page may send
	exposed string // headers that a page may read
}

// preflightAge is how long a browser may remember the response to a preflight,
// in seconds.
const preflightAge = "600"

func newOrigins(opts *Options, names headerNames) *origins {
	if len(opts.Origins) == 0 {
		return nil
	}
	o := &origins{known: map[string]bool{}}
	for _, origin := range opts.Origins {
		o.known[origin] = true
		o.all = o.all || origin == "*"
	}
	sent := []string{"Content-Type", names.apiKey, names.idempotencyKey, names.traceID}
	if opts.Authenticate != nil {
		sent = append(sent, "Authorization")
	}
	o.headers = strings.Join(sent, ", ")
	o.exposed = strings.Join([]string{"Location", "Retry-After", names.replayed, names.traceID, names.destinationStatus, names.custom, names.jobID}, ", ")
	return o
}

// checkOrigin rejects text that no browser sends as an origin.
func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin {
		return fmt.Errorf("httpserver: %q in Options.Origins is not an origin; write it like https://shop.example, in lower case and without a path", origin)
	}
	return nil
}

// admit lets a page of an allowed origin read the response, even an error. It
// reports whether the request comes from such a page.
func (o *origins) admit(header http.Header, r *http.Request) bool {
	if o == nil {
		return false
	}
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !o.all && !o.known[origin] {
		return false
	}
	if o.all {
		origin = "*"
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", o.exposed)
	return true
}

// isPreflight reports whether the request is a browser's CORS preflight.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight returns the headers that tell a browser what it may send.
func (o *origins) preflight(methods string) http.Header {
	return http.Header{
		"Access-Control-Allow-Methods": {methods},
		"Access-Control-Allow-Headers": {o.headers},
		"Access-Control-Max-Age":       {preflightAge},
	}
}

// preflightProxy is preflight for a proxy, which takes all methods and the
// headers of the destination's own API.
func (o *origins) preflightProxy(r *http.Request) http.Header {
	header := o.preflight("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	return header
}

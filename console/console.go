// Package console shows what goes on in a vault: pages in a browser, for the
// people who run it.
//
//	rec := console.NewRecorder()
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: rec})
//	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(v, &console.Options{
//		Recorder:  rec,
//		Authorize: func(r *http.Request) (console.User, error) { ... }, // your own sign-in
//	})))
//
// The pages are rendered by the server, and readable without JavaScript. They
// load nothing from elsewhere, which their Content-Security-Policy makes sure of.
//
// # Who may do what
//
// [Options.Authorize] says who sends a request, and with which [Role]. Without it
// the handler shows nothing but how to set it. A viewer reads; an operator also
// ends sessions, retries and discards jobs, and makes test runs of code; an owner
// also changes applications, their rules, tenants and their keys. Each of these,
// and each read of a token, is in the audit log with the user as its actor.
//
// A proxy in front must pass on the Host that the browser sent: changes are refused
// when it is not the one of the page that they were asked for on.
//
// # What is never shown
//
// No clear value: tokens are shown as their masks, configurations as their names,
// and neither API keys nor secrets at all. What the console reads it reads as a
// [vault.Client.Masked].
package console

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Role is what a user may do.
type Role uint8

// The roles. Each may do all that the one before it may.
const (
	Viewer   Role = iota + 1 // reads
	Operator                 // ends sessions, retries and discards jobs, tries code
	Owner                    // changes applications, rules, keys and tenants
)

// String returns the name of the role.
func (r Role) String() string {
	return map[Role]string{Viewer: "viewer", Operator: "operator", Owner: "owner"}[r]
}

// User is a person at the console.
type User struct {
	// ID is what the program calls the user, and what the audit log says: see
	// [vault.Owner.AsUser].
	ID   string
	Role Role
}

// Options adjusts a [Handler].
type Options struct {
	// Authorize says who sends a request: from a session cookie, a header that a
	// proxy in front has checked, or basic auth. An error, a user without an ID or
	// without a role is refused with 403. A program that wants to send people to
	// its sign-in page does that before the handler. When it is nil, no page is
	// served; [LocalOnly] is one for a developer's machine.
	//
	// If it believes a header, the proxy must remove that header from what browsers
	// send, and nobody may reach the console except through the proxy.
	//
	// A page that is left open has it asked again with the same request, before
	// each event and every 15 seconds, so that its stream ends with the user's
	// rights. So it must be safe to call several times, and quick.
	Authorize func(*http.Request) (User, error)

	// TLSProxy declares a proxy in front that ends TLS: cookies are for TLS alone,
	// although requests arrive without.
	TLSProxy bool

	// Recorder has the figures of this process; it must also be the vault's
	// observer. Without one, the pages do without figures of the last hour and day.
	Recorder *Recorder

	// Refresh is how often a page that is left open gets new figures. They are
	// computed once for all pages that are open. Default 2 seconds.
	Refresh time.Duration

	// Stop, when it is closed, ends the streams to pages that are left open, so
	// that a server can shut down without waiting for them.
	Stop <-chan struct{}

	// Logger gets what goes wrong. It never gets a value. Default: nothing is
	// logged.
	Logger *slog.Logger
}

const (
	defaultRefresh = 2 * time.Second
	shortest       = 100 * time.Millisecond
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Refresh == 0 {
		c.Refresh = defaultRefresh
	}
	c.Refresh = max(c.Refresh, shortest)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler returns the console of a vault, for any mux: it is mounted below a path
// that ends in a slash, with [http.StripPrefix]. opts may be nil. It needs no
// closing, and works until the vault is closed.
func Handler(v *vault.Vault, opts *Options) http.Handler {
	h := &handler{vault: v, opts: opts.withDefaults(), mux: http.NewServeMux(), rotations: newRotations(), names: newNames()}
	h.live = newHub(h)
	h.logs = newFollowers(h)
	for _, rt := range h.routes() {
		h.mux.Handle(rt.pattern, h.guard(rt))
	}
	return h
}

var errNotLocal = errors.New("console: the request does not come from this machine")

// LocalOnly is an Authorize that makes everyone on this machine an owner, and
// refuses the rest: requests that come from another address, under a name that is
// not this machine's or from a page elsewhere, as other sites could make a browser
// send, and requests that went through a proxy.
//
// A proxy on this machine cannot always be told from a browser: one that speaks
// HTTP/1.1 may leave no trace of itself. So LocalOnly is for a developer's machine,
// where any user of the machine can reach it. Anywhere else use a [Link], or an
// Authorize of your own.
func LocalOnly(r *http.Request) (User, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().IsLoopback() || !localName(r.Host) || forwarded(r) || !localPage(r.Header) {
		return User{}, errNotLocal
	}
	return User{ID: "local", Role: Owner}, nil
}

// localName reports whether the host of a request can mean this machine alone.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// localPage reports whether the page that a request comes from, if it says so, is
// of this machine.
func localPage(h http.Header) bool {
	for _, page := range append(h.Values("Origin"), h.Values("Referer")...) {
		at, err := url.Parse(page)
		if err != nil || !localName(at.Host) {
			return false
		}
	}
	return true
}

// forwarded reports whether a proxy has left a trace: a header, or HTTP/1.0, which
// no browser speaks and some proxies do.
func forwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for name := range r.Header {
		switch {
		case strings.HasPrefix(name, "X-Forwarded-"), name == "Forwarded", name == "X-Real-Ip", name == "Via":
			return true
		}
	}
	return false
}

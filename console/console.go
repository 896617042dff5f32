// Package console serves web pages for the people who operate a vault.
//
//	rec := console.NewRecorder()
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: rec})
//	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(v, &console.Options{
//		Recorder:  rec,
//		Authorize: func(r *http.Request) (console.User, error) { ... }, // your own sign-in
//	})))
//
// The server renders the pages, and they are readable without JavaScript. Their
// Content-Security-Policy forbids loading anything from elsewhere.
//
// # Who may do what
//
// [Options.Authorize] returns the user who sends a request, with a [Role]. Without
// it the handler only explains how to set it. A viewer reads. An operator also
// ends sessions, retries and discards jobs, and makes test runs of code. An owner
// also changes applications, their rules, tenants and their keys. Each of these
// actions, and each read of a token, is in the audit log with the user as its
// actor.
//
// A proxy in front must pass on the Host header of the browser, because the
// console refuses a change if Host and the origin of the page differ.
//
// # What is never shown
//
// The console never shows plaintext. It shows masked tokens, the names in
// configurations without their values, and no API keys or secrets. It reads
// through a client from [vault.Client.Masked].
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

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// Role determines what a user may do.
type Role uint8

// The roles. Each includes the rights of the roles before it.
const (
	Viewer   Role = iota + 1 // reads
	Operator                 // ends sessions, retries and discards jobs, tries code
	Owner                    // changes applications, rules, keys and tenants
)

// String returns the name of the role.
func (r Role) String() string {
	return map[Role]string{Viewer: "viewer", Operator: "operator", Owner: "owner"}[r]
}

// User is a person who uses the console.
type User struct {
	// ID is the program's identifier for the user. The audit log shows it: see
	// [vault.Owner.AsUser].
	ID   string
	Role Role
}

// Options adjusts a [Handler].
type Options struct {
	// Authorize returns the user who sends a request. It may read a session cookie, a
	// header that a proxy in front has checked, or basic auth. The console responds
	// with 403 to an error, or to a user without an ID or a role. To redirect people
	// to a sign-in page, do so before this handler. If Authorize is nil, no page is
	// served. [LocalOnly] is an Authorize for a developer's machine.
	//
	// If Authorize trusts a header, the proxy must remove that header from the
	// requests of browsers, and the console must be reachable only through the proxy.
	//
	// While a page stays open, Authorize is called again with the same request
	// before each event and every 15 seconds. The stream ends when the user loses
	// the rights. So Authorize must be fast and safe to call repeatedly.
	Authorize func(*http.Request) (User, error)

	// SignOut, if set, ends the session of a request, as [Link.SignOut] does. The
	// pages then have a button for it.
	SignOut func(http.ResponseWriter, *http.Request)

	// TLSProxy declares that a proxy in front terminates TLS. Cookies are then
	// restricted to TLS, although requests arrive without it.
	TLSProxy bool

	// Recorder holds figures of this process. It must also be the vault's observer.
	// Without a recorder, the pages lack errors and latencies.
	Recorder *Recorder

	// Refresh is how often an open page gets new figures. They are computed once for
	// all open pages. Default 2 seconds.
	Refresh time.Duration

	// Stop ends the streams to open pages when it is closed, so that a server can
	// shut down without waiting for them.
	Stop <-chan struct{}

	// Logger gets errors. It never gets a value. Default: nothing is logged.
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

// Handler returns the console of a vault, for any mux. Mount it below a path that
// ends in a slash, with [http.StripPrefix]. opts may be nil. The handler works
// until the vault is closed, and needs no closing.
func Handler(v *vault.Vault, opts *Options) http.Handler {
	h := &handler{
		vault: v, opts: opts.withDefaults(), mux: http.NewServeMux(), tally: &tally{vault: v},
		rotations: &rotations{all: map[uuid.UUID]*rotationView{}}, names: &names{},
	}
	h.live = feeds[span, []byte]{room: 1, follow: h.followOverview}
	h.logs = feeds[uuid.UUID, []vault.LogEntry]{room: 16, follow: h.followLog}
	for _, rt := range h.routes() {
		h.mux.Handle(rt.pattern, h.guard(rt))
	}
	return h
}

var errNotLocal = errors.New("console: the request does not come from this machine")

// LocalOnly is an Authorize that makes every user of this machine an owner. It
// refuses requests from another address, for a host name that is not this
// machine's, from a page of another site, and through a proxy.
//
// LocalOnly cannot always detect a proxy on this machine, because a proxy that
// speaks HTTP/1.1 may leave no trace. Use it only on a developer's machine.
// Anywhere else use a [Link], or your own Authorize. Do not use it with tenants that
// you do not trust while [vault.EgressPolicy] allows loopback, because their code and
// proxies can then call the console.
func LocalOnly(r *http.Request) (User, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().IsLoopback() || !localName(r.Host) || forwarded(r) || !localPage(r.Header) {
		return User{}, errNotLocal
	}
	return User{ID: "local", Role: Owner}, nil
}

// localName reports whether the host of a request can only mean this machine.
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

// localPage reports whether the page that sent a request is on this machine. A
// request that names no page counts as local.
func localPage(h http.Header) bool {
	for _, page := range append(h.Values("Origin"), h.Values("Referer")...) {
		at, err := url.Parse(page)
		if err != nil || !localName(at.Host) {
			return false
		}
	}
	return true
}

// forwarded reports whether a request shows signs of a proxy: a header, or
// HTTP/1.0, which some proxies speak and browsers do not.
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

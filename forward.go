package vault

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/relay"
)

// ForwardOptions configures [Vault.ForwardProxy]. The zero value is usable.
type ForwardOptions struct {
	// Prefix is the prefix of the REST API's headers, which are never sent to a
	// destination. Default SVC-.
	Prefix string
	// RateLimit, if not nil, decides whether a caller may open a tunnel or send a
	// request, and whether the request may use more than one token. Options.RateLimit of
	// package httpserver describes it, and may be the same function.
	RateLimit func(r *http.Request, c *Client, cost int) (retryAfter time.Duration, ok bool)
	// MaxTunnels is the number of tunnels that a tenant may have open. All tenants
	// together may have four times as many. If all are open, a tenant with fewer gets
	// the place of an idle tunnel of the tenant with the most, or a hundredth of its
	// own beside them if none is idle. Default 1,000.
	MaxTunnels int
	// Logger gets one line for each request, as Options.Logger of package httpserver
	// does. Default: no logging.
	Logger *slog.Logger
}

// ForwardProxy returns an HTTP/1.1 proxy for programs that cannot be changed. A
// program uses it as HTTPS_PROXY, trusts [Vault.ForwardCA], and sends expressions
// such as {{ id }} where values belong: in a body, a header or the query. They are
// filled in as by [Client.InvokeProxy].
//
// The password of the proxy is an API key or a session key, and the user name does
// not matter. The key needs a rule with [AccessRule.Destinations], and can use only
// tokens that such a rule decides. CONNECT opens a tunnel in which the proxy ends
// TLS; each request in it is checked separately. Absolute URLs with http are for
// vaults whose egress policy has AllowPrivate. WebSocket and HTTP/2 are refused.
//
// Serve it on a separate listener, with an [http.Server], whose limits and
// Shutdown apply to tunnels too.
func (v *Vault) ForwardProxy(o *ForwardOptions) http.Handler {
	if o == nil {
		o = &ForwardOptions{}
	}
	p := relay.ForwardProxy{Relay: v.relay, Prefix: o.Prefix, MaxTunnels: o.MaxTunnels, Logger: o.Logger}
	if o.RateLimit != nil {
		p.Limit = func(r *http.Request, caller core.Caller, cost int) bool {
			_, ok := o.RateLimit(r, v.client(caller), cost)
			return ok
		}
	}
	return relay.NewForwardProxy(p)
}

// ForwardCA returns the certificates that clients of [Vault.ForwardProxy] must
// trust, in PEM, the newest first. The first call on a database creates one. Its
// key is sealed in the database, and the same on all nodes.
func (v *Vault) ForwardCA(ctx context.Context) ([]byte, error) {
	certs, err := relay.NewAuthority(v.core).Certificates(ctx)
	return certs, public(err)
}

// RotateCAOptions are options of [Vault.RotateForwardCA].
type RotateCAOptions struct {
	// Now ends the former certificate at once, because its key may be known to
	// others. Otherwise it signs for 7 more days, so that clients can learn to trust
	// the new one first.
	Now bool
	// Domains, if not empty, limit the new certificate to hosts in these domains.
	Domains []string
}

// RotateForwardCA creates a new certificate and key for [Vault.ForwardProxy], and
// returns what [Vault.ForwardCA] returns then. All nodes follow within a second.
func (v *Vault) RotateForwardCA(ctx context.Context, o *RotateCAOptions) ([]byte, error) {
	if o == nil {
		o = &RotateCAOptions{}
	}
	certs, err := relay.NewAuthority(v.core).Rotate(ctx, o.Now, o.Domains)
	return certs, public(err)
}

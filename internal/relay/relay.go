// Package relay sends the data of tokens to destinations, without showing it to the
// caller. It promises that
//
//   - data goes only where access rules permit, and what is judged is what is sent;
//   - a caller that may not see the data finds nothing of it in the response;
//   - an expression is replaced only where its value cannot break the format around it.
//
// The rights come from package access and the data from package reveal. Package
// egress decides what may be dialled.
//
// Begin with invoke.go, which has the steps of a call in their order. The proxies
// that tenants store are in proxies.go, the forward proxy in forward.go, the search
// of responses in echo.go and package search, and the formats of bodies in formats.go.
package relay

import (
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/storage"
)

// Config is the configuration of a Relay. All fields are required.
type Config struct {
	Vault  *core.Vault
	Egress *egress.Client
	Runs   *runs.Runs // runs the transforms
	// Timeout is how long a destination may take to start its response, and
	// between one part of the response and the next.
	Timeout time.Duration
}

// Relay manages proxies and sends requests through them. Create it with New.
type Relay struct {
	Config
	// Proxies creates and changes proxies.
	Proxies *ProxyCollection

	open *core.Cache[storage.Key, *Proxy] // by the hashes of their keys
}

// New returns the relay of a vault.
func New(cfg Config) *Relay {
	r := &Relay{Config: cfg, open: core.NewCache[storage.Key]((*Proxy).size)}
	r.Proxies = r.newProxies()
	return r
}

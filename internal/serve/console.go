package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// consolePages is the console of a server. It has its own listener, because
// tenants choose what proxies relay: a page on the API's origin could use the
// console with the rights of whoever is signed in. The first person to open its
// link is its owner.
type consolePages struct {
	recorder *console.Recorder
	link     *console.Link
	base     string // the URL of the console, with a slash at its end
	stdout   io.Writer
	pages    http.Handler
}

// newConsole returns the console that flags ask for; nil if they do not.
func newConsole(cfg *Config) *consolePages {
	if cfg.consoleAddr == "" || cfg.newTenant != "" || cfg.rotateKeys != "" {
		return nil
	}
	c := &consolePages{recorder: console.NewRecorder(), link: console.NewLink(console.User{ID: "console", Role: console.Owner})}
	c.link.TLSProxy = strings.HasPrefix(cfg.consoleURL, "https://")
	return c
}

// server returns the server of the console, whose pages are at base.
func (c *consolePages) server(v *vault.Vault, base string, stdout io.Writer, logger *slog.Logger) *http.Server {
	stop := make(chan struct{})
	c.base, c.stdout = strings.TrimSuffix(base, "/")+"/", stdout
	c.pages = c.link.Handler(console.Handler(v, &console.Options{
		Authorize: c.link.Authorize, TLSProxy: c.link.TLSProxy, Recorder: c.recorder, Stop: stop, Logger: logger,
	}))
	srv := newServer(c, logger)
	srv.RegisterOnShutdown(func() { close(stop) }) // pages that are left open do not hold it up
	return srv
}

// consoleInClear reports whether other machines can reach the console without TLS.
func (c *Config) consoleInClear() bool {
	if c.tlsCert != "" || strings.HasPrefix(c.consoleURL, "https://") {
		return false
	}
	host, _, err := net.SplitHostPort(c.consoleAddr)
	if err != nil || host == "localhost" {
		return err != nil
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.IsLoopback()
}

// banner prints the link, if there is a console.
func (c *consolePages) banner(w io.Writer, p terminal.Palette) {
	if c != nil {
		fmt.Fprintf(w, "%s %s\n", p.Bold("The console opens once at"), p.Link(c.link.URL(c.base)))
	}
}

// ServeHTTP serves the pages. When somebody comes after the session is over, it
// prints a new link.
func (c *consolePages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if link, ok := c.link.Renew(c.base); ok {
		fmt.Fprintf(c.stdout, "The session at the console is over. It opens once more at %s\n", link)
	}
	c.pages.ServeHTTP(w, r)
}

// checkConsole checks the flags of the console.
func (c *Config) checkConsole() error {
	if c.consoleURL == "" {
		return nil
	}
	if c.consoleAddr == "" {
		return errors.New("-console-url needs -console")
	}
	at, err := url.Parse(c.consoleURL)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return errors.New("-console-url must be a URL such as https://console.example.com/")
	}
	return nil
}

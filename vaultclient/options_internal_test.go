package vaultclient

import (
	"net/http"
	"testing"
)

// A key that would be sent unencrypted goes only to this machine, and never
// to a proxy from the environment.
func TestPlainHTTPBypassesProxies(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		plain bool // plain http is allowed
		host  string
		proxy bool // a proxy may be used
	}{
		"http://LOCALHOST:1":     {host: "localhost:1"},
		"http://localhost":       {host: "localhost"},
		"http://127.0.0.1":       {host: "127.0.0.1"},
		"http://[::FFFF:7F00:1]": {host: "[::ffff:7f00:1]"},
		"https://LocalHost":      {host: "localhost", proxy: true},
		"https://Vault.Example":  {host: "vault.example", proxy: true},
		"http://vault.example":   {plain: true, host: "vault.example", proxy: true},
	} {
		c, err := New(url, "key", &Options{AllowPlainHTTP: want.plain})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		transport, ok := c.opts.Transport.(*http.Transport)
		if !ok || (transport.Proxy != nil) != want.proxy || c.base.Host != want.host {
			t.Errorf("%s: host %s, transport %T with a proxy, want %+v", url, c.base.Host, c.opts.Transport, want)
		}
	}
	own := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if c, err := New("http://localhost", "key", &Options{Transport: own}); err != nil || c.opts.Transport != own || own.Proxy == nil {
		t.Errorf("the program's own transport was replaced: %v", err)
	}
}

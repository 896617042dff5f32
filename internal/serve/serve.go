package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// Bounds of the server.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = time.Minute
	writeTimeout  = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 30 * time.Second
	maxHeader     = 64 << 10
)

// serve listens until ctx ends, and then until the requests in progress are done.
func serve(ctx context.Context, v *vault.Vault, cfg *Config, stdout io.Writer, logger *slog.Logger) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.addr)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // closed already when the server has served
	creds := &credentials{}
	if cfg.demo {
		if creds, err = demoCredentials(ctx, v, cfg); err != nil {
			return err
		}
	}
	creds.BaseURL = cfg.baseURL(listener.Addr().String())
	if cfg.demo {
		if err := creds.write(cfg.credentials); err != nil {
			return err
		}
	}
	limitMemory()
	srv, done := newServer(v, cfg, logger), make(chan error, 1)
	if cfg.console != nil {
		cfg.console.beside(srv, v, logger)
	}
	go func() { done <- listen(srv, listener, cfg) }()
	banner(stdout, creds, cfg)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	logger.Info("draining")
	return drain(srv, done)
}

// newServer puts the API and the metrics on one server. A mux would redirect
// from paths that are not clean, which the API never does.
func newServer(v *vault.Vault, cfg *Config, logger *slog.Logger) *http.Server {
	m := newMetrics()
	api := httpserver.Handler(v, &httpserver.Options{Prefix: cfg.prefix, Logger: logger, Observer: m})
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				m.handler.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		}),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),

		DisableGeneralOptionsHandler: true, // the API answers OPTIONS * itself, with a trace id
	}
}

func listen(srv *http.Server, l net.Listener, cfg *Config) error {
	if cfg.tlsCert != "" {
		return srv.ServeTLS(l, cfg.tlsCert, cfg.tlsKey)
	}
	return srv.Serve(l)
}

// drain accepts no more requests and waits for those in progress.
func drain(srv *http.Server, done <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were still in progress after %s: %w", drainTimeout, err), srv.Close())
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// banner prints what a person needs to get started. On a terminal it has colours,
// and space between the commands to paste; elsewhere it is plain.
func banner(w io.Writer, c *credentials, cfg *Config) {
	p, gap := terminal.NewPalette(w, os.Getenv), ""
	if _, terminal := terminal.Columns(w); terminal {
		gap = "\n"
	}
	fmt.Fprintf(w, "%s %s\n", p.Bold("The vault is listening at"), p.Link(c.BaseURL))
	if !cfg.demo {
		return
	}
	fmt.Fprintln(w)
	for _, row := range [][2]string{
		{"tenant", c.TenantID}, {"public key", c.PublicKey}, {"private key", c.PrivateKey}, {"management key", c.ManagementKey},
	} {
		fmt.Fprintf(w, "  %s  %s\n", p.Dim(fmt.Sprintf("%-14s", row[0])), row[1])
	}
	fmt.Fprintf(w, "\nThe API keys are in %s, and the master key is in %s.\n%s\n\n%s\n\n", cfg.credentials, cfg.masterKeyPlace(),
		p.Warn("Anyone with the master key and the database can read everything."),
		p.Bold("Create a card token, read it masked, and tokenize a JSON document:"))
	for _, line := range curlLines(c, cfg) {
		fmt.Fprintf(w, "%s\n%s", line, gap)
	}
	if gap == "" {
		fmt.Fprintln(w)
	}
	if cfg.console != nil {
		fmt.Fprintf(w, "%s %s\n", p.Bold("The console opens once at"), p.Link(cfg.console.link.URL(c.BaseURL+consolePath)))
	}
	fmt.Fprintf(w, "The API is described at %s. Ctrl-C stops the server.\n", p.Link(c.BaseURL+"/openapi.json"))
}

// curlLines are commands to try.
func curlLines(c *credentials, cfg *Config) []string {
	curl := `curl -sS -w '\n'` // answers end without a newline
	if cfg.tlsCert != "" {
		curl += " --cacert '" + cfg.tlsCert + "'"
	}
	key := cfg.prefix + "API-KEY: "
	return []string{
		fmt.Sprintf("%s -H '%s%s' -H 'Content-Type: application/json' -d '%s' %s/tokens", curl, key, c.PublicKey, demoCard, c.BaseURL),
		fmt.Sprintf("%s -H '%s%s' '%s/tokens?type=card&size=1'", curl, key, c.PrivateKey, c.BaseURL),
		fmt.Sprintf("%s -H '%s%s' -H 'Content-Type: application/json' -d '%s' %s/tokenize", curl, key, c.PrivateKey, demoDocument, c.BaseURL),
	}
}

// What the curl lines send.
const (
	demoCard     = `{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`
	demoDocument = `{"name":"Jane Doe","ssn":{"type":"social_security_number","data":"123-45-6789"},"tags":["vip",42]}`
)

func (c *Config) masterKeyPlace() string {
	if c.masterKey != "" {
		return masterKeyVariable
	}
	return c.keyFile
}

// memoryLimit is what the collector keeps the process below as far as it can:
// what requests may hold by default, and a quarter of that for everything else.
const memoryLimit = 5 << 28

// limitMemory has the collector work harder before the process grows large,
// unless the operator has set a limit. The vault bounds what requests hold, and
// what they leave behind is the collector's to take away.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

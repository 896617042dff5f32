package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
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

// serve listens until ctx ends, and then until the requests under way are done.
func serve(ctx context.Context, v *vault.Vault, cfg *config, stdout io.Writer, logger *slog.Logger) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	creds, err := demoCredentials(ctx, v, cfg)
	if err != nil {
		return err
	}
	creds.BaseURL = cfg.baseURL(listener.Addr().String())
	if err := creds.write(cfg.credentials); err != nil {
		return err
	}
	srv, done := newServer(v, cfg, logger), make(chan error, 1)
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
func newServer(v *vault.Vault, cfg *config, logger *slog.Logger) *http.Server {
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
	}
}

func listen(srv *http.Server, l net.Listener, cfg *config) error {
	if cfg.tlsCert != "" {
		return srv.ServeTLS(l, cfg.tlsCert, cfg.tlsKey)
	}
	return srv.Serve(l)
}

// drain takes no more requests and waits for those under way.
func drain(srv *http.Server, done <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were still under way after %s: %w", drainTimeout, err), srv.Close())
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// banner prints what a person needs to start.
func banner(w io.Writer, c *credentials, cfg *config) {
	curl := "curl -sS"
	if cfg.tlsCert != "" {
		curl += " --cacert '" + cfg.tlsCert + "'"
	}
	key := cfg.prefix + "API-KEY: "
	fmt.Fprintf(w, `The vault listens at %s

  tenant          %s
  public key      %s
  private key     %s
  management key  %s

The keys are in %s, the master key is in %s.
Whoever has the master key and the database has everything.

Create a card token, read it masked, and tokenize a JSON document:

`, c.BaseURL, c.TenantID, c.PublicKey, c.PrivateKey, c.ManagementKey, cfg.credentials, cfg.masterKeyPlace())
	fmt.Fprintf(w, "%s -H '%s%s' -H 'Content-Type: application/json' -d '%s' %s/tokens\n", curl, key, c.PublicKey, demoCard, c.BaseURL)
	fmt.Fprintf(w, "%s -H '%s%s' '%s/tokens?type=card&size=1'\n", curl, key, c.PrivateKey, c.BaseURL)
	fmt.Fprintf(w, "%s -H '%s%s' -H 'Content-Type: application/json' -d '%s' %s/tokenize\n", curl, key, c.PrivateKey, demoDocument, c.BaseURL)
	fmt.Fprintf(w, "\nThe API is described at %s/openapi.json. Ctrl-C stops the server.\n", c.BaseURL)
}

// What the curl lines send.
const (
	demoCard     = `{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`
	demoDocument = `{"name":"Jane Doe","ssn":{"type":"social_security_number","data":"123-45-6789"},"tags":["vip",42]}`
)

func (c *config) masterKeyPlace() string {
	if c.masterKey != "" {
		return masterKeyVariable
	}
	return c.keyFile
}

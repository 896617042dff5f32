package serve

import (
	"cmp"
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
	"sync"
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
	var all endpoints
	defer all.close()
	api, err := all.listen(ctx, cfg.addr, func(string) *http.Server { return newServer(newAPI(v, cfg, logger), logger) })
	if err != nil {
		return err
	}
	creds, err := serverCredentials(ctx, v, cfg, cfg.baseURL(api))
	if err != nil {
		return err
	}
	if cfg.console != nil {
		if _, err := all.listen(ctx, cfg.consoleAddr, func(addr string) *http.Server {
			return cfg.console.server(v, cmp.Or(cfg.consoleURL, cfg.baseURL(addr)), stdout, logger)
		}); err != nil {
			return fmt.Errorf("the console: %w", err)
		}
		if cfg.consoleInClear() {
			logger.Warn("other machines can reach the console without TLS: give -tls-cert, or an https URL in -console-url")
		}
	}
	limitMemory()
	done := all.serve(cfg)
	banner(stdout, creds, cfg)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	logger.Info("draining")
	return all.drain(done)
}

// serverCredentials returns where the server is, and the keys of the demo tenant
// if there is one.
func serverCredentials(ctx context.Context, v *vault.Vault, cfg *Config, baseURL string) (*credentials, error) {
	if !cfg.demo {
		return &credentials{BaseURL: baseURL}, nil
	}
	creds, err := demoCredentials(ctx, v, cfg)
	if err != nil {
		return nil, err
	}
	creds.BaseURL = baseURL
	return creds, creds.write(cfg.credentials)
}

// newAPI puts the API and the metrics beside each other. A mux would redirect
// from paths that are not clean, which the API never does.
func newAPI(v *vault.Vault, cfg *Config, logger *slog.Logger) http.Handler {
	m := cfg.metrics
	api := httpserver.Handler(v, &httpserver.Options{Prefix: cfg.prefix, Logger: logger, Observer: m})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			m.handler.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func newServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),

		DisableGeneralOptionsHandler: true, // the API answers OPTIONS * itself, with a trace id
	}
}

// endpoints are the servers of the program, each with its listener.
type endpoints []endpoint

type endpoint struct {
	server   *http.Server
	listener net.Listener
}

// listen adds the server that serves at an address, and returns the address that
// it got.
func (e *endpoints) listen(ctx context.Context, addr string, server func(addr string) *http.Server) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	*e = append(*e, endpoint{server(l.Addr().String()), l})
	return l.Addr().String(), nil
}

// close closes all of them, whether they serve or not.
func (e endpoints) close() {
	for _, each := range e {
		_ = errors.Join(each.server.Close(), each.listener.Close()) // closed already after draining
	}
}

// serve serves all of them. The channel gets the error with which each ends.
func (e endpoints) serve(cfg *Config) <-chan error {
	done := make(chan error, len(e))
	for _, each := range e {
		go func() {
			if cfg.tlsCert != "" {
				done <- each.server.ServeTLS(each.listener, cfg.tlsCert, cfg.tlsKey)
				return
			}
			done <- each.server.Serve(each.listener)
		}()
	}
	return done
}

// drain accepts no more requests and waits for those in progress.
func (e endpoints) drain(done <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	failed := make([]error, 2*len(e))
	var wg sync.WaitGroup
	for i, each := range e {
		wg.Go(func() {
			if err := each.server.Shutdown(ctx); err != nil {
				failed[i] = fmt.Errorf("requests were still in progress after %s: %w", drainTimeout, err)
			}
		})
	}
	wg.Wait()
	e.close()
	for i := range e {
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			failed[len(e)+i] = err
		}
	}
	return errors.Join(failed...)
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
		cfg.console.banner(w, p)
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
	cfg.console.banner(w, p)
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

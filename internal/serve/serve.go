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
	"os/signal"
	"runtime/debug"
	"syscall"
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
	maxHeader     = 64 << 10
)

// serve listens until ctx ends, and for the drain delay, and then until the requests
// in progress and the running jobs are done.
// It listens before it opens the database, so that an unavailable address leaves
// nothing behind. Requests wait until the vault is open.
func serve(ctx context.Context, cfg *Config, stdout io.Writer, logger *slog.Logger) (err error) {
	defer cfg.watchCertificate(ctx, logger)()
	var all endpoints
	defer func() { all.close() }()
	var api, pages, probes, forward, fields *endpoint
	for _, l := range []struct {
		at         **endpoint
		flag, addr string
	}{{&api, "--addr", cfg.addr}, {&pages, "--console", cfg.consoleFlags.addr}, {&probes, "--metrics-addr", cfg.metricsAddr}, {&forward, "--forward", cfg.forward}, {&fields, "--elements", cfg.elements.addr}} {
		if *l.at, err = all.listen(ctx, l.flag, l.addr); err != nil {
			return err
		}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // it also verifies JWTs while it drains
	defer end()
	if err = errors.Join(cfg.openIssuers(life, logger), cfg.openSignIn(life, logger)); err != nil {
		return err
	}
	v, err := openVault(ctx, cfg, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close(), cfg.CloseKeys()) }()
	options := cfg.options()
	handler := newAPI(v, cfg, options)
	api.server = newServer(handler, logger)
	if probes != nil {
		probes.server = newServer(cfg.metrics.probes(handler), logger)
	}
	creds, err := serverCredentials(ctx, v, cfg, baseURL(api.address(), cfg.tlsCert != ""))
	if err != nil {
		return err
	}
	if pages != nil {
		if err := cfg.serveConsole(ctx, pages, v, logger); err != nil {
			return err
		}
	}
	if forward != nil {
		forward.forward(v, options, logger)
	}
	if fields != nil {
		if err := cfg.elements.serve(fields, v, options, logger); err != nil {
			return err
		}
	}
	limitMemory()
	done := all.serve(cfg)
	banner(stdout, creds, cfg, logger)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	logger.Info("draining; another signal stops the server at once", "delay", cfg.drain.Delay, "timeout", cfg.drain.Timeout)
	return all.drain(v, cfg.drain, done)
}

// serveConsole gives the console's endpoint its server.
func (c *Config) serveConsole(ctx context.Context, at *endpoint, v *vault.Vault, logger *slog.Logger) error {
	key, err := LinkKey(ctx, v)
	if err != nil {
		return err
	}
	at.server = c.console.server(v, key, cmp.Or(c.consoleFlags.url, baseURL(at.address(), c.tlsCert != "")), logger)
	if c.consoleInClear() {
		logger.Warn("other machines can reach the console without TLS: give --tls-cert, or an https URL in --console-url")
	}
	return nil
}

// watchCertificate keeps the certificate up to date until the returned function is
// called. SIGHUP never ends the server, with or without a certificate.
func (c *Config) watchCertificate(ctx context.Context, logger *slog.Logger) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	tick := time.NewTicker(certificateAge)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it also serves while it drains
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.cert.watch(ctx, tick.C, signals, logger)
	}()
	return func() {
		cancel()
		<-done
		tick.Stop()
		signal.Stop(signals)
	}
}

// serverCredentials returns the address of the server, and the keys of the demo
// tenant if it has one.
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

// newAPI serves the API, and the metrics unless they have a separate address.
// It uses no mux, because a mux would redirect unclean paths, which the API never
// does.
func newAPI(v *vault.Vault, cfg *Config, options *httpserver.Options) http.Handler {
	m := cfg.metrics
	options.Observer = m
	api := httpserver.Handler(v, options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == metricsPath && cfg.metricsAddr == "" {
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

		DisableGeneralOptionsHandler: true, // the API responds to OPTIONS * itself, with a trace id
	}
}

// endpoints are the listeners of the program, each with its server.
type endpoints []*endpoint

type endpoint struct {
	server   *http.Server // nil before the vault is open
	listener net.Listener
	plain    bool // serves no TLS itself
}

// forward makes the endpoint a forward proxy.
func (e *endpoint) forward(v *vault.Vault, o *httpserver.Options, logger *slog.Logger) {
	e.server, e.plain = newServer(v.ForwardProxy(&vault.ForwardOptions{Prefix: o.Prefix, RateLimit: o.RateLimit, Logger: o.Logger}), logger), true
	logger.Info("the forward proxy is listening", "address", e.address())
	if !isLocal(e.address()) {
		logger.Warn("other machines can reach the forward proxy, and send API keys to it without TLS")
	}
}

// address returns the listen address.
func (e *endpoint) address() string { return e.listener.Addr().String() }

// listen adds a listener at the address of a flag. It returns nil if the address
// is empty.
func (e *endpoints) listen(ctx context.Context, flagName, addr string) (*endpoint, error) {
	if addr == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flagName, err)
	}
	*e = append(*e, &endpoint{listener: l})
	return (*e)[len(*e)-1], nil
}

// close closes all endpoints, whether they serve or not.
func (e endpoints) close() {
	for _, each := range e {
		if each.server != nil {
			_ = each.server.Close() // already closed after draining
		}
		_ = each.listener.Close()
	}
}

// serve starts all endpoints. The channel receives the error with which each one
// ends.
func (e endpoints) serve(cfg *Config) <-chan error {
	done := make(chan error, len(e))
	for _, each := range e {
		go func() {
			if cfg.cert != nil && !each.plain {
				each.server.TLSConfig.GetCertificate = cfg.cert.get
				done <- each.server.ServeTLS(each.listener, "", "")
				return
			}
			done <- each.server.Serve(each.listener)
		}()
	}
	return done
}

// drain stops all endpoints.
func (e endpoints) drain(v *vault.Vault, drain *httpserver.Drain, done <-chan error) error {
	servers := make([]*http.Server, len(e))
	for i, each := range e {
		servers[i] = each.server
	}
	failed := []error{drain.Shutdown(context.Background(), v, servers...)}
	for range e {
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// banner prints how to get started. On a terminal it uses colours, and blank lines
// between the commands to paste. Elsewhere it is plain.
func banner(w io.Writer, c *credentials, cfg *Config, logger *slog.Logger) {
	p, gap := terminal.NewPalette(w, os.Getenv), ""
	if _, terminal := terminal.Columns(w); terminal {
		gap = "\n"
	}
	fmt.Fprintf(w, "%s %s\n", p.Bold("The vault is listening at"), p.Link(c.BaseURL))
	if !cfg.demo {
		cfg.console.banner(w, p, cfg.printLink, logger)
		return
	}
	fmt.Fprintln(w)
	for _, row := range [][2]string{
		{"tenant", c.TenantID}, {"public key", c.PublicKey}, {"private key", c.PrivateKey}, {"management key", c.ManagementKey},
	} {
		fmt.Fprintf(w, "  %s  %s\n", p.Dim(fmt.Sprintf("%-14s", row[0])), row[1])
	}
	keySource := cfg.KeyFile
	if cfg.masterKey != "" {
		keySource = masterKeyVariable
	}
	fmt.Fprintf(w, "\nThe API keys are in %s, and the master key is in %s.\n%s\n\n%s\n\n", cfg.credentials, keySource,
		p.Warn("Anyone with the master key and the database can read everything."),
		p.Bold("Create a card token, read it masked, and tokenize a JSON document:"))
	for _, line := range curlLines(c, cfg) {
		fmt.Fprintf(w, "%s\n%s", line, gap)
	}
	if gap == "" {
		fmt.Fprintln(w)
	}
	cfg.console.banner(w, p, cfg.printLink, logger)
	fmt.Fprintf(w, "The API is described at %s. Ctrl-C stops the server.\n", p.Link(c.BaseURL+"/openapi.json"))
}

// curlLines returns commands to try.
func curlLines(c *credentials, cfg *Config) []string {
	curl := `curl -sS -w '\n'` // response bodies end without a newline
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

// Request bodies of the curl commands.
const (
	demoCard     = `{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`
	demoDocument = `{"name":"Jane Doe","ssn":{"type":"social_security_number","data":"123-45-6789"},"tags":["vip",42]}`
)

// memoryLimit is the soft memory limit of the process, 1.25 GiB. It is the default
// limit for requests, plus a quarter of that for everything else.
const memoryLimit = 5 << 28

// limitMemory makes the garbage collector work harder before the process grows
// large, unless the operator has set a limit. The vault bounds the memory that
// requests hold, but not the garbage that they leave behind.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

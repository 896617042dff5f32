package serve

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// Config holds the flags of a server.
type Config struct {
	Database
	// Evidence is the default for keeping evidence of the audit log. A flag overrides
	// it.
	Evidence bool
	evidence evidenceFlags
	// OIDC has the functions behind --issuer and --console-oidc.
	OIDC       OIDC
	issuers    issuerList
	identities vault.IdentityVerifier // set when the server starts; nil without issuers

	addr        string
	forward     string // address of the forward proxy; empty for none
	metricsAddr string // of the metrics and probes; empty for the address of the API
	masterKey   string // from the environment; takes precedence over the file
	otherKey    string // the second master key itself, from the environment
	createKey   bool   // if no key exists
	keyAge      time.Duration
	keyGrace    time.Duration

	readyWithoutKey bool
	credentials     string
	prefix          string
	newTenant       string
	rotateKeys      string // a tenant's id, or everyTenant
	tlsCert         string
	tlsKey          string
	cert            *certificate // nil without TLS
	modules         string       // directory with the packages that tenants' code may require
	demo            bool         // create a demo tenant
	printLink       bool         // print the console link even without a terminal
	drain           *httpserver.Drain

	origins        List
	rateLimit      float64 // requests per second for each application; 0 for no limit
	rateBurst      int
	strictReadLogs bool
	fullAudit      bool
	proxies        networks // in front of the server
	requestLog     bool
	logFormat      string
	logRetention   time.Duration // 0 keeps everything
	sinks          sinkList      // destinations of the audit log
	sinkHeaders    headerFiles
	allowHTTPSinks bool

	elements     elementsFlags
	consoleFlags consoleFlags
	console      *consolePages // nil without a console
	metrics      *metrics      // set when the vault is opened
	requests     *slog.Logger  // nil without --request-log
}

// Flags binds the config to flags, and sets the defaults. Without flags, the
// server creates nothing and lets no one in.
func (c *Config) Flags(f *flag.FlagSet) {
	c.Path, c.KeyFile = "vault.db", "vault.key"
	c.Database.Flags(f)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&c.forward, "forward", "", "`address` for a forward proxy, which programs use as HTTPS_PROXY; off if empty")
	f.StringVar(&c.metricsAddr, "metrics-addr", "", "`address` for /metrics, /readyz and /healthz; --addr then has no /metrics")
	f.BoolVar(&c.createKey, "create-key", c.createKey, "create the master key if it is missing")
	f.BoolVar(&c.demo, "demo", c.demo, "create a demo tenant, and print its API keys")
	f.StringVar(&c.credentials, "credentials", "vault-credentials.json", "`file` for the demo tenant's API keys, created if missing")
	f.StringVar(&c.prefix, "prefix", "SVC-", "`prefix` of the API's own headers")
	f.StringVar(&c.tlsCert, "tls-cert", "", "`file` with the TLS certificate; read again on SIGHUP, and when it changes")
	f.StringVar(&c.tlsKey, "tls-key", "", "`file` with the private key of the TLS certificate")
	f.Func("cors-origins", "`origins` whose pages may call the API, such as https://shop.example, separated by commas; * for all", c.origins.Set)
	f.Float64Var(&c.rateLimit, "rate-limit", 0, "`requests` a second that each application may send; a request with several tokens counts as many. 0 for no limit")
	f.IntVar(&c.rateBurst, "rate-burst", 0, "`requests` that an application may send at once under --rate-limit; 0 for as many as in one second")
	f.BoolVar(&c.strictReadLogs, "strict-read-logs", false, "make log entries of reads as durable as changes, which costs a sync to disk")
	f.BoolVar(&c.fullAudit, "full-audit", false, "also log denied calls, refused rows of imports, reads of the log, and the start and stop of the server in the audit log")
	f.Func("trusted-proxy", "`CIDR` or address of a proxy in front of the server, whose X-Forwarded-For is trusted; repeatable", c.proxies.set)
	f.BoolVar(&c.requestLog, "request-log", true, "log a line for each request")
	f.StringVar(&c.logFormat, "log-format", "text", "`format` of log lines: text or json")
	c.drain = &httpserver.Drain{}
	f.DurationVar(&c.keyAge, "key-age", time.Minute, "`time` after which the holder of the master key is asked again whether it may be used; 0 for never")
	f.DurationVar(&c.keyGrace, "key-grace", 5*time.Minute, "`time` for which everything is still served while the holder of the master key does not respond")
	f.BoolVar(&c.readyWithoutKey, "ready-without-key", false, "keep /readyz at 200 while this node may not use the master key")
	f.DurationVar(&c.drain.Delay, "drain-delay", 5*time.Second, "`time` after SIGTERM during which /readyz is a 503 and everything is still served")
	f.DurationVar(&c.drain.Timeout, "shutdown-timeout", 30*time.Second, "`time` that requests in progress and running jobs then have to end")
	f.StringVar(&c.modules, "modules", "", "`folder` with a node_modules, whose packages code may require")
	c.evidenceFlags(f)
	f.Func("log-retention", "delete entries of the audit log after this `time`, such as 8760h; empty keeps them", c.setLogRetention)
	f.Func("log-sink", "send the audit log to `NAME=DEST[,FORMAT]`: stdout, file:PATH or a URL; native, otlp or ocsf; repeatable", c.sinks.set)
	f.Func("log-sink-headers", "`NAME=FILE` with headers for the sink NAME, one \"Header: value\" in a line; repeatable", c.sinkHeaders.set)
	f.BoolVar(&c.allowHTTPSinks, "allow-http-sinks", false, "allow plain http to sinks on other machines, although the network can then read the log")
	f.Func("issuer", "`URL[,OPTION...]` of an issuer whose JWTs may stand in place of API keys; options are jwks=FILE, ca=FILE, token=FILE and must=CLAIM|CLAIM; repeatable", c.issuers.set)
	c.elements.flags(f)
	c.consoleFlags.flags(f)
}

// setLogRetention sets the flag. [vault.Config] has the same minimum.
func (c *Config) setLogRetention(text string) (err error) {
	c.logRetention = 0
	if text != "" {
		c.logRetention, err = time.ParseDuration(text)
	}
	if err != nil || text != "" && c.logRetention < 24*time.Hour {
		return errors.New("must be a time of at least 24h, or empty")
	}
	return nil
}

// List is a flag with comma-separated values. It may be repeated.
type List []string

// Set adds values, for [flag.FlagSet.Func].
func (l *List) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			return errors.New("a part of the list is empty")
		}
		*l = append(*l, word)
	}
	return nil
}

// networks is a flag with comma-separated addresses and networks. It may be
// repeated.
type networks []netip.Prefix

func (l *networks) set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		p, err := netip.ParsePrefix(word)
		if addr, bare := netip.ParseAddr(word); bare == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return errors.New("takes addresses and networks, such as 10.0.0.7 or 10.0.0.0/24")
		}
		*l = append(*l, p.Masked())
	}
	return nil
}

// freePort is a loopback address with a free port.
const freePort = "127.0.0.1:0"

func parseFlags(args []string, stderr io.Writer) (*Config, error) {
	c := &Config{createKey: true, demo: true, printLink: true, consoleFlags: consoleFlags{addr: freePort}}
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.SetOutput(stderr)
	c.Flags(f)
	f.StringVar(&c.newTenant, "new-tenant", "", "create a tenant with this `name`, print its keys as one line of JSON, and exit")
	f.StringVar(&c.rotateKeys, "rotate-keys", "", "give the tenant with this `id`, or \""+everyTenant+"\" tenants, new data keys, and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var empty error
	f.Visit(func(given *flag.Flag) {
		if (given.Name == "new-tenant" || given.Name == "rotate-keys") && given.Value.String() == "" {
			empty = fmt.Errorf("-%s must not be empty", given.Name) // otherwise a server would start
		}
	})
	if empty != nil {
		return nil, empty
	}
	if f.NArg() > 0 {
		return nil, errors.New("the program takes flags only; see -help")
	}
	return c, c.check()
}

// check checks all flags before anything is created.
func (c *Config) check() error {
	return errors.Join(c.Database.check(), c.checkServer(), c.checkTasks(), c.checkEvidence(), c.checkSinks(), c.elements.check(c.prefix), c.consoleFlags.check(), c.options().Check())
}

func (c *Config) checkServer() error {
	switch {
	case c.credentials == "":
		return errors.New("--credentials must not be empty")
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return errors.New("--tls-cert and --tls-key must be given together")
	case c.rateLimit < 0 || c.rateBurst < 0 || math.IsNaN(c.rateLimit):
		return errors.New("--rate-limit and --rate-burst must not be negative")
	case c.drain.Delay < 0 || c.drain.Timeout < 0:
		return errors.New("--drain-delay and --shutdown-timeout must not be negative")
	case c.keyAge < 0 || c.keyGrace < 0:
		return errors.New("--key-age and --key-grace must not be negative")
	case c.rateBurst > 0 && c.rateLimit == 0:
		return errors.New("--rate-burst needs --rate-limit")
	case c.consoleFlags.header != "" && c.AllowPrivateEgress:
		// A tenant's request to the console would come from this machine, with any header.
		return errors.New("--console-header cannot be used with --allow-private-egress, because tenants' code could sign in with the header")
	case c.logFormat != "text" && c.logFormat != formatJSON:
		return errors.New("--log-format must be text or json")
	}
	if c.modules != "" {
		if _, err := os.Stat(c.modules); err != nil {
			return fmt.Errorf("--modules: %w", err)
		}
	}
	if c.tlsCert != "" {
		c.cert = &certificate{certFile: c.tlsCert, keyFile: c.tlsKey}
		if _, err := c.cert.read(true); err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
	}
	for name, addr := range map[string]string{"--forward": c.forward, "--metrics-addr": c.metricsAddr} {
		if addr == "" {
			continue
		}
		if err := checkAddress(name, addr); err != nil {
			return err
		}
	}
	return checkAddress("--addr", c.addr)
}

func (c *Config) checkTasks() error {
	if c.newTenant != "" && c.rotateKeys != "" {
		return errors.New("--new-tenant and --rotate-keys cannot be combined: run the program twice")
	}
	if _, err := uuid.Parse(c.rotateKeys); c.rotateKeys != "" && c.rotateKeys != everyTenant && err != nil {
		return fmt.Errorf("--rotate-keys takes the id of a tenant, or %q", everyTenant)
	}
	return nil
}

// checkAddress checks the address of a listener.
func checkAddress(name, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s must be an address such as 127.0.0.1:8080 or :8080", name)
	}
	return nil
}

// options returns the options of the REST API.
func (c *Config) options() *httpserver.Options {
	o := &httpserver.Options{Prefix: c.prefix, Origins: c.origins, TrustedProxies: c.proxies, Drain: c.drain, ReadyWithoutKey: c.readyWithoutKey, Logger: c.requests}
	if c.rateLimit > 0 {
		burst := c.rateBurst
		if burst == 0 {
			burst = int(math.Ceil(c.rateLimit))
		}
		o.RateLimit = httpserver.EachApplication(rate.Limit(c.rateLimit), burst)
	}
	return o
}

// baseURL returns the address at which a client on this machine reaches the
// server.
func baseURL(listener string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return scheme + "://" + listener
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

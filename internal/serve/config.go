package serve

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/httpserver"
)

// Config is what the flags of a server say.
type Config struct {
	// Evidence is whether the server keeps evidence of the audit log, unless a flag
	// says otherwise.
	Evidence bool
	evidence evidenceFlags

	addr        string
	db          string
	pooler      bool // stands before a PostgreSQL
	keyFile     string
	masterKey   string // from the environment; wins over the file
	otherFile   string // with a second master key
	otherKey    string // the second master key itself, from the environment
	credentials string
	prefix      string
	newTenant   string
	rotateKeys  string // a tenant's id, or everyTenant
	tlsCert     string
	tlsKey      string
	modules     string // folder with the packages that tenants' code may require
	demo        bool   // has a demo tenant
	consoleAddr string // where the console listens; empty for none
	consoleURL  string // where a proxy in front serves the console

	sinks sinkList // destinations of the audit log

	console *consolePages // nil for none
	metrics *metrics      // set when the vault is opened

	// allowPrivateEgress lets tenants' requests go to plain http and to private
	// addresses. That is for development.
	allowPrivateEgress bool
}

// Flags ties the config to flags, and sets the defaults. There is no console,
// unless the config has an address for it already.
func (c *Config) Flags(f *flag.FlagSet) {
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&c.db, "db", "vault.db", "database: the `path` of a SQLite file, or a postgres:// URL")
	f.BoolVar(&c.pooler, "pooler", false, "the postgres:// URL leads to a pooler in transaction mode, such as PgBouncer")
	f.StringVar(&c.keyFile, "key-file", "vault.key", "`file` with the master key, created if missing; the environment variable "+masterKeyVariable+" takes precedence")
	f.StringVar(&c.otherFile, "other-key-file", "",
		"`file` with a second master key, which only opens what it has wrapped, for a change of keys; or "+otherKeyVariable)
	f.BoolVar(&c.demo, "demo", true, "create a demo tenant, and print its API keys")
	f.StringVar(&c.credentials, "credentials", "vault-credentials.json", "`file` for the demo tenant's API keys, created if missing")
	f.StringVar(&c.prefix, "prefix", "SVC-", "`prefix` of the API's own headers")
	f.StringVar(&c.tlsCert, "tls-cert", "", "`file` with the TLS certificate")
	f.StringVar(&c.tlsKey, "tls-key", "", "`file` with the private key of the TLS certificate")
	f.StringVar(&c.consoleAddr, "console", c.consoleAddr, "`address` of the console, such as 127.0.0.1:8081; its link is printed. Empty for none")
	f.StringVar(&c.consoleURL, "console-url", "", "`URL` of the console behind a proxy, for its link; with https, its cookies are for TLS alone")
	f.StringVar(&c.modules, "modules", "", "`folder` with a node_modules, whose packages tenants' code may require")
	c.evidenceFlags(f)
	f.Var(&c.sinks, "log-sink", "send the audit log to `NAME=DEST[,FORMAT]`: stdout, file:PATH or a URL; native, otlp or ocsf; may be given several times")
	f.BoolVar(&c.allowPrivateEgress, "allow-private-egress", false,
		"for development: allow plain http and private addresses for proxies, callbacks and fetch")
}

// taskFlags ties the config to the flags that do one thing and exit.
func (c *Config) taskFlags(f *flag.FlagSet) {
	f.StringVar(&c.newTenant, "new-tenant", "", "create a tenant with this `name`, print its keys as one line of JSON, and exit")
	f.StringVar(&c.rotateKeys, "rotate-keys", "", "give the tenant with this `id`, or \""+everyTenant+"\" tenants, new data keys, and exit")
}

// freePort is an address on this machine alone, at a port that is free.
const freePort = "127.0.0.1:0"

func parseFlags(args []string, stderr io.Writer) (*Config, error) {
	c := &Config{consoleAddr: freePort}
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.SetOutput(stderr)
	c.Flags(f)
	c.taskFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var empty error
	f.Visit(func(given *flag.Flag) {
		if (given.Name == "new-tenant" || given.Name == "rotate-keys") && given.Value.String() == "" {
			empty = fmt.Errorf("-%s must not be empty", given.Name) // else a server would start
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

func (c *Config) check() error {
	switch {
	case c.credentials == "" || c.keyFile == "" || c.db == "":
		return errors.New("-db, -key-file and -credentials must not be empty")
	case c.pooler && !IsPostgres(c.db):
		return errors.New("-pooler needs a postgres:// URL in -db")
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return errors.New("-tls-cert and -tls-key must be given together")
	case c.newTenant != "" && c.rotateKeys != "":
		return errors.New("-new-tenant and -rotate-keys cannot be combined: run the program twice")
	}
	if _, err := uuid.Parse(c.rotateKeys); c.rotateKeys != "" && c.rotateKeys != everyTenant && err != nil {
		return fmt.Errorf("-rotate-keys takes the id of a tenant, or %q", everyTenant)
	}
	return errors.Join(c.checkConsole(), c.checkEvidence(), (&httpserver.Options{Prefix: c.prefix}).Check())
}

// baseURL is the address at which a client on this machine reaches the server.
func (c *Config) baseURL(listener string) string {
	scheme := "http"
	if c.tlsCert != "" {
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

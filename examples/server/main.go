// Command server runs a vault behind REST, ready for use:
//
//	go run ./examples/server
//
// It keeps its data in a SQLite file in the working directory, creates a demo
// tenant with an application of each type on the first start, and prints the
// address, the keys, and curl commands to try. The flags turn it into a small
// service: -db also takes a postgres:// URL (with -pooler, one that leads to
// PgBouncer in transaction mode), -tls-cert and -tls-key turn on TLS,
// and the master key can come from a secret store through VAULT_MASTER_KEY.
//
// Two flags do one thing and exit, and may be used while a server has the same
// database open: -new-tenant adds a tenant and prints its keys as one line of
// JSON, and -rotate-keys gives one tenant, or all of them, new data keys. The
// first also works before any server has run; the second creates neither a
// database file nor a master key. On a terminal they show their progress.
//
// On SIGTERM and SIGINT it lets requests in progress finish before it exits.
// Metrics for Prometheus are at /metrics; logs go to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Getenv(masterKeyVariable), os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	addr        string
	db          string
	pooler      bool // stands before a PostgreSQL
	keyFile     string
	masterKey   string // from the environment; wins over the file
	credentials string
	prefix      string
	newTenant   string
	rotateKeys  string // a tenant's id, or everyTenant
	tlsCert     string
	tlsKey      string
	modules     string // folder with the packages that tenants' code may require

	// allowPrivateEgress lets tenants' requests go to plain http and to private
	// addresses. That is for development.
	allowPrivateEgress bool
}

func parseFlags(args []string, stderr io.Writer) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&c.db, "db", "vault.db", "database: the `path` of a SQLite file, or a postgres:// URL")
	f.BoolVar(&c.pooler, "pooler", false, "the postgres:// URL leads to a pooler in transaction mode, such as PgBouncer")
	f.StringVar(&c.keyFile, "key-file", "vault.key", "`file` with the master key, created if missing; the environment variable "+masterKeyVariable+" takes precedence")
	f.StringVar(&c.credentials, "credentials", "vault-credentials.json", "`file` for the demo tenant's API keys, created if missing")
	f.StringVar(&c.prefix, "prefix", "SVC-", "`prefix` of the API's own headers")
	f.StringVar(&c.newTenant, "new-tenant", "", "create a tenant with this `name`, print its keys as one line of JSON, and exit")
	f.StringVar(&c.rotateKeys, "rotate-keys", "", "give the tenant with this `id`, or \""+everyTenant+"\" tenants, new data keys, and exit")
	f.StringVar(&c.tlsCert, "tls-cert", "", "`file` with the TLS certificate")
	f.StringVar(&c.modules, "modules", "", "`folder` with a node_modules, whose packages tenants' code may require")
	f.StringVar(&c.tlsKey, "tls-key", "", "`file` with the private key of the TLS certificate")
	f.BoolVar(&c.allowPrivateEgress, "allow-private-egress", false,
		"for development: allow plain http and private addresses for proxies, callbacks and fetch")
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
	return c, c.check(f.NArg())
}

func (c *config) check(extra int) error {
	switch {
	case extra > 0:
		return errors.New("the program takes flags only; see -help")
	case c.credentials == "" || c.keyFile == "" || c.db == "":
		return errors.New("-db, -key-file and -credentials must not be empty")
	case c.pooler && !isPostgres(c.db):
		return errors.New("-pooler needs a postgres:// URL in -db")
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return errors.New("-tls-cert and -tls-key must be given together")
	case c.newTenant != "" && c.rotateKeys != "":
		return errors.New("-new-tenant and -rotate-keys cannot be combined: run the program twice")
	}
	if _, err := uuid.Parse(c.rotateKeys); c.rotateKeys != "" && c.rotateKeys != everyTenant && err != nil {
		return fmt.Errorf("-rotate-keys takes the id of a tenant, or %q", everyTenant)
	}
	return (&httpserver.Options{Prefix: c.prefix}).Check()
}

// run is the program. It ends when ctx does.
func run(ctx context.Context, args []string, masterKey string, stdout, stderr io.Writer) error {
	cfg, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	cfg.masterKey = masterKey
	bar := newProgress(stderr) // log lines appear above it
	logger := slog.New(traced{slog.NewTextHandler(bar, nil)})
	v, err := openVault(ctx, cfg, logger)
	if err != nil {
		return err
	}
	switch {
	case cfg.newTenant != "":
		err = printLine(ctx, v, cfg, stdout, bar, newTenant)
	case cfg.rotateKeys != "":
		err = printLine(ctx, v, cfg, stdout, bar, rotateKeys)
	default:
		err = serve(ctx, v, cfg, stdout, logger)
	}
	return errors.Join(err, v.Close())
}

// printLine does something that has one line to show for it. The progress line
// is gone before that line is printed.
func printLine(ctx context.Context, v *vault.Vault, cfg *config, stdout io.Writer, bar *progress,
	do func(context.Context, *vault.Vault, *config, *progress) (string, error)) error {
	line, err := do(ctx, v, cfg, bar)
	bar.clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, line)
	return err
}

// openVault opens the database with the master key. To rotate keys, both must
// exist: a new database has none to rotate, so a missing one means that -db is
// mistyped.
func openVault(ctx context.Context, cfg *config, logger *slog.Logger) (*vault.Vault, error) {
	if cfg.rotateKeys != "" && !isPostgres(cfg.db) {
		if _, err := os.Stat(cfg.db); err != nil {
			return nil, fmt.Errorf("-rotate-keys needs an existing database: %w", err)
		}
	}
	key, created, err := loadMasterKey(cfg, logger)
	if err != nil {
		return nil, err
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	config := &vault.Config{
		Logger:  logger,
		Runtime: jsruntime.New(&jsruntime.Options{Modules: cfg.modules}),
		Egress:  vault.EgressPolicy{AllowHTTP: cfg.allowPrivateEgress, AllowPrivate: cfg.allowPrivateEgress},
	}
	if cfg.newTenant != "" || cfg.rotateKeys != "" {
		config.SweepEvery, config.WorkEvery = -1, -1 // servers do that
	}
	v, err := vault.Open(ctx, store, key, config)
	if errors.Is(err, vault.ErrWrongKey) {
		if created {
			err = errors.Join(err, os.Remove(cfg.keyFile)) // it opens nothing
		}
		return nil, fmt.Errorf("%w\nstart with the -key-file or %s that the database was created with", err, masterKeyVariable)
	}
	return v, err
}

func openStore(ctx context.Context, cfg *config) (vault.Storage, error) {
	if isPostgres(cfg.db) {
		return postgres.OpenOptions(ctx, cfg.db, &postgres.Options{TransactionPooler: cfg.pooler})
	}
	return sqlite.Open(ctx, cfg.db)
}

func isPostgres(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}

// baseURL is the address at which a client on this machine reaches the server.
func (c *config) baseURL(listener string) string {
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

// traced puts the trace id of the request on every line that is logged for one.
type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if id := vault.TraceID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return t.Handler.Handle(ctx, r)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }

// Command service embeds a vault in a larger server: a staff directory on
// PostgreSQL that stores social security numbers as tokens.
//
//	export DATABASE_URL=postgres://localhost/staff
//	export TOKENVAULT_MASTER_KEY=...   # vault.NewKey().Text(), from a secret store
//	export STAFF_TOKEN=...        # the bearer token for /employees
//	go run ./examples/service
//
// The server has its own routes and middleware. Its route /employees uses the
// vault in process, as an application that sees masked numbers. Payroll reads
// the plaintext numbers through the REST API below /vault/, with the key that
// the first start prints. On SIGTERM the program lets requests and running jobs
// finish, and then closes the vault. Any number of processes may serve one
// database.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, &config{
		addr: "127.0.0.1:8080", db: os.Getenv("DATABASE_URL"), masterKey: os.Getenv("TOKENVAULT_MASTER_KEY"), staffToken: os.Getenv("STAFF_TOKEN"),
	}, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// config is the configuration of the program.
type config struct{ addr, db, masterKey, staffToken string }

// Limits of the server.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 2 * time.Minute
	drainTimeout = 30 * time.Second
)

// run is the program. It ends when ctx is done.
func run(ctx context.Context, cfg *config, stdout, stderr io.Writer) (err error) {
	if cfg.db == "" || cfg.masterKey == "" || cfg.staffToken == "" {
		return errors.New("DATABASE_URL, TOKENVAULT_MASTER_KEY and STAFF_TOKEN must be set")
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	v, err := openVault(ctx, cfg, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	staff, err := setUp(ctx, v, stdout)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening at http://%s\n", listener.Addr())
	drain := &httpserver.Drain{Timeout: drainTimeout}
	srv := &http.Server{Handler: newHandler(v, staff, cfg.staffToken, drain, logger), ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		DisableGeneralOptionsHandler: true} // OPTIONS * also goes through the middleware
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return drain.Shutdown(context.Background(), v, srv)
	}
}

// openVault opens the vault, which does its background work itself.
func openVault(ctx context.Context, cfg *config, logger *slog.Logger) (*vault.Vault, error) {
	key, err := vault.ParseKey(cfg.masterKey)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, cfg.db)
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, store, key, &vault.Config{Logger: logger, Runtime: jsruntime.New(nil)})
}

// tenantName is the tenant of the directory.
const tenantName = "Staff directory"

// Applications of the tenant, and the container of social security numbers.
const (
	directoryName = "Directory"
	payrollName   = "Payroll"
	numbers       = "/pii/high/" // container of the numbers
)

// setUp returns the client of the directory. On a new database it creates the
// tenant and its applications, and prints payroll's key, which cannot be read
// again.
func setUp(ctx context.Context, v *vault.Vault, stdout io.Writer) (*vault.Client, error) {
	tenant, err := v.EnsureTenant(ctx, tenantName)
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	payroll, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: payrollName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read", "token:use"}}}})
	if err != nil {
		return nil, err
	}
	if payroll.Key != "" {
		fmt.Fprintf(stdout, "payroll key %s\n", payroll.Key)
	}
	directory, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: directoryName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:read"}}}})
	if err != nil {
		return nil, err
	}
	return c.As(ctx, directory.ID)
}

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
// the first start prints. The program also does the vault's background work
// and controls the shutdown. On SIGTERM it lets requests finish, then the
// background work, and then closes the vault.
//
// Any number of processes may serve one database. Start the first one alone,
// because it creates the tenant.
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
	"sync"
	"syscall"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, &config{
		addr: "127.0.0.1:8080", db: os.Getenv("DATABASE_URL"), masterKey: os.Getenv("TOKENVAULT_MASTER_KEY"), staffToken: os.Getenv("STAFF_TOKEN"),
		sweepEvery: time.Minute, workEvery: time.Second,
	}, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// config is the configuration of the program.
type config struct {
	addr, db, masterKey, staffToken string
	sweepEvery, workEvery           time.Duration
	egress                          vault.EgressPolicy
}

// Limits of the server.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 2 * time.Minute
	drainTimeout = 30 * time.Second
)

// run is the program. It ends when ctx is done.
func run(ctx context.Context, cfg *config, stdout, stderr io.Writer) error {
	if cfg.db == "" || cfg.masterKey == "" || cfg.staffToken == "" {
		return errors.New("DATABASE_URL, TOKENVAULT_MASTER_KEY and STAFF_TOKEN must be set")
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	v, err := openVault(ctx, cfg, logger)
	if err != nil {
		return err
	}
	return errors.Join(runWith(ctx, v, cfg, stdout, logger), v.Close())
}

// openVault opens the vault without its own background work.
func openVault(ctx context.Context, cfg *config, logger *slog.Logger) (*vault.Vault, error) {
	key, err := vault.ParseKey(cfg.masterKey)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, cfg.db)
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, store, key, &vault.Config{
		SweepEvery: -1, WorkEvery: -1, Logger: logger, Runtime: jsruntime.New(nil), Egress: cfg.egress,
	})
}

// runWith serves, and does background work until the last request is done.
func runWith(ctx context.Context, v *vault.Vault, cfg *config, stdout io.Writer, logger *slog.Logger) error {
	staff, err := setUp(ctx, v, stdout)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening at http://%s\n", listener.Addr())

	background, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		every(background, cfg.sweepEvery, func() {
			if _, err := v.Sweep(background); err != nil && background.Err() == nil {
				logger.Error("sweep failed", "error", err)
			}
		})
	})
	wg.Go(func() {
		every(background, cfg.workEvery, func() {
			if err := v.Work(background); err != nil && background.Err() == nil {
				logger.Error("running jobs failed", "error", err)
			}
		})
	})
	defer wg.Wait()
	defer stop()
	return serve(ctx, listener, newHandler(v, staff, cfg.staffToken, logger))
}

// every calls do at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// serve serves until ctx ends, and then waits for the requests in progress.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		DisableGeneralOptionsHandler: true} // OPTIONS * also goes through the middleware
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return srv.Shutdown(drain)
}

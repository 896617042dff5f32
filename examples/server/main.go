// Command server serves a vault as a REST API, ready to use:
//
//	go run ./examples/server
//
// It keeps its data in a SQLite file in the working directory. On the first
// start it creates a demo tenant with an application of each type. It prints
// the address, the keys, curl commands to try, and a link that opens the
// console, which has its own port.
//
// Flags turn it into a small service. -db also accepts a postgres:// URL;
// with -pooler, the URL may lead to PgBouncer in transaction mode. -tls-cert
// and -tls-key enable TLS. The master key can come from a secret store
// through TOKENVAULT_MASTER_KEY.
//
// Two flags perform one task and exit, even while a server has the same
// database open. -new-tenant adds a tenant and prints its keys as one line of
// JSON. It also works before any server has run. -rotate-keys gives one
// tenant, or all tenants, new data keys. It creates neither a database file
// nor a master key. On a terminal both show their progress.
//
// On SIGTERM and SIGINT it first lets a balancer notice, and then lets requests
// in progress finish before it exits. A second signal ends it at once.
// SIGHUP makes it read the TLS certificate again. Metrics for Prometheus are at
// /metrics, or at -metrics-addr. Logs go to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-72ea4aab/vault/internal/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := serve.Main(ctx, os.Args[1:], oidc, os.Getenv, os.Stdout, os.Stderr)
	stop()
	var reported *serve.ReportedError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case !errors.As(err, &reported):
		fmt.Fprintln(os.Stderr, "server:", err)
	}
	os.Exit(1)
}

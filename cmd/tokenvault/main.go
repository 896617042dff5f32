// Command tokenvault is the operator's tool of a vault. It creates keys, tenants
// and API keys, looks after databases, moves tokens in and out, and serves the
// REST API.
//
//	go install github.com/seed-72ea4aab/vault/cmd/tokenvault@latest
//	tokenvault --help
//
// It works on a database in its own process, with --db and the master key, or
// through the REST API of a vault that runs elsewhere, with --url and an API key.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificates of authorities

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := cli.Run(ctx, os.Args[1:], os.Getenv, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

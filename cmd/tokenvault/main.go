// Command tokenvault is the command-line tool for operators of a vault. It
// creates keys, tenants and API keys, maintains databases, imports and
// exports tokens, and serves the REST API.
//
//	go install github.com/seed-72ea4aab/vault/cmd/tokenvault@latest
//	tokenvault --help
//
// It opens a database in its own process, with --db and the master key. Or it
// calls the REST API of a running vault, with --url and an API key.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no CA certificates

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := cli.Run(ctx, os.Args[1:], os.Getenv, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

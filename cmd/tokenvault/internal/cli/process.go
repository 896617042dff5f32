package cli

import (
	"flag"

	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

func processCommands() []*command {
	return []*command{
		{
			name: "serve", summary: "serve the REST API",
			about: `Serves the vault in a database over HTTP, or over TLS with --tls-cert and
				--tls-key, until SIGTERM or SIGINT; requests in progress are finished. It
				creates the database and the master key if they are missing, and unless --demo
				is false a demo tenant whose API keys it prints. Metrics for Prometheus are at
				/metrics. With --console it also serves the console, at an address of its own,
				and prints a link that works once. Servers that start together on one database
				do not disturb each other.`,
			example: "tokenvault serve\nTOKENVAULT_DB=postgres://vault@db/vault TOKENVAULT_DEMO=false tokenvault serve --addr :8080",
			setup: func(f *flag.FlagSet) action {
				cfg := &serve.Config{Evidence: true}
				cfg.Flags(f)
				return func(c *call) error { return cfg.Serve(c.ctx, c.getenv, c.Out, c.Err) }
			},
		},
		{
			name: "worker", summary: "run tenants' code, for a server that starts it",
			about: `The process in which JavaScript of tenants runs. Servers start it by themselves,
				with WorkerPath of jsruntime.Options in a program of your own; started by hand it
				says so and exits with 2.`,
			example: "tokenvault worker",
			setup: func(*flag.FlagSet) action {
				return func(*call) error {
					jsruntime.WorkerMain()
					return nil
				}
			},
		},
		completionCommand(),
	}
}

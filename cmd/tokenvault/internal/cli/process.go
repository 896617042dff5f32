package cli

import (
	"cmp"
	"flag"

	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

func processCommands() []*command {
	return []*command{
		{
			name: "serve", summary: "serve the REST API",
			about: `Serves the vault in a database over HTTP, or over TLS with --tls-cert and
				--tls-key, until SIGTERM or SIGINT. Then /readyz is a 503 for --drain-delay, while
				everything is still served, and requests in progress and running jobs have
				--shutdown-timeout to end. A second signal ends the server at once. SIGHUP makes
				it read the TLS certificate again. It creates a
				missing database, but a master key only with --create-key and a tenant
				only with --demo. Metrics for Prometheus are at /metrics, or at --metrics-addr.
				Several servers may start at once on one database.

				With --console it also serves the console, at a separate address. People sign in
				with a link that works once: from tokenvault console link, from the file of
				--console-link-file, or from the terminal that the server runs in. With
				--console-header, a proxy in front signs them in.`,
			example: "tokenvault serve --create-key --demo\nTOKENVAULT_DB=postgres://vault@db/vault TOKENVAULT_KEY_FILE=master.key tokenvault serve --addr :8080 --cors-origins https://shop.example --rate-limit 100",
			setup: func(f *flag.FlagSet) action {
				cfg := &serve.Config{Evidence: true}
				cfg.OpenKey = openKey
				cfg.Flags(f)
				return func(c *call) error { return cfg.Serve(c.ctx, c.getenvForKeys, c.Out, c.Err) }
			},
		},
		{
			name: "worker", summary: "run tenants' code; started by a server",
			about: `Runs the JavaScript of tenants. Servers start workers themselves; your own
				program does so with WorkerPath of jsruntime.Options. Started by hand, it
				explains this and exits with 2.`,
			example: "tokenvault worker",
			act: func(*call) error {
				jsruntime.WorkerMain()
				return nil
			},
		},
		consoleLinkCommand(), versionCommand(), completionCommand(),
	}
}

func consoleLinkCommand() *command {
	return &command{
		name: "console link", summary: "print a link that signs in once at the console of a server", reach: inProcess,
		about: `The link works once, within ten minutes, at the server whose console is at
			--console-url or, on this machine, at --console. The server must have the same
			master key, and must be running. The audit log has what the user does at the
			console, under the user's name.`,
		example: "tokenvault console link --key-file vault.key --user jane --role operator\ntokenvault console link --console-url https://console.example.com/",
		setup: func(f *flag.FlagSet) action {
			user := f.String("user", "", "`name` of the person who will use the link; by default the actor")
			role := f.String("role", "owner", "`role` of the person: viewer, operator or owner")
			addr := f.String("console", "127.0.0.1:8081", "`address` of the console on this machine")
			at := f.String("console-url", "", "`URL` of the console")
			cert := f.String("tls-cert", "", "`file` with the TLS certificate of the server; with it the URL begins with https")
			return func(c *call) error { return printConsoleLink(c, *user, *role, *addr, *at, *cert != "") }
		},
	}
}

func printConsoleLink(c *call, user, roleName, addr, at string, tls bool) error {
	role, err := serve.ParseRole(roleName)
	if err != nil {
		return usagef("--role: %v", err)
	}
	if user = cmp.Or(user, c.operator()); user == "" {
		return usagef("--user is required")
	}
	if at == "" {
		if at, err = serve.ConsoleURL(addr, tls); err != nil {
			return err
		}
	}
	key, err := c.masterKey()
	if err != nil {
		return err
	}
	link, err := serve.SealLink(key, at, user, role)
	if err != nil {
		return err
	}
	return c.say(nil, map[string]any{"link": link, "user": user, "role": roleName}, "%s", link)
}

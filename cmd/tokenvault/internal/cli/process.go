package cli

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
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
				--console-header, a proxy in front signs them in, and with --console-oidc an
				OpenID Connect provider.

				With --issuer, workloads may send the JWTs of this issuer in place of API keys.
				docs/identity.md describes them.

				With --elements it also serves card fields for web pages, at a separate
				address, to pages of --elements-origins. docs/elements.md describes them.`,
			example: "tokenvault serve --create-key --demo\nTOKENVAULT_DB=postgres://vault@db/vault TOKENVAULT_KEY_FILE=master.key tokenvault serve --addr :8080 --cors-origins https://shop.example --rate-limit 100",
			setup: func(f *flag.FlagSet) action {
				cfg := &serve.Config{Evidence: true}
				cfg.OpenKey, cfg.OIDC = openKey, oidc
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
		consoleLinkCommand(), elementsCommand(), versionCommand(), completionCommand(),
	}
}

func elementsCommand() *command {
	return &command{
		name: "elements sri", summary: "print the integrity of elements.js",
		about: `Prints the hash of the elements.js that tokenvault serve --elements serves, for
			the attribute integrity of a script element. It changes with each version.`,
		example: "tokenvault elements sri",
		act: func(c *call) error {
			_, err := fmt.Fprintln(c.Out, elements.Integrity())
			return err
		},
	}
}

func consoleLinkCommand() *command {
	return &command{
		name: "console link", summary: "print a link that signs in once at the console of a server", reach: inProcess,
		about: `The link works once, within ten minutes, at the server whose console is at
			--console-url or, on this machine, at --console. The server must have the same
			database, and must be running. The audit log has what the user does at the
			console, under the user's name.`,
		example: "tokenvault console link --db vault.db --key-file vault.key --user jane --role operator\ntokenvault console link --console-url https://console.example.com/",
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
		return shell.Usagef("--role: %v", err)
	}
	if user = cmp.Or(user, c.operator()); user == "" {
		return shell.Usagef("--user is required")
	}
	if at == "" {
		if at, err = serve.ConsoleURL(addr, tls); err != nil {
			return err
		}
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	key, err := serve.LinkKey(c.ctx, o.vault)
	if err != nil {
		return err
	}
	link, err := serve.SealLink(key, at, user, role)
	if err != nil {
		return err
	}
	return c.say(nil, map[string]any{"link": link, "user": user, "role": roleName}, "%s", link)
}

func forwardCommands() []*command {
	return []*command{
		{
			name: "forward ca", reach: inProcess, summary: "print the certificate that clients of the forward proxy must trust",
			example: "tokenvault forward ca --db vault.db --key-file vault.key > forward.pem",
			act:     inVault(func(c *call, v *vault.Vault) error { return c.printText(v.ForwardCA(c.ctx)) }),
		},
		{
			name: "forward rotate-ca", reach: inProcess, summary: "replace the certificate of the forward proxy, and print what clients must trust",
			about: `The old certificate signs for 7 more days. Until then, give clients both
				certificates. With --now it signs no longer: use this if its key may be known to
				others, and remove the old certificate from all clients. Servers follow within
				a second.`,
			example: "tokenvault forward rotate-ca --domains stripe.com,adyen.com > forward.pem",
			setup: func(f *flag.FlagSet) action {
				o := &vault.RotateCAOptions{}
				f.BoolVar(&o.Now, "now", false, "end the old certificate at once")
				domains := f.String("domains", "", "`names` of domains, separated by commas, that the new certificate is limited to")
				return inVault(func(c *call, v *vault.Vault) error {
					if *domains != "" {
						o.Domains = strings.Split(strings.ToLower(*domains), ",")
					}
					return c.printText(v.RotateForwardCA(c.ctx, o))
				})
			},
		},
	}
}

// version is the version of the program.
type version struct {
	Version  string         `json:"version"`
	Commit   string         `json:"commit,omitempty"`
	Modified bool           `json:"modified,omitempty"` // after the commit
	Go       string         `json:"go"`
	Schema   map[string]int `json:"schema"` // the newest migration of each database
}

// newVersion returns the version from the build information.
func newVersion(info *debug.BuildInfo) version {
	v := version{Version: "unknown", Go: runtime.Version(), Schema: map[string]int{
		"sqlite": newest(sqlite.Migrations()), "postgres": newest(postgres.Migrations("")),
	}}
	if info == nil {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// newest returns the version of the last migration.
func newest(all []storage.Migration) int { return all[len(all)-1].Version }

// String returns the version for people.
func (v version) String() string {
	commit := cmp.Or(v.Commit, "unknown")
	if v.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("tokenvault %s\ncommit  %s\nschema  sqlite %d, postgres %d\nbuilt   with %s", v.Version, commit, v.Schema["sqlite"], v.Schema["postgres"], v.Go)
}

func versionCommand() *command {
	return &command{
		name: "version", summary: "print the version, the commit and the schema of this program",
		about: `The schema is the newest migration that the program has for each database;
			tokenvault migrate status compares it with a database.`,
		example: "tokenvault version --json",
		setup: func(f *flag.FlagSet) action {
			asJSON := f.Bool("json", false, "print one JSON object per line")
			return func(c *call) error {
				info, _ := debug.ReadBuildInfo()
				v := newVersion(info)
				if *asJSON {
					return shell.WriteJSON(c.Out, v)
				}
				_, err := fmt.Fprintln(c.Out, v)
				return err
			}
		},
	}
}

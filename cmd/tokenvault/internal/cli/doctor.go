package cli

import (
	"flag"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/doctor"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

func doctorCommand() *command {
	return &command{
		name: "doctor", reach: bothWays, trees: foundTrees, summary: "find problems, and suggest how to fix them",
		about: `Checks the database and its settings, the schema, the clock, the master key or
			the API key, and whether this machine reaches the internet, which proxies,
			callbacks and code need. Exits with 0 if there are only warnings, and with 1 if
			something does not work.`,
		example: "tokenvault doctor --db vault.db --key-file vault.key\ntokenvault doctor --url https://vault.example.com",
		setup: func(f *flag.FlagSet) action {
			egress := f.String("egress-url", "https://example.com/", "`URL` to try to reach; empty for none")
			anchor := f.String("anchor", "", "`file` of an anchor to compare the evidence with")
			return func(c *call) error {
				c.compareAnchor(*anchor)
				return examine(c, *egress)
			}
		},
	}
}

// examination is what doctor finds.
type examination struct {
	doctor.Examination
	c *call
}

func examine(c *call, egress string) error {
	way, err := c.way()
	if err != nil {
		return err
	}
	e := &examination{c: c}
	switch {
	case way == overHTTP:
		if err := e.server(); err != nil {
			return err
		}
	default:
		e.Database(c.ctx, &c.target.Database)
		e.vault()
	}
	if way == inProcess && egress != "" {
		e.Egress(c.ctx, c.getenv, egress)
	}
	if bad, err := e.Print(c.Out, terminal.NewPalette(c.Out, c.getenv), c.json); err != nil || !bad {
		return err
	}
	return errReported
}

// vault opens the vault, which checks the schema and the key.
func (e *examination) vault() {
	if !e.Schema(e.c.ctx, &e.c.target.Database) {
		return
	}
	e.KeyFiles(&e.c.target.Database)
	if _, err := e.c.openVault(); err != nil {
		fix := "Give the --key-file or " + masterKeyVariable + " that the database was created with."
		e.Fail("key", fix, "the vault cannot be opened: %s", shell.FirstLine(err))
		return
	}
	tenants := 0
	for t, err := range e.c.opened.vault.AllTenants(e.c.ctx) {
		if err != nil {
			e.Fail("database", "Look at the error.", "tenants cannot be listed: %s", shell.FirstLine(err))
			return
		}
		tenants++
		switch {
		case t.Key == nil:
		case t.Key.State == vault.TenantKeyOK:
			e.OK("key", "the key of tenant %s is available", t.ID)
		default:
			e.Warn("key", "Ask the holder of "+t.Key.URI+".", "the key of tenant %s is %s", t.ID, t.Key.State)
		}
	}
	e.OK("key", "the master key opens the database, which has %s", shell.Counted(tenants, "tenant"))
	e.Evidence(e.c.opened.vault)
	e.Sinks(e.c.ctx, e.c.opened.vault)
}

// server checks a vault over HTTP.
func (e *examination) server() error {
	c := e.c
	o, err := c.open()
	if err != nil || !e.Probe(c.ctx, c.target.url, "/readyz") {
		return err
	}
	app, err := o.client.OwnApplication(c.ctx)
	if err != nil {
		e.Fail("key", "Give a key that works in "+apiKeyVariable+".", "the API key is not accepted: %s", shell.FirstLine(err))
		return nil
	}
	e.OK("key", "the API key belongs to a %s application", app.Type)
	if !app.ExpiresAt.IsZero() {
		e.Warn("key", "Create a new application before then.", "the API key expires at %s", shell.TimeText(app.ExpiresAt))
	}
	return nil
}

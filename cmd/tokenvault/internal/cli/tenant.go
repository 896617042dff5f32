package cli

import (
	"flag"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

func tenantCommands() []*command {
	return []*command{
		{
			name: "tenant create", args: "NAME", min: 1, max: 1, reach: inProcess,
			summary: "create a tenant",
			about: `Tenants share nothing: each has its own tokens, applications, log and keys. With
				--ensure it returns the tenant that was created under the name, if it exists, so
				that programs that start together get the same tenant.`,
			example: "tokenvault tenant create Acme --db vault.db --key-file vault.key",
			setup: func(f *flag.FlagSet) action {
				ensure := f.Bool("ensure", false, "use the tenant that was created under this name, if it exists")
				return inVault(func(c *call, v *vault.Vault) error { return createTenant(c, v, *ensure) })
			},
		},
		{
			name: "tenant list", reach: inProcess, summary: "list all tenants, oldest first",
			example: "tokenvault tenant list --json",
			act: inVault(func(c *call, v *vault.Vault) error {
				var all []vault.Tenant
				for t, err := range v.AllTenants(c.ctx) {
					if err != nil {
						return err
					}
					all = append(all, *t)
				}
				slices.Reverse(all)
				return printAll(c, each(all, nil), []column[*vault.Tenant]{tenantColumns[0], tenantColumns[1], tenantColumns[4]})
			}),
		},
		{
			name: "tenant get", args: "[ID|NAME]", max: 1, reach: bothWays, summary: "show a tenant",
			about:   "Without an argument it shows the tenant of --tenant, or over HTTP the tenant of the API key.",
			example: "tokenvault tenant get Acme\ntokenvault tenant get --url https://vault.example.com",
			act:     getTenant,
		},
		{
			name: "tenant update", args: "[ID|NAME]", max: 1, reach: bothWays, summary: "rename a tenant, or change its settings",
			about:   "Omitted settings do not change.",
			example: "tokenvault tenant update Acme --name 'Acme Inc.' --deduplicate-tokens=true",
			setup: func(f *flag.FlagSet) action {
				name := f.String("name", "", "the new `name`")
				dedup := f.Bool("deduplicate-tokens", false, "return an existing token with the same content instead of creating one")
				return func(c *call) error { return updateTenant(c, *name, *dedup) }
			},
		},
		{
			name: "tenant delete", args: "ID|NAME", min: 1, max: 1, reach: inProcess, asks: true,
			summary: "delete a tenant and all of its data",
			about: `Destroys the tenant's keys first, so that none of its data can be opened. Then
				it deletes the rows and the audit log, so export what you must keep.`,
			example: "tokenvault tenant delete Acme --yes",
			act:     inVault(deleteTenant),
		},
	}
}

// tenantKeyCommands returns the commands that change the keys of tenants.
func tenantKeyCommands() []*command {
	return []*command{
		{
			name: "tenant rotate", args: "[ID|NAME]", max: 1, reach: inProcess,
			summary: "give one tenant or all tenants new data keys",
			about: `Seals everything again under a new key, and destroys the old key. Servers may
				use the database at the same time. It takes at least 12 seconds, and shows its
				progress on a terminal. If it is interrupted, run it again.`,
			example: "tokenvault tenant rotate Acme\ntokenvault tenant rotate --all",
			setup: func(f *flag.FlagSet) action {
				all := f.Bool("all", false, "rotate the keys of all tenants")
				return func(c *call) error { return rotateTenants(c, *all) }
			},
		},
		{
			name: "tenant set-key", args: "ID|NAME [URI]", min: 1, max: 2, reach: inProcess,
			summary: "give a tenant its own key, or remove it",
			about: `Seals the keys of the tenant with its own key inside the master key, so that the
				customer can take the tenant's data out of reach. It also gives the tenant a new
				data key, which takes at least 12 seconds. Servers may use the database at the
				same time. If it is interrupted, run it again. docs/keys.md lists the URIs.`,
			example: "tokenvault tenant set-key Acme 'awskms:///alias/acme?region=eu-central-1'\ntokenvault tenant set-key Acme --remove",
			setup: func(f *flag.FlagSet) action {
				remove := f.Bool("remove", false, "remove the tenant's own key")
				return func(c *call) error { return setTenantKey(c, *remove) }
			},
		},
	}
}

var tenantColumns = []column[*vault.Tenant]{
	{"ID", func(t *vault.Tenant) string { return t.ID.String() }},
	{"NAME", func(t *vault.Tenant) string { return nameText(t.Name, t.Unreadable) }},
	{"DEDUPLICATES", func(t *vault.Tenant) string { return strconv.FormatBool(t.Settings.DeduplicateTokens) }},
	{"WEBHOOK SECRET", func(t *vault.Tenant) string { return t.WebhookSecret }},
	{"CREATED", func(t *vault.Tenant) string { return shell.TimeText(t.CreatedAt) }},
	{"MODIFIED", func(t *vault.Tenant) string { return shell.TimeText(t.ModifiedAt) }},
}

// tenantAPI opens the vault as the tenant in the argument, if there is one.
func (c *call) tenantAPI() (vault.API, error) {
	if len(c.args) > 0 {
		way, err := c.way()
		if err != nil {
			return nil, err
		}
		if way == overHTTP {
			return nil, shell.Usagef("over HTTP it is the tenant of the API key: leave out the name, or give --db and the master key")
		}
		c.target.tenant = c.args[0]
	}
	o, err := c.open()
	if err != nil {
		return nil, err
	}
	return o.api, nil
}

func createTenant(c *call, v *vault.Vault, ensure bool) error {
	create := v.CreateTenant
	if ensure {
		create = v.EnsureTenant
	}
	return printOne(c, tenantColumns)(create(c.ctx, c.args[0]))
}

func getTenant(c *call) error {
	api, err := c.tenantAPI()
	if err != nil {
		return err
	}
	return printOne(c, tenantColumns)(api.GetTenant(c.ctx))
}

func updateTenant(c *call, name string, dedup bool) error {
	if !c.given("name") && !c.given("deduplicate-tokens") {
		return shell.Usagef("nothing to change: use --name or --deduplicate-tokens")
	}
	api, err := c.tenantAPI()
	if err != nil {
		return err
	}
	t, err := api.GetTenant(c.ctx)
	if err != nil {
		return err
	}
	p := vault.TenantParams{Name: t.Name, Settings: t.Settings}
	if c.given("name") {
		p.Name = name
	}
	if c.given("deduplicate-tokens") {
		p.Settings.DeduplicateTokens = dedup
	}
	return printOne(c, tenantColumns)(api.ReplaceTenant(c.ctx, p))
}

func deleteTenant(c *call, v *vault.Vault) error {
	t, err := c.findTenant(c.args[0])
	if err != nil {
		return err
	}
	if err := c.confirm("Delete the tenant " + shell.Printable(nameText(t.Name, t.Unreadable)) + " with all of its tokens, its log and its keys?"); err != nil {
		return err
	}
	return c.say(v.DeleteTenant(c.ctx, t.ID), map[string]any{"id": t.ID, "deleted": true}, "Deleted the tenant %s.", t.ID)
}

func rotateTenants(c *call, all bool) error {
	if all == (len(c.args) > 0) {
		return shell.Usagef("no tenant is given: use its id or name, or --all")
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	var id uuid.UUID
	if !all {
		t, err := c.findTenant(c.args[0])
		if err != nil {
			return err
		}
		id = t.ID
	}
	bar := terminal.NewProgress(c.Err)
	tenants, rows, err := serve.Rotate(c.ctx, o.vault, id, all, bar)
	bar.Clear()
	return c.say(err, map[string]any{"tenants": tenants, "rows": rows}, "Rotated the keys of %s: %s resealed.",
		shell.Counted(tenants, "tenant"), shell.Counted(rows, "row"))
}

func setTenantKey(c *call, remove bool) error {
	if remove == (len(c.args) > 1) {
		return shell.Usagef("no key is given: use its URI, or --remove")
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	t, err := c.findTenant(c.args[0])
	if err != nil {
		return err
	}
	if remove {
		return c.say(o.vault.SetTenantKey(c.ctx, t.ID, ""), map[string]any{"id": t.ID, "key": nil}, "Removed the key of the tenant %s.", t.ID)
	}
	if err := o.vault.SetTenantKey(c.ctx, t.ID, c.args[1]); err != nil {
		return err
	}
	if t, err = o.vault.Tenant(t.ID).GetTenant(c.ctx); err != nil {
		return err
	}
	return c.say(nil, map[string]any{"id": t.ID, "key": t.Key}, "Set the key of the tenant %s.", t.ID)
}

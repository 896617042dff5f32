package cli

import (
	"flag"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

// appKeyCommands returns the commands about the API keys of an application.
func appKeyCommands() []*command {
	return []*command{
		{
			name: "app key create", args: "ID|NAME", min: 1, max: 1, reach: bothWays,
			summary: "give an application one more API key, and print it",
			about: `The other keys go on. The key is printed once and not stored. An application has
				at most 3 keys that have not expired. A key made with an API key of the same
				application ends no later than that key.`,
			example: "tokenvault app key create Checkout --tenant Acme\ntokenvault app key create Checkout --expires-at 2160h --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				expires := f.String("expires-at", "", "`time` at which the key stops working, such as 2030-01-31T00:00:00Z, or a duration from now, such as 24h")
				return func(c *call) error { return createAppKey(c, *expires) }
			},
		},
		{
			name: "app key list", args: "ID|NAME", min: 1, max: 1, reach: bothWays,
			summary: "list the API keys of an application, oldest first",
			about:   "It shows when each key was last used, to within an hour, but never the key itself.",
			example: "tokenvault app key list Checkout --tenant Acme",
			act: inTenant(func(c *call, o *opened) error {
				app, err := apps.find(c, o.api, c.args[0])
				if err != nil {
					return err
				}
				return printAll(c, each(o.api.ListApplicationKeys(c.ctx, app.ID)), keyColumns[:5])
			}),
		},
		{
			name: "app key delete", args: "ID|NAME KEY", min: 2, max: 2, reach: bothWays, asks: true,
			summary: "delete an API key of an application",
			about: `KEY is the id of the key, which tokenvault app key list shows. The key stops
				working within a second on every server. So do the sessions that it created or
				authorized and the jobs that it queued. The other keys go on. After a theft use
				tokenvault app rotate-key, which replaces all keys.`,
			example: "tokenvault app key delete Checkout 01980000-0000-7000-8000-000000000001 --tenant Acme",
			act:     deleteAppKey,
		},
	}
}

var keyColumns = []column[*vault.ApplicationKey]{
	{"ID", func(k *vault.ApplicationKey) string { return k.ID.String() }},
	{"CREATED", func(k *vault.ApplicationKey) string { return shell.TimeText(k.CreatedAt) }},
	{"CREATED BY", func(k *vault.ApplicationKey) string { return idText(k.CreatedBy) }},
	{"EXPIRES", func(k *vault.ApplicationKey) string { return shell.TimeText(k.ExpiresAt) }},
	{"LAST USED", func(k *vault.ApplicationKey) string { return shell.TimeText(k.LastUsedAt) }},
	{"KEY", func(k *vault.ApplicationKey) string { return k.Key }},
}

func createAppKey(c *call, expires string) error {
	end, err := shell.ParseTime("expires-at", expires, time.Now(), 1)
	if err != nil {
		return err
	}
	return inTenant(func(c *call, o *opened) error {
		app, err := apps.find(c, o.api, c.args[0])
		if err != nil {
			return err
		}
		err = printOne(c, keyColumns)(o.api.CreateApplicationKey(c.ctx, app.ID, vault.ApplicationKeyParams{ExpiresAt: end}))
		if err == nil && !c.json {
			c.inform("The key is not shown again.")
		}
		return err
	})(c)
}

func deleteAppKey(c *call) error {
	key, err := uuid.Parse(c.args[1])
	if err != nil {
		return shell.Usagef("the id of a key is a UUID; tokenvault app key list shows them")
	}
	return inTenant(func(c *call, o *opened) error {
		app, err := apps.find(c, o.api, c.args[0])
		if err != nil {
			return err
		}
		keys, err := o.api.ListApplicationKeys(c.ctx, app.ID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(keys, func(k vault.ApplicationKey) bool { return k.ID == key })
		if i >= 0 {
			used := "It has not been used yet."
			if !keys[i].LastUsedAt.IsZero() {
				used = "It was last used at " + shell.TimeText(keys[i].LastUsedAt) + "."
			}
			if err := c.confirm("Delete a key of " + shell.Printable(app.Name) + "? " + used + " It stops working at once."); err != nil {
				return err
			}
		}
		return c.say(o.api.DeleteApplicationKey(c.ctx, app.ID, key), map[string]any{"id": key, "deleted": true}, "Deleted the key %s.", key)
	})(c)
}

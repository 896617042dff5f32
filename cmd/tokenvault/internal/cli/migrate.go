package cli

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

func databaseCommands() []*command {
	return []*command{
		{
			name: "migrate status", reach: inProcess, summary: "show which migrations the database has",
			about:   "Changes nothing, and needs no master key.",
			example: "tokenvault migrate status --db postgres://vault@db/vault",
			act:     inDatabase(migrateStatus),
		},
		{
			name: "migrate sql", reach: inProcess, summary: "print the SQL of the migrations",
			about: `Prints all migrations, or with --pending the missing ones, each as one
				transaction, for a role that may change the schema.`,
			example: "tokenvault migrate sql --pending --db postgres://vault@db/vault > vault.sql",
			setup: func(f *flag.FlagSet) action {
				pending := f.Bool("pending", false, "only migrations that the database lacks")
				return inDatabase(func(c *call) error { return migrateSQL(c, *pending) })
			},
		},
		{
			name: "migrate up", reach: inProcess, summary: "update the schema, or create it",
			about: `Within a major version, migrations only add, so servers of the old and the new
				version can run side by side. Several processes may run it at once. It needs no
				master key.`,
			example: "tokenvault migrate up --db vault.db",
			act:     inDatabase(migrateUp),
		},
		distributeCommand(), doctorCommand(),
	}
}

// inDatabase returns an action on a database, which needs no vault.
func inDatabase(do action) action {
	return func(c *call) error {
		if _, err := c.way(); err != nil {
			return err
		}
		return do(c)
	}
}

// migrationState is a line of migrate status.
type migrationState struct {
	Version int    `json:"version"`
	State   string `json:"state"` // applied or pending
}

func migrateStatus(c *call) error {
	pending, err := c.target.Pending(c.ctx)
	if err != nil {
		return err
	}
	var states []migrationState
	for _, m := range c.target.Migrations() {
		state := "applied"
		if slices.Contains(pending, m) {
			state = "pending"
		}
		states = append(states, migrationState{m.Version, state})
	}
	return printAll(c, each(states, nil), []column[*migrationState]{
		{"VERSION", func(m *migrationState) string { return fmt.Sprintf("%04d", m.Version) }},
		{"STATE", func(m *migrationState) string { return m.State }},
	})
}

func migrateSQL(c *call, pending bool) error {
	all := c.target.Migrations()
	if pending {
		var err error
		if all, err = c.target.Pending(c.ctx); err != nil {
			return err
		}
	}
	for _, m := range all {
		text := strings.TrimSuffix(strings.TrimSpace(m.SQL), ";") // the last statement may lack it
		err := c.say(nil, map[string]any{"version": m.Version, "sql": m.SQL}, "-- migration %d\nBEGIN;\n%s;\nCOMMIT;\n", m.Version, text)
		if err != nil {
			return err
		}
	}
	return nil
}

func migrateUp(c *call) error {
	pending, err := c.target.Pending(c.ctx)
	if err != nil {
		return err
	}
	store, err := c.openStore(storage.MigrateOnly)
	if err != nil {
		return err
	}
	return c.say(store.Close(), map[string]any{"migrations": len(pending)}, "The schema is up to date: ran %s.", shell.Counted(len(pending), "migration"))
}

func distributeCommand() *command {
	return &command{
		name: "distribute", reach: inProcess, asks: true, summary: "spread a vault over the nodes of a Citus cluster",
		about: `Distributes the tables of an empty or a filled vault by tenant. The extension
			citus must exist. It needs no master key. Tables that are already distributed do
			not change.`,
		example: "tokenvault distribute --db postgres://vault@coordinator/vault --yes",
		act: inDatabase(func(c *call) error {
			if !serve.IsPostgres(c.target.Path) {
				return shell.Usagef("Citus is an extension of PostgreSQL: --db must be a postgres:// URL")
			}
			if err := c.confirm("Distribute the tables of this vault over the nodes of the cluster?"); err != nil {
				return err
			}
			return c.say(postgres.Distribute(c.ctx, c.target.Path, c.target.Postgres(storage.MigrateAuto)), map[string]any{"distributed": true}, "The vault is distributed.")
		}),
	}
}

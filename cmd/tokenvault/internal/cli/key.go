package cli

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

func keyCommands() []*command {
	return []*command{
		{
			name: "key new", summary: "create a master key",
			about: `Prints the text of a new master key and nothing else. Put it in a secret store.
				Without the key the data of a vault cannot be opened. With the key and the
				database, all of it can.`,
			example: "(umask 077; tokenvault key new > vault.key)",
			act:     func(c *call) error { return c.printText([]byte(vault.NewKey().Text()+"\n"), nil) },
		},
		{
			name: "key check", summary: "check whether the master key belongs to the database", reach: inProcess,
			about: `Opens the database with the master key. Exits with 1 if the database was
				encrypted with another key. For a key in a KMS it also prints the URI, without
				secrets, and how long the KMS took to respond. The fingerprint of the root is for
				--root.`,
			example: "tokenvault key check --db vault.db --key-file vault.key",
			act:     inVault(checkKey),
		},
		{
			name: "key rewrap", summary: "change the master key", reach: inProcess, asks: true,
			about: `Wraps the root of the vault with a new master key, in one write. The new key is in
				--key-file, --master-key or TOKENVAULT_MASTER_KEY, the old key in
				--other-key-file, --other-master-key or TOKENVAULT_OTHER_MASTER_KEY. Either may
				be the URI of a key in a KMS. The root, its fingerprint and the data do not change.

				If servers are running, first give both keys to all of them. Restart each with
				the old key and --other-key-file NEW, then each with the new key and
				--other-key-file OLD. Run this command, and then restart them with only the new
				key.`,
			example: "tokenvault key rewrap --db vault.db --key-file new.key --other-key-file old.key",
			act:     rewrap,
		},
	}
}

func checkKey(c *call, open *vault.Vault) error {
	uri, root := cmp.Or(string(c.target.MasterKey), c.getenvForKeys(masterKeyVariable)), open.RootFingerprint()
	if !serve.IsKeyURI(uri) {
		return c.say(nil, map[string]any{"ok": true, "root": root}, "The master key opens this database. The fingerprint of its root is %s.", root)
	}
	uri = keyring.ShownURI(uri)
	began := time.Now()
	if err := core.CallerOf(open.Tenant(uuid.Nil)).Vault.Root.(*keyring.Root).Holds(c.ctx); err != nil {
		return err
	}
	took := time.Since(began).Round(time.Millisecond)
	return c.say(nil, map[string]any{"ok": true, "uri": uri, "root": root, "took_ms": took.Milliseconds()},
		"The master key %s opens this database. The fingerprint of its root is %s. The KMS took %s.", uri, root, took)
}

func rewrap(c *call) error {
	other, err := c.otherKey()
	if err != nil {
		return err
	}
	if other == nil {
		return shell.Usagef("no old master key is given: use --other-key-file, or the environment variable %s", otherKeyVariable)
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	if err := c.confirm("Afterwards the old master key no longer opens this database. Do all servers have both keys?"); err != nil {
		return err
	}
	if err := o.vault.RewrapDataKeys(c.ctx); err != nil {
		return err
	}
	return c.say(nil, map[string]any{"rewrapped": true}, "The root of the vault is wrapped with the new master key. Only older backups need the old one.")
}

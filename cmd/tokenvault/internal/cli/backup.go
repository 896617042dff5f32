package cli

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func backupCommands() []*command {
	return []*command{{
		name: "backup", args: "FILE", min: 1, max: 1, reach: inProcess, summary: "copy a SQLite database while it is in use",
		about: `Writes a consistent snapshot to a new file that only its owner can read. The
			snapshot is sealed like the database, so also keep the master key, in another
			place. On PostgreSQL use pg_dump.`,
		example: "tokenvault backup backup.db --db vault.db",
		act:     inDatabase(backup),
	}, {
		name: "restore", args: "FILE", min: 1, max: 1, reach: inProcess, asks: true, summary: "check a backup of a SQLite database, and restore it",
		about: `Checks a copy of the backup: the file must be intact, the master key must open
			it, and a token of each tenant must be readable. With --check it stops there.
			Otherwise it copies the backup to --db, which must not exist. Data that was
			deleted after the backup is back, and later writes are lost.`,
		example: "tokenvault restore backup.db --check --key-file vault.key\ntokenvault restore backup.db --db vault.db --key-file vault.key --yes",
		setup: func(f *flag.FlagSet) action {
			check := f.Bool("check", false, "only check the backup")
			return func(c *call) error { return restore(c, *check) }
		},
	}, statsCommand()}
}

func backup(c *call) error {
	if serve.IsPostgres(c.target.Path) {
		return shell.Usagef("backup is for SQLite; on PostgreSQL run pg_dump -Fc, and archive the write-ahead log")
	}
	db, err := c.target.OpenSQL()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	file := c.args[0]
	path, err := filepath.Abs(file) // to SQLite, a name such as file:x is a URI
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(c.ctx, "VACUUM INTO ?", path) // the file exists and is empty, so it keeps its mode
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	if err := serve.SyncFolder(file); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return c.say(nil, map[string]any{"file": file, "bytes": info.Size()}, "Wrote %s to %s.", shell.ByteText(info.Size()), file)
}

// checked is the result of checking a backup.
type checked struct {
	Tenants int `json:"tenants"`
	Tokens  int `json:"tokens"`
	Read    int `json:"tokens_read"`
	Sealed  int `json:"tenants_sealed"` // tenants whose own keys are not available
}

func restore(c *call, only bool) error {
	if serve.IsPostgres(c.target.Path) {
		return shell.Usagef("restore is for SQLite; on PostgreSQL run pg_restore")
	}
	if !only {
		if _, err := c.way(); err != nil {
			return err
		}
		if remains(c.target.Path) { // SQLite would apply the log of another database to the backup
			return fmt.Errorf("there is a database at %s; stop its servers and move it, with the files beside it that end in -wal and -shm", c.target.Path)
		}
	}
	found, err := c.checkBackup(c.args[0])
	if err != nil {
		return err
	}
	if only {
		left := ""
		if found.Sealed > 0 {
			left = fmt.Sprintf(" The own keys of %s are not available, so nothing of them was read.", shell.Counted(found.Sealed, "tenant"))
		}
		return c.say(nil, map[string]any{"ok": true, "tenants": found.Tenants, "tokens": found.Tokens, "tokens_read": found.Read, "tenants_sealed": found.Sealed},
			"The backup is intact: %s, %s, and %d read.%s", shell.Counted(found.Tenants, "tenant"), shell.Counted(found.Tokens, "token"), found.Read, left)
	}
	if err := c.confirm("Restore the backup as the database of this vault?"); err != nil {
		return err
	}
	if err := copyFile(c.args[0], c.target.Path); err != nil {
		return err
	}
	return c.say(nil, map[string]any{"restored": c.target.Path, "tenants": found.Tenants, "tokens": found.Tokens},
		"Restored %s with %s and %s.", c.target.Path, shell.Counted(found.Tenants, "tenant"), shell.Counted(found.Tokens, "token"))
}

// checkBackup checks a copy of the file, because opening a vault and reading
// a token both write to the database.
func (c *call) checkBackup(file string) (found *checked, err error) {
	key, err := c.masterKey()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(file), ".restore-check-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	copied := filepath.Join(folder, "vault.db")
	if err := copyFile(file, copied); err != nil {
		return nil, err
	}
	if err := wholeFile(c.ctx, copied); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(c.ctx, copied)
	if err != nil {
		return nil, err
	}
	v, err := vault.Open(c.ctx, store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, OpenKey: c.target.TenantKeys(slog.New(slog.DiscardHandler)), Root: c.target.Root})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	return readEachTenant(c.ctx, v)
}

// wholeFile runs SQLite's integrity check on a file.
func wholeFile(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var says string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&says); err != nil {
		return fmt.Errorf("the file is not an intact SQLite database: %w", err)
	}
	if says != "ok" {
		return errors.New("the file is damaged: SQLite's integrity check fails")
	}
	return nil
}

// readEachTenant reads the newest token of each tenant.
func readEachTenant(ctx context.Context, v *vault.Vault) (*checked, error) {
	found := &checked{}
	for t, err := range v.AllTenants(ctx) {
		if err != nil {
			return nil, err
		}
		if t.Key != nil && t.Key.State != vault.TenantKeyOK { // it must not prevent the restore of the others
			found.Tenants, found.Sealed = found.Tenants+1, found.Sealed+1
			continue
		}
		page, err := v.Tenant(t.ID).ListTokens(ctx, vault.ListTokensParams{PageParams: vault.PageParams{Page: 1, Size: 1}})
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", t.ID, err)
		}
		if slices.ContainsFunc(page.Data, func(t vault.Token) bool { return t.Unreadable }) {
			return nil, fmt.Errorf("tenant %s: the newest token does not open", t.ID)
		}
		found.Tenants++
		found.Tokens += page.Pagination.TotalItems
		found.Read += len(page.Data)
	}
	return found, nil
}

// remains reports whether a database is at a path, or something of one beside it. A
// symbolic link counts, because SQLite would follow it.
func remains(path string) bool {
	return slices.ContainsFunc([]string{"", "-wal", "-shm", "-journal"}, func(end string) bool {
		_, err := os.Lstat(path + end)
		return err == nil
	})
}

// private is the mode of files that the program creates.
const private = 0o600

// copyFile copies a file to a new file that only its owner can read.
func copyFile(from, to string) (err error) {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return serve.NewFile(to, in.WriteTo)
}

package faults

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// backends names, for each backend, a new database that outlives a process.
var backends = map[string]func(t testing.TB) string{
	"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "vault.db") },
	"postgres": func(t testing.TB) string { return pgtest.URL(t) },
}

// openStore opens the database that a backend named.
func openStore(ctx context.Context, dsn string) (vault.Storage, error) {
	if strings.Contains(dsn, "://") {
		return postgres.Open(ctx, dsn)
	}
	return sqlite.Open(ctx, dsn)
}

// openVault opens a vault for a test and closes it when the test ends.
func openVault(t testing.TB, dsn string, key *vault.Key, cfg *vault.Config) *vault.Vault {
	t.Helper()
	store, err := openStore(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(t.Context(), store, key, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

package faults

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// schemas lends schemas with the vault's tables and no rows.
var schemas = pgtest.Schemas{Keep: "vault_migrations", Fill: func(tb testing.TB, address string) {
	tb.Helper()
	must.Get(postgres.OpenOptions(tb.Context(), address, &postgres.Options{Migrate: storage.MigrateOnly}))(tb)
}}

// servers returns a new database for each backend that is a server. The
// database outlives a killed process.
var servers = func() map[string]func(testing.TB) string {
	all := map[string]func(testing.TB) string{"postgres": schemas.URL}
	if pgtest.HasCitus() {
		all["citus"] = distributed
	}
	return all
}()

// backends are the servers and SQLite.
var backends = func() map[string]func(testing.TB) string {
	all := maps.Clone(servers)
	all["sqlite"] = func(t testing.TB) string { return filepath.Join(t.TempDir(), "vault.db") }
	return all
}()

// onEach runs a test on a new database of each backend.
func onEach(t *testing.T, on map[string]func(testing.TB) string, test func(t *testing.T, name, dsn string)) {
	t.Helper()
	for name, newDSN := range on {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, newDSN(t))
		})
	}
}

// distributed returns the address of a new database on Citus.
func distributed(t testing.TB) string {
	t.Helper()
	dsn := pgtest.Citus(t)
	must.Do(t, postgres.Distribute(t.Context(), dsn, nil))
	return dsn
}

// openStore opens a database of one of the backends.
func openStore(ctx context.Context, dsn string) (vault.Storage, error) {
	if strings.Contains(dsn, "://") {
		return postgres.Open(ctx, dsn)
	}
	return sqlite.Open(ctx, dsn)
}

// openVault opens a vault for a test and closes it when the test ends.
func openVault(t testing.TB, dsn string, key *vault.Key, cfg *vault.Config) *vault.Vault {
	t.Helper()
	store := must.Get(openStore(t.Context(), dsn))(t)
	v := must.Get(vault.Open(t.Context(), store, key, cfg))(t)
	t.Cleanup(func() { v.Close() })
	return v
}

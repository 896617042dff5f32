//go:build !race

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

var callerCounts = []int{1, 8, 32, 128}

// backend is a database under test.
type backend struct {
	name string
	// create returns the address of a new, empty database.
	create func(b testing.TB) string
	open   func(ctx context.Context, dsn string) (storage.Storage, error)
	// bareWriter and bareReader open a database whose schema exists.
	bareWriter func(b *testing.B, dsn string) bareWriter
	bareReader func(b *testing.B, dsn string) bareReader
}

// bareWriter writes rows directly through a driver.
type bareWriter interface {
	// write writes one new token, grouped with concurrent writes.
	write(c *storage.Change) error
	// writeMany writes many new tokens in one transaction.
	writeMany(c *storage.Change) error
}

// bareReader reads a token directly through a driver.
type bareReader func(tenant storage.ID, id string) error

var onSQLite = &backend{
	name:   "SQLite",
	create: func(b testing.TB) string { return filepath.Join(b.TempDir(), "vault.db") },
	open: func(ctx context.Context, dsn string) (storage.Storage, error) {
		return sqlite.Open(ctx, dsn)
	},
	bareWriter: openSQLiteWriter,
	bareReader: openSQLiteReader,
}

var onPostgres = &backend{
	name:   "PostgreSQL",
	create: func(b testing.TB) string { return pgtest.URL(b) },
	open: func(ctx context.Context, dsn string) (storage.Storage, error) {
		return postgres.Open(ctx, dsn)
	},
	bareWriter: openPostgresWriter,
	bareReader: openPostgresReader,
}

// each runs a benchmark on every backend.
func each(b *testing.B, f func(b *testing.B, on *backend)) {
	for _, on := range []*backend{onSQLite, onPostgres} {
		b.Run(on.name, func(b *testing.B) { f(b, on) })
	}
}

// eachCount runs a benchmark on every backend and with every number of callers.
func eachCount(b *testing.B, f func(b *testing.B, on *backend, callers int)) {
	each(b, func(b *testing.B, on *backend) {
		for _, callers := range callerCounts {
			b.Run(fmt.Sprint(callers), func(b *testing.B) { f(b, on, callers) })
		}
	})
}

// emptyDatabase returns the address of a database with the schema but no rows.
func (on *backend) emptyDatabase(b *testing.B) string {
	b.Helper()
	dsn := on.create(b)
	store := must.Get(on.open(b.Context(), dsn))(b)
	must.Do(b, store.Close())
	return dsn
}

// openStore opens a store and closes it when the benchmark ends, unless that
// has happened already.
func (on *backend) openStore(b testing.TB, dsn string) storage.Storage {
	b.Helper()
	store := must.Get(on.open(b.Context(), dsn))(b)
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// user is an application that works in a vault with its API key.
type user struct {
	*vault.Client
	vault  *vault.Vault
	tenant storage.ID
}

// newUser opens a vault with one tenant. It returns an application of that
// tenant with all permissions for tokens.
func newUser(b testing.TB, store storage.Storage) *user {
	b.Helper()
	return newUserWith(b, store, nil)
}

// newUserWith is newUser with a configuration.
func newUserWith(b testing.TB, store storage.Storage, cfg *vault.Config) *user {
	b.Helper()
	v := must.Get(vault.Open(b.Context(), store, vault.NewKey(), cfg))(b)
	b.Cleanup(func() { _ = v.Close() })
	return (&user{vault: v}).neighbour(b)
}

// neighbour returns an application of another tenant of the same vault.
func (u *user) neighbour(b testing.TB) *user {
	b.Helper()
	tenant := must.Get(u.vault.CreateTenant(b.Context(), "Bench"))(b)
	other := &user{vault: u.vault, tenant: storage.ID(tenant.ID)}
	other.Client = other.application(b, vault.ApplicationParams{
		Permissions: []vault.Permission{"token:create", "token:read", "token:use", "token:search"},
	})
	return other
}

// application returns a client of a new private application.
func (u *user) application(b testing.TB, p vault.ApplicationParams) *vault.Client {
	b.Helper()
	p.Name, p.Type = "Bench", vault.ApplicationPrivate
	app := must.Get(u.vault.Tenant(uuid.UUID(u.tenant)).CreateApplication(b.Context(), p))(b)
	c := must.Get(u.vault.Authenticate(b.Context(), app.Key))(b)
	return c
}

package given

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Nodes opens two vaults on one database, with one clock and one key.
func Nodes(t testing.TB) ([]*vault.Vault, *vaulttest.Clock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vault.db")
	key, clock := vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	out := make([]*vault.Vault, 2)
	for i := range out {
		out[i] = Open(t, SQLite(t, path), key, vault.Config{Now: clock.Now})
	}
	return out, clock
}

// SQLite opens a SQLite database, which the vault closes.
func SQLite(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	return must.Get(sqlite.Open(context.WithoutCancel(t.Context()), path))(t)
}

// Open opens a vault until the test ends. It works in the background only if cfg
// has an interval for it.
func Open(t testing.TB, store vault.Storage, key vault.AEAD, cfg vault.Config) *vault.Vault {
	t.Helper()
	cfg.SweepEvery, cfg.WorkEvery = cmp.Or(cfg.SweepEvery, -1), cmp.Or(cfg.WorkEvery, -1)
	v := must.Get(vault.Open(t.Context(), store, key, &cfg))(t)
	t.Cleanup(func() { _ = v.Close() })
	if gate, ok := store.(interface{ Use(core.Caller) }); ok {
		gate.Use(core.CallerOf(v.Tenant(uuid.UUID{})))
	}
	return v
}

// TenantOf adds a tenant and returns the client that acts as it.
func TenantOf(t testing.TB, v *vault.Vault) *vault.Client {
	t.Helper()
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	return v.Tenant(tenant.ID).Client
}

// Spy wraps the database of a vault. It can refuse calls, and shows what is stored.
type Spy struct {
	storage.Storage
	Before func(call string, change *storage.Change) error
	Listed func(tokens int)
}

// Spied returns a vault on a spied database in memory.
func Spied(t testing.TB) (*vaulttest.Vault, *Spy) {
	t.Helper()
	return SpiedWith(t, nil)
}

// SpiedWith is Spied with a configuration.
func SpiedWith(t testing.TB, cfg *vault.Config) (*vaulttest.Vault, *Spy) {
	t.Helper()
	s := &Spy{Storage: SQLite(t, ":memory:")}
	return vaulttest.OpenStorage(t, s, cfg), s
}

func (s *Spy) ask(call string, change *storage.Change) error {
	if s.Before == nil {
		return nil
	}
	return s.Before(call, change)
}

// Write implements [storage.Storage].
func (s *Spy) Write(ctx context.Context, ch *storage.Change) error {
	if err := s.ask("Write", ch); err != nil {
		return err
	}
	return s.Storage.Write(ctx, ch)
}

// Sweep implements [storage.Storage].
func (s *Spy) Sweep(ctx context.Context, now time.Time, limit int) (bool, error) {
	if err := s.ask("Sweep", nil); err != nil {
		return false, err
	}
	return s.Storage.Sweep(ctx, now, limit)
}

// Lookup implements [storage.Storage].
func (s *Spy) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	if err := s.ask("Lookup", nil); err != nil {
		return storage.Record{}, err
	}
	return s.Storage.Lookup(ctx, key)
}

// Records implements [storage.Storage].
func (s *Spy) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if err := s.ask("Records", nil); err != nil {
		return nil, err
	}
	return s.Storage.Records(ctx, tenant, kind, ids)
}

// Tokens implements [storage.Storage].
func (s *Spy) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	if err := s.ask("Tokens", nil); err != nil {
		return nil, err
	}
	return s.Storage.Tokens(ctx, tenant, ids)
}

// ListTokens implements [storage.Storage].
func (s *Spy) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	rows, total, err := s.Storage.ListTokens(ctx, f)
	if s.Listed != nil {
		s.Listed(len(rows))
	}
	return rows, total, err
}

// Rows returns the stored rows of tokens, including expired ones.
func (s *Spy) Rows(t testing.TB, tenant uuid.UUID, ids ...string) []storage.Token {
	t.Helper()
	return must.Get(s.Storage.Tokens(t.Context(), storage.ID(tenant), ids))(t)
}

// ErrDown is the error of a database that does not respond.
var ErrDown = fmt.Errorf("the database does not answer")

// Gated is a SQLite database on which rotations of keys do not wait.
type Gated struct {
	*sqlite.Store
	*keygate.Gate
}

// Write implements [storage.Storage].
func (g *Gated) Write(ctx context.Context, ch *storage.Change) error {
	return g.Gate.Write(ctx, g.Store, ch)
}

// RootOf returns the root of a vault.
func RootOf(t *testing.T, store storage.Storage, key vault.AEAD) *keyring.Root {
	t.Helper()
	return must.Get(keyring.OpenRoot(t.Context(), keyring.RootConfig{Store: store, Master: key, Now: time.Now}))(t)
}

// Sweep deletes what has expired.
func Sweep(t testing.TB, v *vault.Vault) vault.Swept {
	t.Helper()
	return must.Get(v.Sweep(t.Context()))(t)
}

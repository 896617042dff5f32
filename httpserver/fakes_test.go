package httpserver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

var errBroken = errors.New("disk on fire")

// breakableVault returns a vault on a storage that can be made to fail.
func breakableVault(t testing.TB) (*restVault, *breakable) {
	t.Helper()
	store := must.Get(sqlite.Open(context.Background(), ":memory:"))(t)
	b := &breakable{Storage: store, leave: make(chan struct{})}
	return restVaultOf(t, vaulttest.OpenStorage(t, b, nil), nil), b
}

// breakable is a storage that can be made to fail, to panic, or to block
// writes.
type breakable struct {
	vault.Storage
	broken atomic.Bool
	panics atomic.Pointer[any]

	// While gate is set, each write sends on it and then waits for a value.
	gate  atomic.Pointer[chan struct{}]
	leave chan struct{}
}

func (b *breakable) Ping(ctx context.Context) error {
	if b.broken.Load() {
		return errBroken
	}
	return b.Storage.Ping(ctx)
}

func (b *breakable) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	if p := b.panics.Load(); p != nil {
		panic(*p)
	}
	if b.broken.Load() {
		return nil, errBroken
	}
	return b.Storage.Tokens(ctx, tenant, ids)
}

func (b *breakable) Write(ctx context.Context, c *storage.Change) error {
	if gate := b.gate.Load(); gate != nil {
		*gate <- struct{}{}
		<-b.leave
	}
	return b.Storage.Write(ctx, c)
}

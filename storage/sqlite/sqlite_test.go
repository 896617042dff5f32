package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		path := filepath.Join(tb.TempDir(), "vault.db")
		return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, path) }
	}})
}

func TestStorageInMemory(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Backend{Volatile: true, New: func(testing.TB) storagetest.Opener {
		return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, ":memory:") }
	}})
}

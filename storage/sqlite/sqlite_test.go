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

// inMemory is a backend whose databases live in their handles.
var inMemory = storagetest.Backend{Volatile: true, New: func(testing.TB) storagetest.Opener {
	return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, ":memory:") }
}}

func TestStorageInMemory(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, inMemory)
}

// FuzzStorage compares what is written and read with the model, on histories
// of any seed. Reads are the same code for both backends.
func FuzzStorage(f *testing.F) { storagetest.Fuzz(f, inMemory) }

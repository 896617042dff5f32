package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// migrated is the file of a vault without rows.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "vaultsqlite")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "vault.db")
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// newVault returns the path of a vault without rows. Copying its file takes a
// fraction of the time of the migrations.
func newVault(tb testing.TB) string {
	tb.Helper()
	content := must.Get(migrated())(tb)
	path := filepath.Join(tb.TempDir(), "vault.db")
	must.Do(tb, os.WriteFile(path, content, 0o600))
	return path
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		path := newVault(tb)
		return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, path) }
	}})
}

// inMemory is a backend whose databases exist only while they are open.
var inMemory = storagetest.Backend{Volatile: true, New: func(testing.TB) storagetest.Opener {
	return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, ":memory:") }
}}

// inMemoryChapters are the chapters that the short run checks in memory, where
// only the connections of a store differ.
var inMemoryChapters = []string{"Isolation", "ReadLogger", "Follow", "Expiry", "Model", "Parallel", "Context", "Close"}

func TestStorageInMemory(t *testing.T) {
	t.Parallel()
	b := inMemory
	if !long.Run {
		b.Chapters = inMemoryChapters
	}
	storagetest.Run(t, b)
}

// FuzzStorage compares writes and reads with the model, on histories from any
// seed. Both backends share the code of reads.
func FuzzStorage(f *testing.F) { storagetest.Fuzz(f, inMemory) }

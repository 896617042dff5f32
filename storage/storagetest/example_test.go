package storagetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// The body of TestStorage in the tests of a backend. Replace sqlite.Open with
// the function that opens the backend's database.
func ExampleRun() {
	var t *testing.T // of func TestStorage(t *testing.T)
	storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		path := filepath.Join(tb.TempDir(), "vault.db")
		return func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, path) }
	}})
}

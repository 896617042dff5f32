package postgres_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func backend(options *postgres.Options) storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		url := pgtest.URL(tb)
		return func(ctx context.Context) (storage.Storage, error) {
			return postgres.OpenOptions(ctx, url, options)
		}
	}}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, backend(nil))
}

func TestStorageUnprepared(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, backend(&postgres.Options{TransactionPooler: true}))
}

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

// backend opens the databases whose addresses a function makes.
func backend(address func(testing.TB) string, options *postgres.Options) storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		url := address(tb)
		return func(ctx context.Context) (storage.Storage, error) {
			return postgres.OpenOptions(ctx, url, options)
		}
	}}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, backend(pgtest.URL, nil))
}

// TestStorageElsewhere runs without prepared statements, through PgBouncer where
// that is installed, and on Citus where there is one, which then explains what it
// does: a statement that is given a tenant must be one task.
func TestStorageElsewhere(t *testing.T) {
	t.Parallel()
	backends := map[string]storagetest.Backend{
		"pooled": backend(pgtest.Pooled, &postgres.Options{TransactionPooler: true}),
	}
	if pgtest.HasCitus() {
		x := explain(t, oneTask)
		backends["Citus"] = citusBackend(x)
		t.Run("Citus, in transactions", func(t *testing.T) {
			t.Parallel()
			storagetest.RunTx(t, citusTxBackend(x))
		})
	}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, b)
		})
	}
}

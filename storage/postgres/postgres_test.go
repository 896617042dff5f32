package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite runs the tests and then drops the schemas that they have shared.
type suite struct{ *testing.M }

func (s suite) Run() int {
	postgres.UseCountLogsAfter()
	status := s.M.Run()
	if err := errors.Join(postgres.Vaults.Drop(), partitioned.Drop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// backend opens databases at the addresses that a function returns.
func backend(address func(testing.TB) string, options *postgres.Options) storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		url := address(tb)
		return func(ctx context.Context) (storage.Storage, error) {
			return postgres.OpenOptions(ctx, url, options)
		}
	}}
}

// pooled opens databases through one pooler. They share it, so the schema of a
// database is not in the search path.
func pooled(pooler string) storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		o := &postgres.Options{TransactionPooler: true, Schema: pgtest.SchemaOf(tb, postgres.Vaults.URL(tb))}
		return func(ctx context.Context) (storage.Storage, error) { return postgres.OpenOptions(ctx, pooler, o) }
	}}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, backend(postgres.Vaults.URL, nil))
}

// TestStorageWithPoolerAndCitus runs the suite without prepared statements, through
// PgBouncer if it is installed. It also runs it on Citus if available. Citus
// then explains the statements: a statement for a tenant must be one task.
func TestStorageWithPoolerAndCitus(t *testing.T) {
	t.Parallel()
	backends := map[string]storagetest.Backend{"pooled": pooled(pgtest.Pooler(t, pgtest.Server(t)))}
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

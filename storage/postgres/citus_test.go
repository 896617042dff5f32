package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// envCitus names the coordinator of a Citus cluster, as a URL of a role that may
// create schemas.
const envCitus = "VAULT_TEST_CITUS"

// onCitus returns the address of the cluster, and the options of a vault in an
// empty schema, which is dropped when the test ends.
func onCitus(tb testing.TB) (url string, o *postgres.Options) {
	tb.Helper()
	url = os.Getenv(envCitus)
	var b [8]byte
	rand.Read(b[:])
	o = &postgres.Options{Schema: "vault_test_" + hex.EncodeToString(b[:])}
	tb.Cleanup(func() {
		if _, err := database(tb, url).ExecContext(context.Background(), "DROP SCHEMA "+o.Schema+" CASCADE"); err != nil {
			tb.Errorf("dropping the schema: %v", err)
		}
	})
	return url, o
}

// fewShards is the address of a server on which tables are distributed over few
// shards, which takes less time.
func fewShards(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	query := u.Query()
	query.Set("citus.shard_count", "4")
	u.RawQuery = query.Encode()
	return u.String()
}

func citusBackend() storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		address, o := onCitus(tb)
		if err := postgres.Distribute(tb.Context(), fewShards(tb, address), o); err != nil {
			tb.Fatalf("distributing: %v", err)
		}
		return func(ctx context.Context) (storage.Storage, error) { return postgres.OpenOptions(ctx, address, o) }
	}}
}

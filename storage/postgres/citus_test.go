package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
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

// BenchmarkDistributed compares a vault on Citus, where there is one, with one on
// a PostgreSQL: creates and reads by 24 callers of 6 tenants.
func BenchmarkDistributed(b *testing.B) {
	servers := map[string]func(testing.TB) *postgres.Store{"PostgreSQL": func(tb testing.TB) *postgres.Store {
		return openStore(tb, pgtest.URL(tb), nil)
	}}
	if os.Getenv(envCitus) != "" {
		servers["Citus"] = func(tb testing.TB) *postgres.Store {
			address, o := onCitus(tb)
			if err := postgres.Distribute(tb.Context(), address, o); err != nil {
				tb.Fatal(err)
			}
			return openStore(tb, address, o)
		}
	}
	for name, open := range servers {
		s := open(b)
		var tenants []tenantOf
		for range 6 {
			c := sample(newID(), 1)
			if err := s.Write(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			tenants = append(tenants, tenantOf{c.Tenant, c.InsertTokens[0].ID})
		}
		b.Run("create/"+name, func(b *testing.B) {
			byTenants(b, tenants, func(t tenantOf) error { return s.Write(context.Background(), sample(t.id, 1)) })
		})
		b.Run("read/"+name, func(b *testing.B) {
			byTenants(b, tenants, func(t tenantOf) error {
				_, err := s.ReadToken(context.Background(), storage.Reading{Tenant: t.id, ID: t.token, Entry: storage.Log{
					ID: newID(), CreatedAt: time.Now(), ActorType: "application", Operation: "read", Message: "Token read",
				}})
				return err
			})
		})
	}
}

// tenantOf is a tenant and a token of it.
type tenantOf struct {
	id    storage.ID
	token string
}

// byTenants runs b.N calls by four callers of each tenant.
func byTenants(b *testing.B, tenants []tenantOf, call func(tenantOf) error) {
	b.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	b.ResetTimer()
	for i := range 4 * len(tenants) {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := call(tenants[i%len(tenants)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func openStore(tb testing.TB, address string, o *postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.OpenOptions(tb.Context(), address, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

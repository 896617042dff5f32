package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestLeaseRespectsLimit leases jobs from tables of several sizes. The server has no
// statistics for them and may plan each differently.
func TestLeaseRespectsLimit(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ tenants, jobs int }{{1, 10}, {3, 300}, {40, 10}, {200, 10}} {
		t.Run(fmt.Sprintf("%dx%d", size.tenants, size.jobs), func(t *testing.T) {
			t.Parallel()
			s := openAt(t, pgtest.URL(t), nil)
			now := time.Now()
			var tenant storage.ID
			for range size.tenants {
				tenant = newID()
				c := &storage.Change{Tenant: tenant}
				for range size.jobs {
					c.InsertJobs = append(c.InsertJobs, storage.Job{ID: newID(), Kind: "react", RunAt: now})
				}
				must.Do(t, s.Write(t.Context(), c))
			}
			lease := storage.Lease{Tenant: tenant, Owner: tenant, Now: now, Until: now.Add(time.Minute), Limit: 2}
			must.Same(t, "jobs were leased", lease.Limit, len(must.Get(s.LeaseJobs(t.Context(), lease))(t)))
		})
	}
}

package postgres_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// newID returns an id in order of creation.
func newID() storage.ID { return storage.ID(uuid.Must(uuid.NewV7())) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// sample returns a change that creates n tokens of 400 sealed bytes, each with
// two hashes and a log entry.
func sample(tenant storage.ID, n int) *storage.Change {
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := &storage.Change{Tenant: tenant, Now: now}
	for range n {
		t := storage.Token{
			Ord: newID(), Type: "token", Set: storage.Hash{1}, Containers: []string{"/general/high/"},
			Fingerprint: storage.Key(randomBytes(32)), Expression: storage.Hash{2},
			Hashes:     []storage.Hash{storage.Hash(randomBytes(16)), storage.Hash(randomBytes(16))},
			KeyVersion: 1, Body: randomBytes(400), CreatedBy: tenant, CreatedAt: now, Rev: 1,
		}
		t.ID = uuid.UUID(t.Ord).String()
		c.InsertTokens = append(c.InsertTokens, t)
		c.Logs = append(c.Logs, storage.Log{
			ID: newID(), ActorID: tenant, ActorType: "application", EntityType: "token", EntityID: t.ID,
			Operation: "create", Message: "Token created", CreatedAt: now,
		})
	}
	return c
}

// callers runs b.N calls in n goroutines.
func callers(b *testing.B, n int, call func() error) {
	b.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkWrite measures a create, a create with an idempotency claim, and the
// log entry of a read, with several concurrent callers.
func BenchmarkWrite(b *testing.B) {
	forms := map[string]func(*storage.Change){
		"create": func(*storage.Change) {},
		"once": func(c *storage.Change) {
			c.Claim = takeClaim(c.Tenant, storage.Key(randomBytes(32)), c)
		},
		"read": func(c *storage.Change) { c.InsertTokens, c.Relaxed = nil, true },
	}
	for name, form := range forms {
		for _, n := range []int{1, 8, 32, 128} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s := openAt(b, pgtest.URL(b), nil)
				tenant := newID()
				callers(b, n, func() error {
					c := sample(tenant, 1)
					form(c)
					return s.Write(b.Context(), c)
				})
			})
		}
	}
}

// BenchmarkJobs leases and finishes jobs in batches of a hundred.
func BenchmarkJobs(b *testing.B) {
	const batch = 100
	s := openAt(b, pgtest.URL(b), nil)
	tenant := newID()
	now := time.Now()
	for range b.N {
		b.StopTimer()
		c := &storage.Change{Tenant: tenant}
		for range batch {
			c.InsertJobs = append(c.InsertJobs, storage.Job{ID: newID(), Kind: "react", RunAt: now, Payload: randomBytes(200)})
		}
		if err := s.Write(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		lease := storage.Lease{Tenant: tenant, Owner: tenant, Now: now, Until: now.Add(time.Minute), Limit: batch}
		jobs, err := s.LeaseJobs(b.Context(), lease)
		if err != nil || len(jobs) != batch {
			b.Fatalf("%d jobs, %v", len(jobs), err)
		}
		done := &storage.Change{Tenant: tenant}
		for _, j := range jobs {
			done.DeleteJobs = append(done.DeleteJobs, storage.JobDelete{Owner: tenant, ID: j.ID})
		}
		if err := s.Write(b.Context(), done); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "us/job")
}

package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// jobBatch is the number of jobs that are leased and completed at a time.
const jobBatch = 100

// BenchmarkJobs leases and completes jobs in batches.
func BenchmarkJobs(b *testing.B) {
	const jobs = 20 * jobBatch
	each(b, func(b *testing.B, on *backend) {
		store := on.openStore(b, on.create(b))
		tenant := storage.ID(uuid.New())
		var times []float64
		for round := range rounds + 1 {
			if err := enqueue(b.Context(), store, tenant, jobs); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			for range jobs / jobBatch {
				if err := completeJobs(b.Context(), store, tenant); err != nil {
					b.Fatal(err)
				}
			}
			if round > 0 {
				times = append(times, float64(time.Since(start).Microseconds())/jobs)
			}
		}
		report(b, figure{what: "job claim and completion", metric: "us/job", backend: on.name, callers: "1",
			value: median(times), unit: "us/job", goal: 60, atMost: true})
	})
}

func enqueue(ctx context.Context, store storage.Storage, tenant storage.ID, jobs int) error {
	now := time.Now()
	c := &storage.Change{Tenant: tenant, Now: now}
	for i := range jobs {
		payload := make([]byte, 400)
		for j := range payload {
			payload[j] = byte(rand.Uint32())
		}
		c.InsertJobs = append(c.InsertJobs, storage.Job{
			ID: storage.ID(uuid.Must(uuid.NewV7())), Kind: "react", KeyVersion: 1, Payload: payload,
			RunAt: now.Add(time.Duration(i-jobs) * time.Millisecond),
		})
	}
	return store.Write(ctx, c)
}

func completeJobs(ctx context.Context, store storage.Storage, tenant storage.ID) error {
	now, owner := time.Now(), storage.ID(uuid.New())
	jobs, err := store.LeaseJobs(ctx, storage.Lease{
		Tenant: tenant, Owner: owner, Now: now, Until: now.Add(time.Minute), Limit: jobBatch,
	})
	if err != nil {
		return err
	}
	if len(jobs) < jobBatch {
		return errors.New("bench: too few jobs are due")
	}
	c := &storage.Change{Tenant: tenant, Now: now}
	for i := range jobs {
		c.DeleteJobs = append(c.DeleteJobs, storage.JobDelete{Owner: owner, ID: jobs[i].ID})
	}
	return store.Write(ctx, c)
}

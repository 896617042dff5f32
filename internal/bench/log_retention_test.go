package bench

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// BenchmarkDeleteLogs deletes 100,000 entries, half of a log, 200 at a time, as
// a sweep does. Each entry is about a different entity. The duration of the
// longest piece is the time that another write may have to wait on SQLite.
func BenchmarkDeleteLogs(b *testing.B) {
	const old, piece = 100_000, 200
	each(b, func(b *testing.B, on *backend) {
		store := on.openStore(b, on.create(b))
		tenant := storage.ID(uuid.New())
		var longest, all time.Duration
		for range b.N {
			before := writeMonth(b, store, tenant, old)
			began := time.Now()
			for deleted := 0; deleted < old; {
				start := time.Now()
				n, err := store.DeleteLogs(b.Context(), tenant, before, piece)
				if err != nil || n == 0 {
					b.Fatalf("%d entries were deleted after %d, %v", n, deleted, err)
				}
				deleted += n
				longest = max(longest, time.Since(start))
			}
			all += time.Since(began)
		}
		b.ReportMetric(all.Seconds()/float64(b.N), "s/100k")
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
	})
}

// writeMonth writes old entries that start a month ago, and as many of today.
// It returns a time between the two.
func writeMonth(b *testing.B, store storage.Storage, tenant storage.ID, old int) time.Time {
	b.Helper()
	const batch = 1000
	now := time.Now()
	before, start := now.AddDate(0, 0, -1), now.AddDate(0, 0, -31)
	for i := 0; i < 2*old; i += batch {
		c := &storage.Change{Tenant: tenant}
		for j := range batch {
			at := start.Add(before.Sub(start) / time.Duration(old) * time.Duration(i+j))
			if i >= old {
				at = now
			}
			c.Logs = append(c.Logs, storage.Log{
				ID: idOf(at), ActorID: tenant, ActorType: "application", EntityType: "card", EntityID: uuid.NewString(),
				Operation: "read", Message: "Token read", CreatedAt: at,
			})
		}
		if err := store.Write(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	return before
}

// idOf returns a UUIDv7 for a time.
func idOf(at time.Time) storage.ID {
	id := storage.ID(uuid.Must(uuid.NewV7()))
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (40 - 8*i))
	}
	return id
}

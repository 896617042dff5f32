package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// newID returns an id in the order of creation.
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

// callers runs b.N calls spread over some goroutines.
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

func open(tb testing.TB) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(context.Background(), pgtest.URL(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func BenchmarkCreate(b *testing.B) {
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b)
			tenant := newID()
			callers(b, n, func() error { return s.Write(b.Context(), sample(tenant, 1)) })
		})
	}
}

func BenchmarkCreateOnce(b *testing.B) {
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b)
			tenant := newID()
			callers(b, n, func() error {
				c := sample(tenant, 1)
				c.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{
					Key: storage.Key(randomBytes(32)), Owner: tenant, ExpiresAt: c.Now.Add(24 * time.Hour),
					KeyVersion: 1, Answer: randomBytes(500),
				}}
				return s.Write(b.Context(), c)
			})
		})
	}
}

func BenchmarkReadLog(b *testing.B) {
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b)
			tenant := newID()
			callers(b, n, func() error {
				c := sample(tenant, 1)
				c.InsertTokens, c.Relaxed = nil, true
				return s.Write(b.Context(), c)
			})
		})
	}
}

func BenchmarkTokens(b *testing.B) {
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b)
			tenant := newID()
			c := sample(tenant, 1)
			if err := s.Write(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			callers(b, n, func() error {
				_, err := s.Tokens(b.Context(), tenant, []string{c.InsertTokens[0].ID})
				return err
			})
		})
	}
}

func BenchmarkCreate1000(b *testing.B) {
	s := open(b)
	tenant := newID()
	callers(b, 1, func() error { return s.Write(b.Context(), sample(tenant, 1000)) })
}

func BenchmarkJobs(b *testing.B) {
	s := open(b)
	tenant := newID()
	now := time.Now()
	const batch = 100
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		c := &storage.Change{Tenant: tenant}
		for range batch {
			c.InsertJobs = append(c.InsertJobs, storage.Job{ID: newID(), Kind: "react", RunAt: now, KeyVersion: 1, Payload: randomBytes(200)})
		}
		if err := s.Write(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		jobs, err := s.LeaseJobs(b.Context(), storage.Lease{Tenant: tenant, Owner: tenant, Now: now, Until: now.Add(time.Minute), Limit: batch})
		if err != nil || len(jobs) != batch {
			b.Fatal(len(jobs), err)
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

const bareCreate = `WITH t AS (
	INSERT INTO tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_by, created_at, rev)
	VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)),
h AS (INSERT INTO token_hashes (tenant_id, hash, ord) VALUES ($1,$15,$2), ($1,$16,$2)),
n AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n) VALUES ($1, $5, $4, $25, 1) ON CONFLICT (tenant_id, set_id, type, shard) DO UPDATE SET n = token_counts.n + 1)
INSERT INTO logs (tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id, operation, message)
VALUES ($1,$17,$18,$19,$20,$21,$22,$23,$24)`

// BenchmarkBareCreate writes the rows of BenchmarkCreate with one prepared
// statement for each caller, on as many connections as the store writes with.
func BenchmarkBareCreate(b *testing.B) {
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			url := pgtest.URL(b)
			s, err := postgres.Open(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
			config, _ := pq.NewConfig(url)
			config.BinaryParameters = true
			connector, _ := pq.NewConnectorConfig(config)
			db := sql.OpenDB(connector)
			defer db.Close()
			db.SetMaxOpenConns(8)
			db.SetMaxIdleConns(8)
			stmt, err := db.Prepare(bareCreate)
			if err != nil {
				b.Fatal(err)
			}
			defer stmt.Close()
			tenant := newID()
			var shard atomic.Int64
			callers(b, n, func() error {
				c := sample(tenant, 1)
				t, l := &c.InsertTokens[0], &c.Logs[0]
				_, err := stmt.Exec(tenant[:], t.Ord[:], t.ID, t.Type, t.Set[:], t.Containers[0], t.Fingerprint[:], t.Expression[:],
					append(t.Hashes[0][:], t.Hashes[1][:]...), t.KeyVersion, t.Body, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Rev,
					t.Hashes[0][:], t.Hashes[1][:], l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType, l.EntityType,
					l.EntityID, l.Operation, l.Message, shard.Add(1)%64)
				return err
			})
		})
	}
}

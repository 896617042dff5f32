package postgres_test

import (
	"crypto/rand"
	"time"

	"github.com/google/uuid"

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

package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// benchmarkToken returns a token with the size and randomness of the vault's
// tokens.
func benchmarkToken() storage.Token {
	t := storage.Token{
		Ord: storage.ID(uuid.Must(uuid.NewV7())), ID: uuid.NewString(), Type: "card",
		Set: storage.Hash{1}, Containers: []string{"/pci/high/"}, KeyVersion: 1, Body: make([]byte, 400),
		Hashes: []storage.Hash{storage.Hash(uuid.New()), storage.Hash(uuid.New())}, CreatedAt: time.Now(),
	}
	random := uuid.New()
	copy(t.Fingerprint[:], random[:])
	return t
}

func benchmarkLog(entity string) []storage.Log {
	return []storage.Log{{
		ID: storage.ID(uuid.Must(uuid.NewV7())), EntityType: "card", EntityID: entity,
		Operation: "read", Message: "Token read", CreatedAt: time.Now(),
	}}
}

func benchmarkStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "vault.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// parallel runs a benchmark with several numbers of callers per processor.
func parallel(b *testing.B, run func(b *testing.B)) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%dxP", callers), func(b *testing.B) {
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					run(b)
				}
			})
		})
	}
}

func BenchmarkWriteToken(b *testing.B) {
	s := benchmarkStore(b)
	parallel(b, func(b *testing.B) {
		t := benchmarkToken()
		if err := s.Write(b.Context(), &storage.Change{Tenant: tenant, InsertTokens: []storage.Token{t}, Logs: benchmarkLog(t.ID)}); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkReadToken(b *testing.B) {
	s := benchmarkStore(b)
	t := benchmarkToken()
	if err := s.Write(b.Context(), insert(t)); err != nil {
		b.Fatal(err)
	}
	for name, logged := range map[string]bool{"plain": false, "logged": true} {
		b.Run(name, func(b *testing.B) {
			parallel(b, func(b *testing.B) {
				if _, err := s.Tokens(b.Context(), tenant, []string{t.ID}); err != nil {
					b.Error(err)
				}
				if !logged {
					return
				}
				if err := s.Write(b.Context(), &storage.Change{Tenant: tenant, Relaxed: true, Logs: benchmarkLog(t.ID)}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

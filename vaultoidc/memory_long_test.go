//go:build long

package vaultoidc

import (
	"runtime"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestManyJWTs shows a vault 40,000 different JWTs, and each with a wrong signature too.
// It remembers at most 10,000 of them, so the heap does not grow any more after these.
func TestManyJWTs(t *testing.T) {
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop"}).ID.String()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	last := 0
	show := func() {
		for range 10_000 {
			last++
			jwt := signed(t, jose.EdDSA, edKey(), map[string]any{"kid": "ed"}, s.p.claims(map[string]any{"jti": last}))
			must.Get(s.Authenticate(t.Context(), app+":"+jwt))(t)
			must.Match(t, "a wrong signature", must.Err(s.Authenticate(t.Context(), app+":"+jwt[:len(jwt)-8]+"AAAAAAAA")), vault.ErrUnauthenticated)
		}
	}
	none := heap()
	show()
	first := heap()
	for range 3 {
		show()
	}
	most := heap()
	t.Logf("the heap has %d kB before the first JWT, %d kB after 10,000, and %d kB after 40,000", none>>10, first>>10, most>>10)
	if most > first+2<<20 {
		t.Error("the heap grows with each JWT")
	}
}

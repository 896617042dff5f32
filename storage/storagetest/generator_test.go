package storagetest

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestGeneratedHistoriesAreMeaningful checks that random histories are both accepted
// and rejected, and that random queries find neither nothing nor everything.
// Otherwise agreement with the model would mean little.
func TestGeneratedHistoriesAreMeaningful(t *testing.T) {
	t.Parallel()
	var accepted, refused, telling, trivial int
	for seed := range uint64(20) {
		m := &dbTest{T: t, source: &source{}, store: model.New().Open()}
		g := newGenerator(seed, m)
		tenant := g.tenants[0]
		for range 40 {
			if m.store.Write(t.Context(), g.change(tenant)) != nil {
				refused++
				continue
			}
			accepted++
		}
		all := len(g.tokens(tenant))
		for range 40 {
			if total := m.count(storage.TokenFilter{Tenant: tenant, Where: g.cond(4)}); total == 0 || total == all {
				trivial++
			} else {
				telling++
			}
		}
	}
	if accepted < 400 || refused < 80 {
		t.Errorf("%d changes were accepted and %d refused, want at least 400 and 80 of 800", accepted, refused)
	}
	if telling < 300 {
		t.Errorf("%d conditions matched some tokens and %d matched all or none, want at least 300 of the first", telling, trivial)
	}
}

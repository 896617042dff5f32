package storagetest

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest/internal/model"
)

// TestGeneratedHistoriesAreMeaningful checks that random histories are both accepted
// and rejected, and that random queries find neither nothing nor everything.
// Otherwise agreement with the model would mean little.
func TestGeneratedHistoriesAreMeaningful(t *testing.T) {
	t.Parallel()
	var accepted, refused, telling, trivial int
	for seed := range uint64(20) {
		m := model.New().Open()
		g := newGenerator(seed)
		tenant := g.actors[0]
		for range 40 {
			c := g.change(tenant)
			if m.Write(context.Background(), c) != nil {
				refused++
				continue
			}
			accepted++
			g.written(c)
		}
		for range 40 {
			f := storage.TokenFilter{Tenant: tenant, Where: g.cond(4), Limit: 1, Count: true}
			_, total, err := m.ListTokens(context.Background(), f)
			if err != nil {
				t.Fatal(err)
			}
			if total == 0 || total == len(g.tokens[tenant]) {
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

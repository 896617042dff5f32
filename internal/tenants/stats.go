package tenants

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Stats counts the stored data and the jobs of a tenant.
type Stats struct {
	storage.Counts
	All         int // number of tokens
	ByType      map[string]int
	ByContainer map[string]int
}

// Count returns the figures of the operation's tenant. It reads the keys
// again.
func Count(ctx context.Context, op *core.Op) (*Stats, error) {
	counts, err := op.Vault.Store.Count(ctx, storage.CountFilter{Tenant: op.TenantID(), Now: op.Now, Kind: audit.Session, UpTo: tokens.MaxTotal})
	if err != nil {
		return nil, err
	}
	if !op.State.Doc.Sealed {
		if err := op.Reload(ctx); err != nil {
			return nil, err
		}
	}
	sets, err := op.DB().ContainerSets(ctx, op.TenantID())
	if err != nil {
		return nil, err
	}
	containers := make(map[storage.Hash][]string, len(sets))
	for _, set := range sets {
		containers[set.Set] = set.Containers
	}
	s := &Stats{Counts: counts, ByType: map[string]int{}, ByContainer: map[string]int{}}
	for _, c := range counts.Tokens {
		s.All += c.N
		s.ByType[c.Type] += c.N
		for _, container := range containers[c.Set] {
			s.ByContainer[container] += c.N
		}
	}
	return s, nil
}

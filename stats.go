package vault

import (
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Stats says how much a tenant has stored, and what is going on.
type Stats struct {
	Tokens int `json:"tokens"`
	// TokensByType has the types that there are tokens of.
	TokensByType map[TokenType]int `json:"tokens_by_type"`
	// TokensByContainer has the containers that there are tokens in. A token in
	// two containers counts in both, but not in the containers above them.
	TokensByContainer map[string]int `json:"tokens_by_container"`
	Jobs              JobStats       `json:"jobs"`
	LogEntries        int            `json:"log_entries"`
	// Sessions is how many sessions have not expired, up to 10,000.
	Sessions int `json:"sessions"`
	// Keys are the tenant's data keys, oldest first, destroyed ones included.
	Keys []DataKeyStats `json:"keys"`
	// RotatedAt is when the key that seals was made, if a rotation made it; else
	// it is zero.
	RotatedAt time.Time `json:"rotated_at,omitzero"`
}

// JobStats counts asynchronous runs, 10,000 of them at most.
type JobStats struct {
	Waiting int `json:"waiting"` // for their time, or for a worker
	Running int `json:"running"` // or leased by a node that has died
	Dead    int `json:"dead"`    // given up; counted for 30 days
}

// DataKeyStats is a data key, without the key.
type DataKeyStats struct {
	Version int      `json:"version"`
	State   DataKeyState `json:"state"`
	// CreatedAt is zero for a key that an earlier version of this package made.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// DataKeyState is where a data key is in its life: see [Vault.RotateDataKeys].
type DataKeyState string

// The states of a data key. It is pending until every node knows it, primary while
// it seals, retired while it only opens what it sealed, and then destroyed.
const (
	DataKeyPending   DataKeyState = "pending"
	DataKeyPrimary   DataKeyState = "primary"
	DataKeyRetired   DataKeyState = "retired"
	DataKeyDestroyed DataKeyState = "destroyed"
)

// Stats returns figures about the tenant. They come from counters, so they cost
// the same however much is stored. Only the tenant itself may ask for them: see
// [Vault.Tenant].
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	return run(ctx, c, &verbStats, func(ctx context.Context, op *operation) (*Stats, error) {
		counts, err := op.Vault.Store.Count(ctx, storage.CountFilter{Tenant: op.TenantID(), Now: op.Now, Kind: kindSession, UpTo: tokens.MaxTotal})
		if err != nil {
			return nil, err
		}
		if err := op.Reload(ctx); err != nil {
			return nil, err
		}
		s := &Stats{LogEntries: counts.Logs, Sessions: counts.Records, Jobs: JobStats{counts.Waiting, counts.Running, counts.Dead}}
		s.addKeys(op.State.Ring)
		return s, op.addTokens(ctx, s, counts.Tokens)
	})
}

// addKeys lists the keys of a ring.
func (s *Stats) addKeys(ring *seal.Ring) {
	for _, k := range ring.Keys() {
		s.Keys = append(s.Keys, DataKeyStats{k.Version, DataKeyState(k.State), k.Created})
		if k.State == seal.Primary && k.Version > 1 {
			s.RotatedAt = k.Created
		}
	}
}

// addTokens sums up the numbers of tokens, which are by set of containers and type.
func (op *operation) addTokens(ctx context.Context, s *Stats, counts []storage.TokenCount) error {
	sets, err := op.DB().ContainerSets(ctx, op.TenantID())
	if err != nil {
		return err
	}
	containers := make(map[storage.Hash][]string, len(sets))
	for _, set := range sets {
		containers[set.Set] = set.Containers
	}
	s.TokensByType, s.TokensByContainer = map[TokenType]int{}, map[string]int{}
	for _, c := range counts {
		s.Tokens += c.N
		s.TokensByType[TokenType(c.Type)] += c.N
		for _, container := range containers[c.Set] {
			s.TokensByContainer[container] += c.N
		}
	}
	return nil
}

package vault

import (
	"context"
	"errors"
	"time"
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
	Keys []KeyStats `json:"keys"`
	// RotatedAt is when the key that seals was made, if a rotation made it; else
	// it is zero.
	RotatedAt time.Time `json:"rotated_at,omitzero"`
}

// JobStats counts asynchronous runs, each number up to 10,000.
type JobStats struct {
	Waiting int `json:"waiting"` // for their time, or for a worker
	Running int `json:"running"` // or leased by a node that has died
	Dead    int `json:"dead"`    // given up; counted for 30 days
}

// KeyStats is a data key, without the key.
type KeyStats struct {
	Version int      `json:"version"`
	State   KeyState `json:"state"`
	// CreatedAt is zero for a key that an earlier version of this package made.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// KeyState is where a data key is in its life: see [Vault.RotateKeys].
type KeyState string

// The states of a data key. It is pending until every node knows it, primary while
// it seals, retired while it only opens what it sealed, and then destroyed.
const (
	KeyPending   KeyState = "pending"
	KeyPrimary   KeyState = "primary"
	KeyRetired   KeyState = "retired"
	KeyDestroyed KeyState = "destroyed"
)

// Stats returns figures about the tenant. They come from counters, so they cost
// the same however much is stored. Only the tenant itself may ask for them: see
// [Vault.Tenant].
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	return nil, errors.New("vault: Stats is not there yet")
}

package rotation

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// SetKey puts a tenant's own key around its ring, inside the master key, and rotates
// the data key. Nil removes the tenant's own key. The next call with the same URI
// continues after an interruption.
//
// One write changes the wrapping of the ring and adds the new data key. So no ring of
// an earlier backup has this data key, and the tenant opens at any time with the
// wrapping that is stored.
func SetKey(ctx context.Context, v *core.Vault, tenant uuid.UUID, own *seal.OwnKey) error {
	message, uri := "Key removed", ""
	if own != nil {
		message, uri = "Key set", own.URI
		if err := keyring.Try(ctx, own); err != nil {
			return fmt.Errorf("vault: the key of the tenant: %w", err)
		}
	}
	for {
		r := &rotation{v: v, tenant: tenant}
		set, unfinished := false, false
		err := r.enter(ctx, audit.Key, func(ring *seal.Ring) (string, *seal.Ring, error) {
			_, newest := ring.Newest()
			set, unfinished = ring.URI() == uri, newest == seal.Pending || ring.Retired()
			if set || unfinished {
				return "", nil, nil
			}
			next, err := ring.WithOwn(own)
			if err != nil {
				return "", nil, err
			}
			next, err = next.Add(v.Now())
			return message, next, err
		})
		if err != nil || set && !unfinished {
			return err
		}
		// If an earlier rotation was unfinished, its keys may be in an earlier backup, so
		// it ends before the key is set.
		if err := Rotate(ctx, v, tenant, Options{}); err != nil {
			return err
		}
		if set || !unfinished {
			return nil
		}
	}
}

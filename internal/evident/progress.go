package evident

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/storage"
)

// progress stores the progress of verification in a record, sealed with the
// vault's own keys. A record that does not open counts as none, so verification
// starts again.
type progress struct {
	k   *Keeper
	rev *int64 // as it was read or written last; nil if there is none
}

// document returns the record with the progress of verification.
func (p *progress) document() *keyring.Document {
	return &keyring.Document{Kind: "verification", Field: "progress", Store: p.k.vault.Store, Ring: p.k.ring}
}

// Load implements [ledger.Progress].
func (p *progress) Load(ctx context.Context) (c ledger.Cursor, err error) {
	var plain []byte
	plain, p.rev, err = p.document().Read(ctx)
	if p.rev == nil {
		return c, err
	}
	if err != nil || json.Unmarshal(plain, &c) != nil {
		return ledger.Cursor{}, nil //nolint:nilerr // see above
	}
	return c, nil
}

// Save implements [ledger.Progress].
func (p *progress) Save(ctx context.Context, c ledger.Cursor) (bool, error) {
	plain, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	err = p.document().Write(ctx, plain, p.rev, p.k.vault.Now())
	switch {
	case errors.Is(err, storage.ErrStale), errors.Is(err, storage.ErrExists):
		return false, nil
	case err != nil:
		return false, err
	case p.rev == nil:
		p.rev = new(int64)
	default:
		*p.rev++
	}
	return true, nil
}

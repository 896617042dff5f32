package evident

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// kindVerification is the kind of the record with the progress of verification.
const kindVerification = "verification"

var progressPlace = seal.Place{Entity: kindVerification, Field: "progress"}

// progress stores the progress of verification in a record, sealed with the
// vault's own keys. A record that does not open counts as none, so verification
// starts again.
type progress struct {
	k   *Keeper
	rec *storage.Record // as it was read or written last; nil if there is none
}

// Load implements [ledger.Progress].
func (p *progress) Load(ctx context.Context) (c ledger.Cursor, err error) {
	recs, err := p.k.vault.Store.Records(ctx, storage.ID{}, kindVerification, []storage.ID{{}})
	if p.rec = nil; err != nil || len(recs) == 0 {
		return c, err
	}
	p.rec = &recs[0]
	place := progressPlace
	plain, err := p.k.ring.Open(&place, p.rec.KeyVersion, p.rec.Body)
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
	place, now := progressPlace, p.k.vault.Now()
	body, err := p.k.ring.Seal(&place, plain)
	if err != nil {
		return false, err
	}
	rec := storage.Record{Kind: kindVerification, KeyVersion: p.k.ring.Version(), Body: body, CreatedAt: now}
	ch := &storage.Change{Now: now}
	if p.rec == nil {
		ch.InsertRecords = []storage.Record{rec}
	} else {
		rec.Rev = p.rec.Rev + 1
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: p.rec.Rev, Record: rec}}
	}
	err = p.k.vault.Store.Write(ctx, ch)
	if errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrExists) {
		return false, nil
	}
	if err == nil {
		p.rec = &rec
	}
	return err == nil, err
}

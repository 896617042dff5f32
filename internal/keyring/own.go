package keyring

import (
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Document is a document of the vault itself, such as a signing key. It is a record
// that the vault's own keys seal.
type Document struct {
	Kind, Field string
	Store       storage.Storage
	Ring        *seal.Ring // as Own returns it
}

// Read returns the document with its revision. Both are nil if none is stored. The
// revision is there even if the document does not open.
func (d *Document) Read(ctx context.Context) (plain []byte, rev *int64, err error) {
	recs, err := d.Store.Records(ctx, storage.ID{}, d.Kind, []storage.ID{{}})
	if err != nil || len(recs) == 0 {
		return nil, nil, err
	}
	plain, err = d.Ring.Open(d.location(), recs[0].KeyVersion, recs[0].Body)
	return plain, &recs[0].Rev, err
}

// Write stores the document in place of a revision. It fails with storage.ErrExists
// or storage.ErrStale if another node was faster.
func (d *Document) Write(ctx context.Context, plain []byte, rev *int64, now time.Time) error {
	body, err := d.Ring.Seal(d.location(), plain)
	if err != nil {
		return err
	}
	rec := storage.Record{Kind: d.Kind, KeyVersion: d.Ring.Version(), Body: body, CreatedAt: now}
	ch := &storage.Change{Now: now, InsertRecords: []storage.Record{rec}}
	if rev != nil {
		ch = &storage.Change{Now: now, UpdateRecords: []storage.RecordUpdate{{Rev: *rev, Record: rec}}}
	}
	return d.Store.Write(ctx, ch)
}

func (d *Document) location() *seal.Location { return &seal.Location{Entity: d.Kind, Field: d.Field} }

package tenants

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// kindFormerName is the kind of the records of names that tenants gave up, because
// they were renamed or deleted. The records belong to no tenant. They hold keyed
// hashes, not names.
var kindFormerName = seal.RecordKind("former_name")

// formerName returns the record of a name that a tenant gave up.
func formerName(ctx context.Context, v *core.Vault, name string, tenant uuid.UUID) (storage.Record, error) {
	ring, err := keyring.Own(ctx, v.Store, v.Root)
	if err != nil {
		return storage.Record{}, err
	}
	of := ring.Hash(kindFormerName, name)
	return storage.Record{
		Kind: kindFormerName, ID: ring.Hash(kindFormerName, name, tenant.String()), Name: hex.EncodeToString(of[:]), CreatedAt: v.Now(),
	}, nil
}

// giveUp remembers that a tenant had a name.
func giveUp(ctx context.Context, op *core.Op, name string) error {
	rec, err := formerName(ctx, op.Vault, name, op.Tenant())
	if err != nil {
		return err
	}
	known, err := op.DB().Records(ctx, storage.ID{}, kindFormerName, []storage.ID{rec.ID})
	if err != nil || len(known) > 0 {
		return err
	}
	err = op.Apply(ctx, &storage.Change{Now: op.Now, InsertRecords: []storage.Record{rec}})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// GiveUpNames remembers the names of a tenant that is about to be deleted. It does
// not need the keys of the tenant.
func GiveUpNames(ctx context.Context, v *core.Vault, tenant uuid.UUID) error {
	op := v.System(storage.ID(tenant))
	recs, err := v.Store.Records(ctx, storage.ID(tenant), keyring.KindTenant, []storage.ID{storage.ID(tenant)})
	if err != nil || len(recs) == 0 {
		return err
	}
	return giveUp(ctx, op, recs[0].Name)
}

// HadAnother reports whether a tenant other than the given one gave up a name.
func HadAnother(ctx context.Context, v *core.Vault, name string, tenant uuid.UUID) (bool, error) {
	rec, err := formerName(ctx, v, name, tenant)
	if err != nil {
		return false, err
	}
	recs, _, err := v.Store.ListRecords(ctx, storage.RecordFilter{Kind: kindFormerName, Name: rec.Name, Limit: 2})
	return len(recs) > 1 || len(recs) == 1 && recs[0].ID != rec.ID, err
}

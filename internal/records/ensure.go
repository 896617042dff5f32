package records

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// NameKey returns a key that is unique in the database, so that two programs
// cannot create the same entity at the same time. Applications, reactors and
// proxies have one only if Ensure created them. They lose it when they are
// renamed.
func NameKey(tenant uuid.UUID, kind, name string) storage.Key {
	return sha256.Sum256([]byte("name\x00" + kind + "\x00" + tenant.String() + "\x00" + name))
}

// CheckName rejects an invalid name.
func CheckName(name string) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", name)
	return fault.Of(bad)
}

// Ensure returns the entity with a name, and reports whether it has created it,
// which needs the given permission. If another node was faster, it returns the
// entity of that node.
func (k *Kind[T]) Ensure(ctx context.Context, op *core.Op, name, permission string, build func() (*T, error)) (item *T, created bool, err error) {
	if err := CheckName(name); err != nil {
		return nil, false, err
	}
	for range core.MaxAttempts {
		rec, err := k.named(ctx, op, name)
		if err != nil {
			return nil, false, err
		}
		if rec != nil {
			item, err = k.show(ctx, op, rec)
			return item, false, err
		}
		if err := op.Require(permission); err != nil {
			return nil, false, err
		}
		item, err := build()
		if err != nil {
			return nil, false, err
		}
		item, err = k.create(ctx, op, item, NameKey(op.Tenant(), k.Name, name))
		if !errors.Is(err, storage.ErrExists) {
			return item, err == nil, err
		}
	}
	return nil, false, fault.ErrFaster
}

// named returns the record with exactly this name, or nil. Of several records
// it returns the oldest, so that every node finds the same record.
func (k *Kind[T]) named(ctx context.Context, op *core.Op, name string) (*storage.Record, error) {
	rec, err := core.Lookup(ctx, op.DB(), NameKey(op.Tenant(), k.Name, name))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return k.oldest(ctx, op, name)
	case err == nil && (rec.Tenant != op.TenantID() || rec.Kind != k.Name || rec.Name != name):
		err = fault.ErrAltered
	}
	if err != nil {
		return nil, fault.Wrap(err, "find the %s of a name", k.Name)
	}
	return &rec, nil
}

// oldest finds the oldest record with a name in the list of all records.
func (k *Kind[T]) oldest(ctx context.Context, op *core.Op, name string) (*storage.Record, error) {
	var oldest *storage.Record
	filter := storage.RecordFilter{Tenant: op.TenantID(), Kind: k.Name, Name: name, Limit: form.MaxPageSize}
	for rec, err := range storage.AllRecords(ctx, op.DB(), filter) {
		if err != nil {
			return nil, err
		}
		if rec.Name == name { // the filter ignores case and treats * as a wildcard
			oldest = rec
		}
	}
	return oldest, nil
}

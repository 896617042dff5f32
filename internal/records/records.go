// Package records stores entities as records: sealed documents with a few
// columns for lookups. Applications, reactors and proxies are records.
//
// A [Kind] describes how an entity becomes a record, and reads and writes it. A
// [Collection] adds the calls of the API on top: create, ensure, replace and merge patch, with the
// strict forms of their input. The package of an entity sets the functions in the fields
// of both.
//
// It promises that a change is based on the row that was read: a write that finds
// another revision reads again. It rests on package core for sealing, log entries and
// the revisions that a node has seen, and on package form for the input.
//
// Begin with [Kind], then [Kind.UpdateAs], which changes of an entity pass.
package records

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// Kind is a kind of entity that is stored as a record. T is its type.
type Kind[T any] struct {
	// Name is the kind of the records, and the entity type in log entries.
	Name string
	// Columns returns the record of an entity, without its document.
	Columns func(*T) storage.Record
	// Document returns the part of an entity that is sealed.
	Document func(*T) any
	// Opened sets the fields of an entity that come from columns. It may be
	// nil.
	Opened func(*T, *storage.Record)
	// Unreadable returns what a list shows for a record that cannot be
	// opened.
	Unreadable func(*storage.Record) T
	// Modified sets who last changed an entity, and when.
	Modified func(item *T, by uuid.UUID, at time.Time)
	// Application returns the application that an entity refers to, or zero,
	// and a function that removes the reference. It may be nil.
	Application func(*T) (id uuid.UUID, remove func())
	// May refuses a change or a deletion of an entity. It may be nil.
	May func(*core.Op, *T) error
	// Changed is called after a change or a deletion. It may be nil.
	Changed func(*core.Op)
	// Beside adds to a change the other records of an entity that the change adds or
	// deletes. Old is nil for a new entity, and item is nil for a deleted one. It may be nil.
	Beside func(ctx context.Context, op *core.Op, ch *storage.Change, old, item *T) error
}

// Open returns the entity of a record.
func (k *Kind[T]) Open(ctx context.Context, op *core.Op, rec *storage.Record) (*T, error) {
	item := new(T)
	if err := op.OpenRecord(ctx, rec, item); err != nil {
		return nil, err
	}
	if k.Opened != nil {
		k.Opened(item, rec)
	}
	return item, nil
}

// Read returns an entity for internal use, without a log entry.
func (k *Kind[T]) Read(ctx context.Context, op *core.Op, id uuid.UUID) (*T, error) {
	rec, err := op.Record(ctx, k.Name, id)
	if err != nil {
		return nil, err
	}
	return k.Open(ctx, op, rec)
}

// Get returns an entity to a caller, and logs that it was read.
func (k *Kind[T]) Get(ctx context.Context, op *core.Op, id uuid.UUID) (*T, error) {
	rec, err := op.RecordToShow(ctx, k.Name, id)
	if err != nil {
		return nil, err
	}
	return k.show(ctx, op, rec)
}

// Create stores a new entity with its log entry.
func (k *Kind[T]) Create(ctx context.Context, op *core.Op, item *T) (*T, error) {
	return k.create(ctx, op, item, storage.Key{})
}

// create stores an entity. If the key is not zero, it must be unique.
func (k *Kind[T]) create(ctx context.Context, op *core.Op, item *T, key storage.Key) (*T, error) {
	rec, err := k.seal(op, item, func(rec *storage.Record) { rec.AltKey = key })
	if err != nil {
		return nil, err
	}
	ch := op.Change()
	if err := k.beside(ctx, op, ch, nil, item); err != nil {
		return nil, err
	}
	return item, op.SaveRecordWith(ctx, ch, audit.Create, "", &rec)
}

func (k *Kind[T]) beside(ctx context.Context, op *core.Op, ch *storage.Change, old, item *T) error {
	if k.Beside == nil {
		return nil
	}
	return k.Beside(ctx, op, ch, old, item)
}

// mayChange reads an entity that is about to be changed or deleted. Its row must be
// genuine, because the log must not vouch for an altered row.
func (k *Kind[T]) mayChange(ctx context.Context, op *core.Op, id uuid.UUID) (rec *storage.Record, item *T, err error) {
	if rec, err = op.Record(ctx, k.Name, id); err == nil {
		item, err = k.Open(ctx, op, rec)
	}
	if err == nil && k.May != nil {
		err = k.May(op, item)
	}
	return rec, item, err
}

func (k *Kind[T]) changed(op *core.Op) {
	if k.Changed != nil {
		op.Afterwards(func() { k.Changed(op) })
	}
}

// Update reads, changes and stores an entity. It retries if the entity has
// changed in between. If message is not empty, it is the message of the log entry.
func (k *Kind[T]) Update(ctx context.Context, op *core.Op, id uuid.UUID, message string, change func(*T) error) (*T, error) {
	return k.UpdateAs(ctx, op, id, audit.Update, message, change)
}

// UpdateAs is Update with another operation in the log. The function must not change
// a slice or a map of the entity in place.
func (k *Kind[T]) UpdateAs(ctx context.Context, op *core.Op, id uuid.UUID, operation, message string, change func(*T) error) (*T, error) {
	defer k.changed(op)
	return core.RetryStale(func() (*T, error) {
		old, item, err := k.mayChange(ctx, op, id)
		if err != nil {
			return nil, err
		}
		was := *item
		k.Modified(item, op.Creator(), op.Now)
		if err := change(item); err != nil {
			return nil, err
		}
		rec, err := k.seal(op, item, func(rec *storage.Record) {
			rec.Rev = old.Rev + 1
			if rec.Name == old.Name { // a renamed entity loses its name key
				rec.AltKey = old.AltKey
			}
		})
		if err != nil {
			return nil, err
		}
		ch := op.Change()
		if err := k.beside(ctx, op, ch, &was, item); err != nil {
			return nil, err
		}
		if err := op.SaveRecordWith(ctx, ch, operation, message, &rec); err != nil {
			return nil, err
		}
		return item, k.dropReferences(ctx, op, item)
	})
}

// Delete deletes an entity and writes a log entry.
func (k *Kind[T]) Delete(ctx context.Context, op *core.Op, id uuid.UUID) error {
	defer k.changed(op)
	return core.Retry(func() error { return k.delete(ctx, op, id) })
}

func (k *Kind[T]) delete(ctx context.Context, op *core.Op, id uuid.UUID) error {
	rec, item, err := k.mayChange(ctx, op, id)
	if err != nil {
		return err
	}
	ch := op.Change()
	if err := k.beside(ctx, op, ch, item, nil); err != nil {
		return err
	}
	ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: k.Name, ID: rec.ID, Rev: rec.Rev})
	ch.Logs = []storage.Log{op.Entry(audit.Delete, k.Name, id.String())}
	if err := op.Write(ctx, ch); err != nil {
		return err
	}
	op.NoteDeleted(k.Name, rec.ID)
	return nil
}

// seal returns the record of an entity. It calls adjust to change the columns
// first.
func (k *Kind[T]) seal(op *core.Op, item *T, adjust func(*storage.Record)) (storage.Record, error) {
	rec := k.Columns(item)
	rec.Kind = k.Name
	adjust(&rec)
	return rec, op.SealRecord(&rec, k.Document(item))
}

// show opens a record for a caller, and logs that it was read.
func (k *Kind[T]) show(ctx context.Context, op *core.Op, rec *storage.Record) (*T, error) {
	item, err := k.Open(ctx, op, rec)
	if err != nil {
		return nil, err
	}
	if err := k.dropReferences(ctx, op, item); err != nil {
		return nil, err
	}
	return item, op.LogReads(ctx, audit.Read, core.Entity{Type: k.Name, ID: uuid.UUID(rec.ID).String()})
}

// dropReferences removes references to applications that no longer exist. The
// stored entities keep them, because ids are never reused.
func (k *Kind[T]) dropReferences(ctx context.Context, op *core.Op, items ...*T) error {
	if k.Application == nil {
		return nil
	}
	var ids []storage.ID
	for _, item := range items {
		if id, _ := k.Application(item); id != (uuid.UUID{}) && !slices.Contains(ids, storage.ID(id)) {
			ids = append(ids, storage.ID(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	core.Rest(ctx)
	recs, err := op.DB().Records(ctx, op.TenantID(), audit.Application, ids)
	if err != nil {
		return err
	}
	exists := func(id uuid.UUID) bool {
		return slices.ContainsFunc(recs, func(r storage.Record) bool { return uuid.UUID(r.ID) == id })
	}
	for _, item := range items {
		if id, remove := k.Application(item); id != (uuid.UUID{}) && !exists(id) {
			remove()
		}
	}
	return nil
}

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
	for rec, err := range op.AllRecords(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if rec.Name == name { // the filter ignores case and treats * as a wildcard
			oldest = rec
		}
	}
	return oldest, nil
}

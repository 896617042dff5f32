package vault

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

// Kinds of records.
const (
	kindTenant      = keyring.KindTenant
	kindRing        = keyring.KindRing
	kindTombstone   = keyring.KindTombstone
	kindApplication = audit.Application
	kindSession     = audit.Session
	kindReactor     = audit.Reactor
	kindProxy       = audit.Proxy
)

// recordKind is a kind of entity that is stored as a record: a sealed document
// with the few columns that it is found by.
type recordKind[T any] struct {
	name string
	// columns returns the record of an entity, without its document.
	columns func(*T) storage.Record
	// document returns what is sealed of an entity.
	document func(*T) any
	// opened fills in what an entity has from the columns. It may be nil.
	opened func(*T, *storage.Record)
	// modified notes who changed an entity last, and when.
	modified func(item *T, by uuid.UUID, at time.Time)
	// application returns the application that an entity refers to, zero for
	// none, and how to leave it out. It may be nil.
	application func(*T) (id uuid.UUID, leaveOut func())
}

// seal returns the record of an entity. Adjust, unless it is nil, changes the
// columns first.
func (k *recordKind[T]) seal(op *operation, item *T, adjust func(*storage.Record)) (storage.Record, error) {
	rec := k.columns(item)
	rec.Kind = k.name
	if adjust != nil {
		adjust(&rec)
	}
	return rec, op.SealRecord(&rec, k.document(item))
}

// open returns the entity of a record.
func (k *recordKind[T]) open(ctx context.Context, op *operation, rec *storage.Record) (*T, error) {
	item := new(T)
	if err := op.OpenRecord(ctx, rec, item); err != nil {
		return nil, err
	}
	if k.opened != nil {
		k.opened(item, rec)
	}
	return item, nil
}

// show leaves out references to applications that do not exist any more. The
// stored entities keep them: ids are never used again.
func (k *recordKind[T]) show(ctx context.Context, op *operation, items ...*T) error {
	if k.application == nil {
		return nil
	}
	var ids []storage.ID
	for _, item := range items {
		if id, _ := k.application(item); id != (uuid.UUID{}) && !slices.Contains(ids, storage.ID(id)) {
			ids = append(ids, storage.ID(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	recs, err := op.DB().Records(ctx, op.TenantID(), kindApplication, ids)
	if err != nil {
		return err
	}
	exists := func(id uuid.UUID) bool {
		return slices.ContainsFunc(recs, func(r storage.Record) bool { return uuid.UUID(r.ID) == id })
	}
	for _, item := range items {
		if id, leaveOut := k.application(item); id != (uuid.UUID{}) && !exists(id) {
			leaveOut()
		}
	}
	return nil
}

// create stores a new entity, with its log entry.
func (k *recordKind[T]) create(ctx context.Context, op *operation, item *T) (*T, error) {
	return k.createAs(ctx, op, item, storage.Key{})
}

// createAs is create for an entity that is unique by a key, unless it is zero.
func (k *recordKind[T]) createAs(ctx context.Context, op *operation, item *T, key storage.Key) (*T, error) {
	rec, err := k.seal(op, item, func(rec *storage.Record) { rec.AltKey = key })
	if err != nil {
		return nil, err
	}
	ch := op.Change()
	ch.InsertRecords = []storage.Record{rec}
	ch.Logs = []storage.Log{op.Entry(audit.Create, k.name, uuid.UUID(rec.ID).String())}
	if err := op.Write(ctx, ch); err != nil {
		return nil, err
	}
	return item, nil
}

// read returns an entity for the vault's own use.
func (k *recordKind[T]) read(ctx context.Context, op *operation, id uuid.UUID) (*T, error) {
	rec, err := op.Record(ctx, k.name, id)
	if err != nil {
		return nil, err
	}
	return k.open(ctx, op, rec)
}

// get returns an entity to a caller, and logs that it was read.
func (k *recordKind[T]) get(ctx context.Context, op *operation, id uuid.UUID) (*T, error) {
	rec, err := op.Record(ctx, k.name, id)
	if err != nil {
		return nil, err
	}
	return k.shown(ctx, op, rec)
}

// update reads an entity, changes it and stores it, again if others were faster.
func (k *recordKind[T]) update(ctx context.Context, op *operation, id uuid.UUID, change func(*T) error) (*T, error) {
	return core.RetryStale(func() (*T, error) {
		old, err := op.Record(ctx, k.name, id)
		if err != nil {
			return nil, err
		}
		item, err := k.open(ctx, op, old)
		if err != nil {
			return nil, err
		}
		k.modified(item, op.Creator(), op.Now)
		if err := change(item); err != nil {
			return nil, err
		}
		rec, err := k.seal(op, item, func(rec *storage.Record) { keepNameKey(rec, old) })
		if err != nil {
			return nil, err
		}
		ch := op.Change()
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: old.Rev, Record: rec}}
		ch.Logs = []storage.Log{op.Entry(audit.Update, k.name, id.String())}
		if err := op.Write(ctx, ch); err != nil {
			return nil, err
		}
		return item, k.show(ctx, op, item)
	})
}

// delete deletes an entity, with its log entry. May, unless it is nil, can
// refuse that.
func (k *recordKind[T]) delete(ctx context.Context, op *operation, id uuid.UUID, may func(*T) error) error {
	_, err := core.RetryStale(func() (struct{}, error) {
		rec, err := op.Record(ctx, k.name, id)
		if err != nil {
			return struct{}{}, err
		}
		if may != nil {
			item, err := k.open(ctx, op, rec)
			if err != nil {
				return struct{}{}, err
			}
			if err := may(item); err != nil {
				return struct{}{}, err
			}
		}
		ch := op.Change()
		ch.DeleteRecords = []storage.RecordDelete{{Kind: k.name, ID: rec.ID, Rev: rec.Rev}}
		ch.Logs = []storage.Log{op.Entry(audit.Delete, k.name, id.String())}
		return struct{}{}, op.Write(ctx, ch)
	})
	return err
}

// recordList filters a list of records.
type recordList struct {
	IDs  []uuid.UUID
	Name string
	PageParams
}

// maxNameFilter bounds the pattern that names are asked for by: five times the
// length of the longest name. A database has a bound of its own, and no words
// for it.
const maxNameFilter = 1000

// filter checks the filters and returns them as the storage reads them.
func (p *recordList) filter(op *operation, kind string) (storage.RecordFilter, error) {
	var err error
	if p.PageParams, err = p.normal(); err != nil {
		return storage.RecordFilter{}, err
	}
	bad := &form.Problems{}
	form.CheckText(bad, "name", p.Name)
	if form.Longer(p.Name, maxNameFilter) {
		bad.Add("name", "must have at most %d characters", maxNameFilter)
	}
	if len(p.IDs) > form.MaxListValues {
		bad.Add("id", "must be given at most %d times", form.MaxListValues)
	}
	filter := storage.RecordFilter{Tenant: op.TenantID(), Kind: kind, Name: p.Name, Offset: p.offset(), Limit: p.Size, MaxBytes: op.MaxPageBytes()}
	for _, id := range p.IDs {
		filter.IDs = append(filter.IDs, storage.ID(id))
	}
	return filter, fault.Of(bad)
}

// list returns a page of entities, and logs that each was read.
func (k *recordKind[T]) list(ctx context.Context, op *operation, p recordList) (*Page[T], error) {
	filter, err := p.filter(op, k.name)
	if err != nil {
		return nil, err
	}
	recs, total, err := op.DB().ListRecords(ctx, filter)
	if err != nil {
		return nil, op.PageError(err)
	}
	page := newPage[T](p.PageParams, total)
	page.Data, err = k.see(ctx, op, recs, nil)
	return page, err
}

// see opens records as a caller sees them, and logs that each was read. Keep,
// unless it is nil, says which are part of the list.
func (k *recordKind[T]) see(ctx context.Context, op *operation, recs []storage.Record, keep func(*T) bool) ([]T, error) {
	var seen []core.Entity
	var items []*T
	for i := range recs {
		item, err := k.open(ctx, op, &recs[i])
		if err != nil {
			return nil, err
		}
		if keep == nil || keep(item) {
			items, seen = append(items, item), append(seen, core.Entity{Type: k.name, ID: uuid.UUID(recs[i].ID).String()})
		}
	}
	if err := k.show(ctx, op, items...); err != nil {
		return nil, err
	}
	shown := make([]T, len(items))
	for i, item := range items {
		shown[i] = *item
	}
	return shown, op.LogReads(ctx, audit.Read, seen...)
}

// all iterates over entities; see [recordKind.see] about keep.
func (k *recordKind[T]) all(ctx context.Context, c *Client, verb *core.Verb, p recordList, keep func(*T) bool) iter.Seq2[*T, error] {
	p.PageParams = PageParams{}
	return walkRecords(ctx, c, verb,
		func(op *operation) (storage.RecordFilter, error) { return p.filter(op, k.name) },
		func(op *operation, recs []storage.Record) ([]T, error) { return k.see(ctx, op, recs, keep) })
}

// mergeInto applies a JSON merge patch to the JSON form of a value and reads
// the result into dst. The patch is read by itself too: a field that does not
// exist is refused also when it is null, which the merge would leave no trace of.
func mergeInto(dst json.Unmarshaler, current any, patch JSON) error {
	p, err := jsonx.Parse(patch, jsonx.Limits{})
	if err != nil {
		return fault.Input(err)
	}
	if p.Kind() != jsonx.Object {
		return fault.Field("", "must be an object")
	}
	now, err := jsonx.From(current)
	if err != nil {
		return err
	}
	bad := &form.Problems{}
	p = withoutShown(p, dst, bad)
	alone := dst.UnmarshalJSON(p.JSON())
	bad.AddAll("", fieldsOf(dst.UnmarshalJSON(jsonx.Merge(now, p).JSON())))
	bad.AddUnknown(fieldsOf(alone))
	return fault.Of(bad)
}

// shownFields are what answers show of an entity beyond its parameters.
var shownFields = []string{
	"id", "tenant_id", "created_by", "created_at", "modified_by", "modified_at", "key", "webhook_secret",
}

// DecodeReplacement reads parameters for one of the Replace methods of [Client]
// from JSON, as their UnmarshalJSON does, but from JSON that an application, a
// reactor, a proxy or a tenant was written as too: the fields that cannot be
// changed are ignored, so that what a Get returned can be changed and put back. A
// proxy's application_id is read as application.id.
func DecodeReplacement(data []byte, params json.Unmarshaler) error {
	v, err := jsonx.Parse(data, jsonx.Limits{})
	if err != nil || v.Kind() != jsonx.Object {
		return params.UnmarshalJSON(data) // which says what is wrong
	}
	for _, name := range []string{"application", "application_id"} {
		if v.Get(name).IsNull() {
			v = v.Without(name) // the same as absent, where something is replaced
		}
	}
	bad := &form.Problems{}
	v = withoutShown(v, params, bad)
	bad.AddAll("", fieldsOf(params.UnmarshalJSON(v.JSON())))
	return public(fault.Of(bad))
}

// withoutShown returns an object without the fields that answers show and that
// cannot be changed. The application that a proxy shows by its id alone becomes
// the parameter that it came from.
func withoutShown(v jsonx.Value, params json.Unmarshaler, bad *form.Problems) jsonx.Value {
	v = v.Without(shownFields...)
	id := v.Get("application_id")
	if _, ok := params.(*ProxyParams); !ok || id.IsZero() {
		return v
	}
	v = v.Without("application_id")
	if ref := v.Get("application"); !ref.IsZero() {
		if other := ref.Get("id"); !ref.Equal(id) && !strings.EqualFold(other.Text(), id.Text()) {
			bad.Add("application_id", "must be the same as application.id, or be left out")
		}
		return v
	}
	if !id.IsNull() {
		id = jsonx.ObjectValue(jsonx.Member{Name: "id", Value: id})
	}
	return v.With("application", id)
}

// names reports whether a merge patch has a field. The patch has been read
// before.
func (j JSON) names(field string) bool {
	v, _ := jsonx.Parse(j, jsonx.Limits{})
	return !v.Get(field).IsZero()
}

// patchFault returns what is wrong with a merge patch by itself, for where there
// is nothing to patch: it is read into params, and the checks say what is wrong
// with those. Fields that the patch does not name are not its fault.
func patchFault(patch JSON, params json.Unmarshaler, checks ...func() error) error {
	if err := mergeInto(params, struct{}{}, patch); err != nil {
		return err
	}
	given, _ := jsonx.Parse(patch, jsonx.Limits{}) // mergeInto could
	for _, check := range checks {
		err := check()
		if bad, ok := errors.AsType[*fault.Invalid](err); ok {
			maps.DeleteFunc(bad.Fields, func(path string, _ []string) bool {
				name, _, _ := strings.Cut(path, ".")
				name, _, _ = strings.Cut(name, "[")
				return given.Get(name).IsZero()
			})
			err = fault.Of((*form.Problems)(bad))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

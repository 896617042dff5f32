package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// Kinds of records.
const (
	kindTenant      = keyring.KindTenant
	kindRing        = keyring.KindRing
	kindTombstone   = "tombstone"
	kindApplication = "application"
	kindSession     = "session"
	kindReactor     = "reactor"
	kindProxy       = "proxy"
)

// sealRecord fills in the record's sealed document. All other columns must be
// set already.
func (op *operation) sealRecord(rec *storage.Record, doc any) error {
	plain, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("vault: encode %s: %w", rec.Kind, err)
	}
	place := sealed.RecordPlace(rec)
	rec.KeyVersion = op.state.Ring.Version()
	rec.Body, err = op.seal(&place, plain)
	return err
}

// openRecord reads a record's sealed document.
func (op *operation) openRecord(ctx context.Context, rec *storage.Record, doc any) error {
	place := sealed.RecordPlace(rec)
	plain, err := op.open(ctx, &place, rec.KeyVersion, rec.Body)
	if err != nil {
		return err
	}
	return decodeRecord(rec, plain, doc)
}

func decodeRecord(rec *storage.Record, plain []byte, doc any) error {
	if err := json.Unmarshal(plain, doc); err != nil {
		return fmt.Errorf("vault: decode %s: %w", rec.Kind, errors.New("the sealed document is not what this version writes"))
	}
	return nil
}

// record returns one record of the tenant, or ErrNotFound.
func (op *operation) record(ctx context.Context, kind string, id uuid.UUID) (*storage.Record, error) {
	recs, err := op.v.store.Records(ctx, op.tenantID(), kind, []storage.ID{storage.ID(id)})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, errorf(ErrNotFound, "There is no such %s.", kind)
	}
	return &recs[0], nil
}

// createRecord stores a new entity, with its log entry.
func createRecord[T any](ctx context.Context, op *operation, item *T, seal func(*T) (storage.Record, error)) (*T, error) {
	rec, err := seal(item)
	if err != nil {
		return nil, err
	}
	ch := op.change()
	ch.InsertRecords = []storage.Record{rec}
	ch.Logs = []storage.Log{op.entry(opCreate, rec.Kind, uuid.UUID(rec.ID).String())}
	if err := op.write(ctx, ch); err != nil {
		return nil, err
	}
	return item, nil
}

// getRecord reads an entity, and logs that it was read.
func getRecord[T any](ctx context.Context, op *operation, kind string, id uuid.UUID, open func(context.Context, *storage.Record) (*T, error)) (*T, error) {
	rec, err := op.record(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	item, err := open(ctx, rec)
	if err != nil {
		return nil, err
	}
	if err := op.logReads(ctx, opRead, entity{kind, id.String()}); err != nil {
		return nil, err
	}
	return item, nil
}

// updateRecord reads an entity, changes it and stores it, again if somebody
// else was faster.
func updateRecord[T any](ctx context.Context, op *operation, kind string, id uuid.UUID,
	open func(context.Context, *storage.Record) (*T, error), change func(*T) error, seal func(*T) (storage.Record, error),
) (*T, error) {
	return retryStale(func() (*T, error) {
		old, err := op.record(ctx, kind, id)
		if err != nil {
			return nil, err
		}
		item, err := open(ctx, old)
		if err != nil {
			return nil, err
		}
		if err := change(item); err != nil {
			return nil, err
		}
		rec, err := seal(item)
		if err != nil {
			return nil, err
		}
		ch := op.change()
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: old.Rev, Record: rec}}
		ch.Logs = []storage.Log{op.entry(opUpdate, kind, id.String())}
		return item, op.write(ctx, ch)
	})
}

// mergeInto applies a JSON merge patch to the JSON form of a value and reads
// the result into dst. The patch is read by itself too: a field that does not
// exist is refused also when it is null, which the merge would leave no trace of.
func mergeInto(dst json.Unmarshaler, current any, patch JSON) error {
	p, err := jsonx.Parse(patch, jsonx.Limits{})
	if err != nil {
		return invalidErr(err)
	}
	if p.Kind() != jsonx.Object {
		return invalid("", "must be an object")
	}
	now, err := jsonx.From(current)
	if err != nil {
		return err
	}
	alone := dst.UnmarshalJSON(patch)
	bad := &form.Problems{}
	bad.AddAll("", fieldsOf(dst.UnmarshalJSON(jsonx.Merge(now, p).JSON())))
	bad.AddUnknown(fieldsOf(alone))
	return asInvalid(bad)
}

// patchError returns the error of a merge patch. Where there is nothing to
// patch, what is wrong with the patch itself comes first: it is read by itself
// into params, and the checks say what is wrong with those. Fields that the
// patch does not name are no fault of it.
func patchError(err error, patch JSON, params json.Unmarshaler, checks ...func() error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if fault := mergeInto(params, struct{}{}, patch); fault != nil {
		return fault
	}
	named, _ := jsonx.Parse(patch, jsonx.Limits{}) // mergeInto could
	for _, check := range checks {
		fault := check()
		if bad, ok := errors.AsType[*InvalidError](fault); ok {
			maps.DeleteFunc(bad.Fields, func(path string, _ []string) bool {
				name, _, _ := strings.Cut(path, ".")
				name, _, _ = strings.Cut(name, "[")
				return named.Get(name).IsZero()
			})
			fault = asInvalid((*form.Problems)(bad))
		}
		if fault != nil {
			return fault
		}
	}
	return err
}

// deleteRecord deletes a record, with its log entry.
func (op *operation) deleteRecord(ctx context.Context, kind string, id uuid.UUID) error {
	_, err := retryStale(func() (struct{}, error) {
		rec, err := op.record(ctx, kind, id)
		if err != nil {
			return struct{}{}, err
		}
		ch := op.change()
		ch.DeleteRecords = []storage.RecordDelete{{Kind: kind, ID: rec.ID, Rev: rec.Rev}}
		ch.Logs = []storage.Log{op.entry(opDelete, kind, id.String())}
		return struct{}{}, op.write(ctx, ch)
	})
	return err
}

// maxNameFilter bounds the pattern that names are asked for by: five times the
// length of the longest name. A database has a bound of its own, and no words
// for it.
const maxNameFilter = 1000

// recordList filters a list of records.
type recordList struct {
	IDs  []uuid.UUID
	Name string
	PageParams
}

// listRecords returns a page of records, opened, and logs that each was read.
func listRecords[T any](ctx context.Context, op *operation, kind string, p recordList, open func(context.Context, *storage.Record) (*T, error)) (*Page[T], error) {
	var err error
	if p.PageParams, err = p.normal(); err != nil {
		return nil, err
	}
	bad := &form.Problems{}
	form.CheckText(bad, "name", p.Name)
	if form.Longer(p.Name, maxNameFilter) {
		bad.Add("name", "must have at most %d characters", maxNameFilter)
	}
	if len(p.IDs) > maxListValues {
		bad.Add("id", "must be given at most %d times", maxListValues)
	}
	if err := asInvalid(bad); err != nil {
		return nil, err
	}
	filter := storage.RecordFilter{Tenant: op.tenantID(), Kind: kind, Name: p.Name, Offset: p.offset(), Limit: p.Size, MaxBytes: op.maxPageBytes()}
	for _, id := range p.IDs {
		filter.IDs = append(filter.IDs, storage.ID(id))
	}
	recs, total, err := op.v.store.ListRecords(ctx, filter)
	if err != nil {
		return nil, op.pageError(err)
	}
	page := newPage[T](p.PageParams, total)
	seen := make([]entity, len(recs))
	for i := range recs {
		item, err := open(ctx, &recs[i])
		if err != nil {
			return nil, err
		}
		page.Data = append(page.Data, *item)
		seen[i] = entity{kind, uuid.UUID(recs[i].ID).String()}
	}
	if err := op.logReads(ctx, opRead, seen...); err != nil {
		return nil, err
	}
	return page, nil
}

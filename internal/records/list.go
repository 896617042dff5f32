package records

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// List filters entities. Zero fields are ignored.
type List[T any] struct {
	IDs []uuid.UUID
	// Name matches the whole name, ignoring case. * matches any text.
	Name string
	// Keep, if not nil, reports whether an entity is part of the list. The
	// database cannot evaluate it, so a list with Keep reads all entities.
	Keep func(*T) bool
}

// maxNameFilter is the maximum length of a name pattern in characters: five
// times the longest name. Databases have a limit too, but no good error for
// it.
const maxNameFilter = 1000

// keepChunk is the number of entities read at a time for a list with Keep.
const keepChunk = 100

// filter checks the list and converts it for the storage.
func (k *Kind[T]) filter(op *core.Op, l List[T]) (storage.RecordFilter, error) {
	bad := &form.Problems{}
	form.CheckText(bad, "name", l.Name)
	if form.Longer(l.Name, maxNameFilter) {
		bad.Add("name", "must have at most %d characters", maxNameFilter)
	}
	if len(l.IDs) > form.MaxListValues {
		bad.Add("id", "must be given at most %d times", form.MaxListValues)
	}
	filter := storage.RecordFilter{Tenant: op.TenantID(), Kind: k.Name, Name: l.Name}
	for _, id := range l.IDs {
		filter.IDs = append(filter.IDs, storage.ID(id))
	}
	return filter, fault.Of(bad)
}

// List returns a page of entities, newest first, and the total number over
// all pages. It logs that each was read. p must be complete: see
// [form.Paging.Check].
func (k *Kind[T]) List(ctx context.Context, op *core.Op, l List[T], p form.Paging) (items []T, total int, err error) {
	filter, err := k.filter(op, l)
	if err != nil {
		return nil, 0, err
	}
	var recs []storage.Record
	if l.Keep != nil {
		recs, total, err = k.filtered(ctx, op, l, filter, p)
	} else {
		filter.Offset, filter.Limit = p.Offset(), p.Size
		recs, total, err = op.ListRecords(ctx, filter)
	}
	if err != nil {
		return nil, 0, op.PageError(err)
	}
	items, err = k.see(ctx, op, recs, nil)
	return items, total, err
}

// filtered reads all entities and returns a page of the entities in the list.
func (k *Kind[T]) filtered(ctx context.Context, op *core.Op, l List[T], filter storage.RecordFilter, p form.Paging) (page []storage.Record, total int, err error) {
	filter.Limit = keepChunk
	all := core.NewRecordPage(p.Offset(), p.Size)
	for rec, err := range op.AllRecords(ctx, filter) {
		if err != nil {
			return nil, 0, err
		}
		item, err := k.Open(ctx, op, rec)
		if skipped(err) || err == nil && !l.Keep(item) {
			continue
		}
		shown := false
		if err == nil {
			shown, err = all.Add(ctx, op, rec)
		}
		if err != nil {
			return nil, 0, err
		}
		if shown {
			page = append(page, *rec)
		}
	}
	return page, all.Total, nil
}

// skipped reports whether an error of Open keeps a record out of a list with
// Keep. A record that was deleted since it was read belongs to no list.
func skipped(err error) bool {
	return core.Unreadable(err) || errors.Is(err, fault.ErrNotFound)
}

// Next returns the next piece of a walk over a list, before an id. It moves
// the id to the end of the piece, and reports whether there may be another
// piece.
func (k *Kind[T]) Next(ctx context.Context, op *core.Op, l List[T], w *core.Walk, before *storage.ID) (items []T, more bool, err error) {
	filter, err := k.filter(op, l)
	if err != nil {
		return nil, false, err
	}
	recs, more, err := Piece(ctx, op, filter, w, before)
	if err != nil {
		return nil, false, err
	}
	items, err = k.see(ctx, op, recs, l.Keep)
	return items, more, err
}

// Piece reads the next records of a walk, before an id: see [Kind.Next].
func Piece(ctx context.Context, op *core.Op, filter storage.RecordFilter, w *core.Walk, before *storage.ID) (recs []storage.Record, more bool, err error) {
	filter.Before = *before
	recs, more, err = core.NextPage(w, func(limit int) ([]storage.Record, error) {
		filter.Limit = limit
		recs, _, err := op.ListRecords(ctx, filter)
		return recs, err
	})
	if err == nil && len(recs) > 0 {
		*before = recs[len(recs)-1].ID
	}
	return recs, more, err
}

// see opens records for a caller, and logs that each was read. If keep is not
// nil, it reports which records are part of the list.
//
// A record that cannot be opened is shown as unreadable, so that it does not
// hide the others. A list with keep omits it, because keep cannot check it.
func (k *Kind[T]) see(ctx context.Context, op *core.Op, recs []storage.Record, keep func(*T) bool) ([]T, error) {
	var seen []core.Entity
	var items, opened []*T
	for i := range recs {
		if i%core.ManyRows == core.ManyRows-1 || len(recs[i].Body) >= core.LargeBody {
			if err := core.Turn(ctx); err != nil {
				return nil, err
			}
		}
		item, err := k.Open(ctx, op, &recs[i])
		switch {
		case err == nil && (keep == nil || keep(item)):
			items, opened = append(items, item), append(opened, item)
			seen = append(seen, core.Entity{Type: k.Name, ID: uuid.UUID(recs[i].ID).String()})
		case core.Unreadable(err) && keep == nil:
			bad := k.Unreadable(&recs[i])
			items = append(items, &bad)
		case err != nil && !skipped(err):
			return nil, err
		}
	}
	if err := k.dropReferences(ctx, op, opened...); err != nil {
		return nil, err
	}
	shown := make([]T, len(items))
	for i, item := range items {
		shown[i] = *item
	}
	return shown, op.LogReads(ctx, audit.Read, seen...)
}

package core

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxScriptPage bounds the sealed bytes that one call of running code reads. It
// applies if MaxPageBytes is larger.
const maxScriptPage = 8 << 20

// MaxPageBytes bounds the sealed bytes that the operation may read.
func (op *Op) MaxPageBytes() int {
	if op.IsScripted() {
		return min(op.Vault.MaxPageBytes, maxScriptPage)
	}
	return op.Vault.MaxPageBytes
}

// PageError turns the error of a page that is too large into advice.
func (op *Op) PageError(err error) error {
	if errors.Is(err, storage.ErrTooLarge) {
		return fault.Field("size", "must be smaller: the items on this page have more than %d bytes; ask for fewer at a time", op.MaxPageBytes())
	}
	return err
}

// Walk is the page size of a walk over a list. The caller does not choose it,
// so pages have fewer items if the items are large.
type Walk struct{ size, most int }

// NewWalk returns a walk with at most the given number of items on a page.
func NewWalk(most int) Walk { return Walk{most, most} }

// NextPage reads a page, and reports whether there may be another. If the page is
// too large, it reads a smaller one.
func NextPage[T any](w *Walk, read func(limit int) ([]T, error)) (rows []T, more bool, err error) {
	for {
		limit := w.size
		rows, err := read(limit)
		if errors.Is(err, storage.ErrTooLarge) && limit > 1 {
			w.size = limit / 2
			continue
		}
		w.size = min(2*limit, w.most) // later items may be smaller
		return rows, len(rows) == limit, err
	}
}

// firstPage is the limit of sealed bytes at the first read of a page, and at the reads of
// an iteration. Each further read of a page has a limit nextPage times as large.
const (
	firstPage = 256 << 10
	nextPage  = 16
)

// ManyRows is the number of rows of a page that are opened without a turn.
const ManyRows = 16

// ReadPage reads rows of a list, and reserves memory for them first. Read gets the limit
// of sealed bytes, and size returns the sealed bytes of rows. Most pages are small, so a
// large page is read twice, and the largest ones three times.
func ReadPage[T any](ctx context.Context, most int, size func([]T) int, read func(most int) ([]T, int, error)) ([]T, int, error) {
	room := admission.Of(ctx)
	room.Rest()
	for limit := min(firstPage, most); ; limit = min(nextPage*limit, most) {
		if err := Reserve(ctx, CopyTimes*limit); err != nil {
			return nil, 0, err
		}
		rows, total, err := read(limit)
		room.Free(CopyTimes * (limit - size(rows)))
		if !errors.Is(err, storage.ErrTooLarge) || limit == most {
			return rows, total, err
		}
	}
}

// ListRecords reads a page of records within MaxPageBytes, and reserves memory for them.
// The limit of the filter holds too.
func (op *Op) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	most := op.MaxPageBytes()
	if f.MaxBytes > 0 {
		most = min(most, f.MaxBytes)
	}
	return ReadPage(ctx, most, recordBytes, func(limit int) ([]storage.Record, int, error) {
		f.MaxBytes = limit
		return op.DB().ListRecords(ctx, f)
	})
}

// AllRecords iterates over the records of a list. It holds memory for one piece of the
// list at a time, so the caller reserves memory for records that it keeps.
func (op *Op) AllRecords(ctx context.Context, f storage.RecordFilter) iter.Seq2[*storage.Record, error] {
	f.MaxBytes = firstPage
	return func(yield func(*storage.Record, error) bool) {
		pieces := &recordPieces{RecordReader: op.DB(), op: op}
		defer pieces.free(ctx)
		n := 0
		for rec, err := range storage.AllRecords(ctx, pieces, f) {
			if n++; err == nil && n%ManyRows == 0 {
				err = Turn(ctx)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// recordPieces reads the pieces of a list, and frees the memory of the piece before.
type recordPieces struct {
	storage.RecordReader
	op   *Op
	held int
}

// ListRecords implements storage.RecordReader.
func (p *recordPieces) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	p.free(ctx)
	recs, total, err := p.op.ListRecords(ctx, f)
	p.held = CopyTimes * recordBytes(recs)
	return recs, total, err
}

func (p *recordPieces) free(ctx context.Context) {
	admission.Of(ctx).Free(p.held)
	p.held = 0
}

// RecordToShow returns one record of the tenant, or ErrNotFound. Memory is reserved for a
// large record before it is read again, because a request that waits for memory must not
// hold much.
func (op *Op) RecordToShow(ctx context.Context, kind string, id uuid.UUID) (*storage.Record, error) {
	rec, err := op.Record(ctx, kind, id)
	if err != nil || len(rec.Body) < LargeBody {
		return rec, err
	}
	if err := Reserve(ctx, CopyTimes*len(rec.Body)); err != nil {
		return nil, err
	}
	if rec, err = op.Record(ctx, kind, id); err != nil {
		return nil, err
	}
	return rec, Turn(ctx)
}

// RecordPage selects one page of a list, while the whole list is read.
type RecordPage struct {
	from, to, bytes int
	Total           int // records that were added
}

// NewRecordPage returns an empty page with a number of records, after others.
func NewRecordPage(offset, size int) RecordPage { return RecordPage{from: offset, to: offset + size} }

// Add adds a record to the list, and reports whether it is on the page. Memory is then
// reserved for it.
func (p *RecordPage) Add(ctx context.Context, op *Op, rec *storage.Record) (shown bool, err error) {
	p.Total++
	if p.Total <= p.from || p.Total > p.to {
		return false, nil
	}
	if p.bytes += len(rec.Body); p.bytes > op.MaxPageBytes() && p.bytes > len(rec.Body) {
		return false, op.PageError(storage.ErrTooLarge)
	}
	return true, Reserve(ctx, CopyTimes*len(rec.Body))
}

func recordBytes(recs []storage.Record) (size int) {
	for i := range recs {
		size += len(recs[i].Body)
	}
	return size
}

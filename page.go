package vault

import (
	"errors"
	"math"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// Bounds on pages.
const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// PageParams asks for a page of a list. Zero values mean the first page and
// the default size of 20; a page holds at most 100 items, and no more bytes than
// [Config.MaxPageBytes].
type PageParams struct {
	Page int
	Size int
}

// normal fills in the defaults and checks the bounds.
func (p PageParams) normal() (PageParams, error) {
	bad := &form.Problems{}
	if p.Page == 0 {
		p.Page = 1
	}
	if p.Size == 0 {
		p.Size = defaultPageSize
	}
	if p.Page < 1 || p.Page > math.MaxInt32 {
		bad.Add("page", "must be a number from 1 to %d", math.MaxInt32)
	}
	if p.Size < 1 || p.Size > maxPageSize {
		bad.Add("size", "must be a number from 1 to %d", maxPageSize)
	}
	return p, asInvalid(bad)
}

// readPage reads page and size. A zero that is given is out of bounds, unlike
// one that is not.
func readPage(r *form.Reader) (p PageParams) {
	for name, dst := range map[string]*int{"page": &p.Page, "size": &p.Size} {
		n, ok := r.Int(name)
		if *dst = n; ok && n == 0 {
			*dst = -1
		}
	}
	return p
}

func (p PageParams) offset() int { return (p.Page - 1) * p.Size }

// Page is one page of a list.
type Page[T any] struct {
	Pagination Pagination `json:"pagination"`
	Data       []T        `json:"data"`
}

// Pagination says where a page stands in its list.
type Pagination struct {
	TotalItems int `json:"total_items"` // over all pages
	PageNumber int `json:"page_number"`
	PageSize   int `json:"page_size"`
	TotalPages int `json:"total_pages"`
}

func newPage[T any](p PageParams, total int) *Page[T] {
	return &Page[T]{
		Pagination: Pagination{TotalItems: total, PageNumber: p.Page, PageSize: p.Size, TotalPages: (total + p.Size - 1) / p.Size},
		Data:       []T{},
	}
}

// pageError says of a page that holds too much what to do about it.
func (op *call) pageError(err error) error {
	if errors.Is(err, storage.ErrTooLarge) {
		return invalid("size", "must be smaller: the items of this page hold more than %d bytes; ask for fewer at once", op.maxPageBytes())
	}
	return err
}

// batches is the size of the next page of a walk over a list, which nobody
// asked for by its size: where items are large, pages have fewer of them.
type batches struct{ size, most int }

func newBatches(most int) batches { return batches{most, most} }

// nextBatch reads a page, a smaller one while it holds too much, and reports
// whether there may be another.
func nextBatch[T any](b *batches, read func(limit int) ([]T, error)) (rows []T, more bool, err error) {
	for {
		limit := b.size
		rows, err := read(limit)
		if errors.Is(err, storage.ErrTooLarge) && limit > 1 {
			b.size = limit / 2
			continue
		}
		b.size = min(2*limit, b.most) // items that come later may be small again
		return rows, len(rows) == limit, err
	}
}

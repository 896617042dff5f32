package core

import (
	"errors"

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

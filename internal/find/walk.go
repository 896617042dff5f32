package find

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

// Walk is the page size of a walk over a list. The caller does not choose it,
// so pages have fewer items if the items are large.
type Walk struct{ size, most int }

// NewWalk returns a walk with at most the given number of items on a page.
func NewWalk(most int) Walk { return Walk{most, most} }

// Next reads a page, and reports whether there may be another. If the page is
// too large, it reads a smaller one.
func Next[T any](w *Walk, read func(limit int) ([]T, error)) (rows []T, more bool, err error) {
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

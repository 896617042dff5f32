package find

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

// Walk is the size of the next page of a walk over a list. The caller of a walk
// does not choose it, so pages have fewer items where these are large.
type Walk struct{ size, most int }

// NewWalk returns a walk whose pages have at most so many items.
func NewWalk(most int) Walk { return Walk{most, most} }

// Next reads a page, a smaller one while it holds too much, and reports whether
// there may be another.
func Next[T any](w *Walk, read func(limit int) ([]T, error)) (rows []T, more bool, err error) {
	for {
		limit := w.size
		rows, err := read(limit)
		if errors.Is(err, storage.ErrTooLarge) && limit > 1 {
			w.size = limit / 2
			continue
		}
		w.size = min(2*limit, w.most) // items that come later may be small again
		return rows, len(rows) == limit, err
	}
}

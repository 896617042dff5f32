// Package find turns filters and searches into conditions that a storage can
// evaluate. Search values are passed as keyed hashes, so that
// nothing has to be decrypted.
package find

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// List returns the condition for the filters of a list. Empty filters are
// ignored; all others must match.
func List(ring *seal.Ring, ids, types []string, metadata map[string]string) storage.And {
	var where storage.And
	if len(ids) > 0 {
		where = append(where, storage.IDIn(ids))
	}
	if len(types) > 0 {
		where = append(where, storage.TypeIn(types))
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) { // sorted, so that the same list always gives the same condition
		where = append(where, storage.HashIs(token.MetadataHash(ring, key, metadata[key])))
	}
	return where
}

// Search makes the conditions of a query for values that the storage has as hashes.
// It implements [query.Terms].
type Search struct {
	Ring     *seal.Ring
	Sets     func() []storage.ContainerSet // all of the tenant; called for conditions on containers
	AsksData bool                          // the query has a condition on data
}

// Data implements query.Terms.
func (s *Search) Data(value string) storage.Cond {
	s.AsksData = true
	return storage.HashIs(token.IndexHash(s.Ring, value))
}

// Metadata implements query.Terms.
func (s *Search) Metadata(key, value string) storage.Cond {
	return storage.HashIs(token.MetadataHash(s.Ring, key, value))
}

// Container implements query.Terms.
func (s *Search) Container(path string, prefix bool) storage.Cond {
	in := storage.SetIn{}
	for _, set := range s.Sets() {
		if slices.ContainsFunc(set.Containers, func(c string) bool { return c == path || prefix && strings.HasPrefix(c, path) }) {
			in = append(in, set.Set)
		}
	}
	return in
}

// AsksHash reports whether a condition uses keyed hashes of tokens.
func AsksHash(where storage.Cond) bool {
	switch c := where.(type) {
	case storage.And:
		return slices.ContainsFunc(c, AsksHash)
	case storage.Or:
		return slices.ContainsFunc(c, AsksHash)
	case storage.Not:
		return AsksHash(c.Cond)
	case storage.HashIs, storage.FingerprintIs:
		return true
	default:
		return false
	}
}

// Possible reports whether a token with certain hashes can meet a condition,
// whatever its other columns are.
func Possible(where storage.Cond, has func(storage.Hash) bool) bool {
	can, _ := outcomes(where, has)
	return can
}

// outcomes reports whether a condition can hold, and whether it can fail.
func outcomes(where storage.Cond, has func(storage.Hash) bool) (holds, fails bool) {
	switch c := where.(type) {
	case storage.And:
		holds = true
		for _, part := range c {
			h, f := outcomes(part, has)
			holds, fails = holds && h, fails || f
		}
		return holds, fails
	case storage.Or:
		fails = true
		for _, part := range c {
			h, f := outcomes(part, has)
			holds, fails = holds || h, fails && f
		}
		return holds, fails
	case storage.Not:
		holds, fails = outcomes(c.Cond, has)
		return fails, holds
	case storage.HashIs:
		holds = has(storage.Hash(c))
		return holds, !holds
	default:
		return true, true
	}
}

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

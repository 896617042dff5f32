package tokens

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// listed returns the condition for the filters of a list. Empty filters are
// ignored; all others must match.
func listed(ring *seal.Ring, ids, types []string, metadata map[string]string) storage.And {
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

// searchTerms makes the conditions of a query for values that the storage has as hashes.
// It implements [query.Terms].
type searchTerms struct {
	Ring     *seal.Ring
	Sets     func() []storage.ContainerSet // all of the tenant; called for conditions on containers
	AsksData bool                          // the query has a condition on data
}

// Data implements query.Terms.
func (s *searchTerms) Data(value string) storage.Cond {
	s.AsksData = true
	return storage.HashIs(token.IndexHash(s.Ring, value))
}

// Metadata implements query.Terms.
func (s *searchTerms) Metadata(key, value string) storage.Cond {
	return storage.HashIs(token.MetadataHash(s.Ring, key, value))
}

// Container implements query.Terms.
func (s *searchTerms) Container(path string, prefix bool) storage.Cond {
	in := storage.SetIn{}
	for _, set := range s.Sets() {
		if slices.ContainsFunc(set.Containers, func(c string) bool { return c == path || prefix && strings.HasPrefix(c, path) }) {
			in = append(in, set.Set)
		}
	}
	return in
}

// asksHash reports whether a condition uses keyed hashes of tokens.
func asksHash(where storage.Cond) bool {
	switch c := where.(type) {
	case storage.And:
		return slices.ContainsFunc(c, asksHash)
	case storage.Or:
		return slices.ContainsFunc(c, asksHash)
	case storage.Not:
		return asksHash(c.Cond)
	case storage.HashIs, storage.FingerprintIs:
		return true
	default:
		return false
	}
}

// possible reports whether a token with certain hashes can meet a condition,
// whatever its other columns are.
func possible(where storage.Cond, has func(storage.Hash) bool) bool {
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

// Package find turns filters, searches and grants into conditions that a
// storage can evaluate. Search values are passed as keyed hashes, so that
// nothing has to be decrypted.
package find

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/access"
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

// Granted returns the condition that a grant has a permission on a token,
// with at least the given transform. Sets are all container sets of the
// tenant. The result is nil if the grant has the permission on every token.
func Granted(grant *access.Grant, permission string, least access.Transform, sets []storage.ContainerSet) storage.Cond {
	containers := make([][]string, len(sets))
	for i := range sets {
		containers[i] = sets[i].Containers
	}
	var all storage.And
	for _, group := range grant.Filters(permission, least, containers) {
		if cond := groupCond(group, sets); cond != nil {
			all = append(all, cond)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	default:
		return all
	}
}

// groupCond returns the condition that a token meets one of the filters, or
// nil for all tokens.
func groupCond(group []access.Filter, sets []storage.ContainerSet) storage.Cond {
	allowed := storage.Or{}
	for _, f := range group {
		if f.All {
			return nil
		}
		for _, clause := range f.Clauses {
			in := make(storage.SetIn, len(clause.Sets))
			for i, set := range clause.Sets {
				in[i] = sets[set].Set
			}
			allowed = append(allowed, clauseCond(in, clause.IDs))
		}
	}
	if len(allowed) == 1 {
		return allowed[0]
	}
	return allowed
}

func clauseCond(in storage.SetIn, ids []access.IDs) storage.Cond {
	if len(ids) == 0 {
		return in
	}
	cond := storage.And{in}
	for _, group := range ids {
		var any storage.Or
		if len(group.Equal) > 0 {
			any = append(any, storage.IDIn(group.Equal))
		}
		for _, prefix := range group.Prefixes {
			any = append(any, storage.IDPrefix(prefix))
		}
		for _, r := range group.Ranges {
			within := storage.And{spanCond(r.Within)}
			for _, e := range r.Except {
				within = append(within, storage.Not{Cond: spanCond(e)})
			}
			any = append(any, within)
		}
		cond = append(cond, any)
	}
	return cond
}

func spanCond(s access.Span) storage.Cond {
	if s.Exact() {
		return storage.IDIn{s.Value}
	}
	return storage.IDPrefix(s.Value)
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

// Package find turns filters, searches and grants into conditions that a
// storage can evaluate. Search values are passed as keyed hashes, so that
// nothing has to be decrypted.
package find

import (
	"maps"
	"slices"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/query"
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

// AsksContainer reports whether a search needs the container sets.
func AsksContainer(n query.Node) bool { return has[query.InContainer](n) }

// AsksData reports whether a search has a condition on data.
func AsksData(n query.Node) bool { return has[query.DataIs](n) }

// has reports whether a query has a term of a kind.
func has[T query.Node](n query.Node) bool {
	switch n := n.(type) {
	case query.And:
		return slices.ContainsFunc(n, has[T])
	case query.Or:
		return slices.ContainsFunc(n, has[T])
	case query.Not:
		return has[T](n.Node)
	default:
		_, ok := n.(T)
		return ok
	}
}

// Search turns a query into a condition.
type Search struct {
	Ring *seal.Ring
	Sets []storage.ContainerSet // required if AsksContainer is true
}

// Cond returns the condition of a query.
func (s *Search) Cond(n query.Node) storage.Cond {
	switch n := n.(type) {
	case query.And:
		return storage.And(s.conds(n))
	case query.Or:
		return storage.Or(s.conds(n))
	case query.Not:
		return storage.Not{Cond: s.Cond(n.Node)}
	case query.IDIs:
		return storage.IDIn{string(n)}
	case query.TypeIs:
		return storage.TypeIn{string(n)}
	case query.DataIs:
		return storage.HashIs(token.IndexHash(s.Ring, string(n)))
	case query.MetadataIs:
		return storage.HashIs(token.MetadataHash(s.Ring, n.Key, n.Value))
	case query.FingerprintIs:
		return fingerprintCond(string(n))
	case query.InContainer:
		return s.containerCond(n)
	case query.ByIs:
		return storage.ByIs{Field: fields[n.Field], ID: n.ID}
	case query.TimeIn:
		return storage.TimeIn{Field: fields[n.Field], From: n.From, To: n.To, ExcludeTo: true}
	default:
		return storage.Or{} // unknown to this version, so it finds nothing
	}
}

func (s *Search) conds(nodes []query.Node) []storage.Cond {
	out := make([]storage.Cond, len(nodes))
	for i, n := range nodes {
		out[i] = s.Cond(n)
	}
	return out
}

var fields = map[query.Field]storage.Field{
	query.CreatedBy: storage.CreatedBy, query.CreatedAt: storage.CreatedAt,
	query.ModifiedBy: storage.ModifiedBy, query.ModifiedAt: storage.ModifiedAt,
}

// fingerprintCond returns a condition that finds nothing if the text is not a
// fingerprint.
func fingerprintCond(text string) storage.Cond {
	raw, err := base58.Decode(text)
	if err != nil || len(raw) != len(storage.Key{}) {
		return storage.Or{}
	}
	return storage.FingerprintIs(raw)
}

func (s *Search) containerCond(n query.InContainer) storage.Cond {
	in := storage.SetIn{}
	for _, set := range s.Sets {
		for _, c := range set.Containers {
			if c == n.Path || n.Prefix && strings.HasPrefix(c, n.Path) {
				in = append(in, set.Set)
				break
			}
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

package access

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// Condition returns the condition that Decide allows a permission on a token with at
// least the given transform. Sets are all container sets of the tenant; tokens in
// other containers do not meet it. It is nil if the grant has the permission on every
// token.
func (g *Grant) Condition(permission string, least Transform, sets []storage.ContainerSet) storage.Cond {
	switch all := g.conditions(permission, least, sets); len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	default:
		return all
	}
}

// conditions returns the parts of Condition.
func (g *Grant) conditions(permission string, least Transform, sets []storage.ContainerSet) storage.And {
	all := oneOf(g.filter(permission, least, sets))
	for _, l := range g.limits {
		if !l.delegated {
			all = append(all, l.by.conditions(permission, least, sets)...)
			continue
		}
		all = append(all, l.by.conditions(permission, Redact, sets)...)
		if least > Redact {
			// At least one of the delegating holder's permissions must show as
			// much.
			all = append(all, oneOf(l.by.filter(permission, least, sets), l.by.filter(TokenRead, least, sets), l.by.filter(TokenUse, least, sets))...)
		}
	}
	return all
}

// oneOf returns the condition that a token meets one of the filters. It is empty if
// one of them allows every token.
func oneOf(filters ...storage.Or) storage.And {
	clauses := storage.Or{}
	for _, f := range filters {
		if f == nil {
			return nil
		}
		clauses = append(clauses, f...)
	}
	if len(clauses) == 1 {
		return storage.And(clauses)
	}
	return storage.And{clauses}
}

// filter returns clauses for the grant's own rules, each of which allows some
// tokens, or nil for every token, in any containers. No set occurs in two clauses.
func (g *Grant) filter(permission string, least Transform, sets []storage.ContainerSet) storage.Or {
	p := position(permission)
	var rules []compiled
	hides := false // some rule shows less than required
	for _, r := range g.rules {
		if !r.permissions.has(p) || r.container.kind == empty || r.id.kind == empty {
			continue
		}
		if r.container == everyPath && r.id == (Span{}) && r.shows() >= least && !hides {
			return nil
		}
		hides = hides || r.shows() < least
		rules = append(rules, r)
	}
	return clauses(rules, least, sets)
}

// clauses groups the sets by their conditions on ids.
func clauses(rules []compiled, least Transform, sets []storage.ContainerSet) storage.Or {
	allowed := map[string][]idRange{} // by container
	index := map[string]int{}         // of the clause with these conditions
	var in []storage.SetIn
	var ids []storage.And
	for _, set := range sets {
		conds, ok := idConds(rules, least, set.Containers, allowed)
		if !ok {
			continue
		}
		key := ""
		if len(conds) > 0 {
			key = fmt.Sprintf("%#v", conds)
		}
		at, known := index[key]
		if !known {
			at = len(in)
			index[key] = at
			in, ids = append(in, nil), append(ids, conds)
		}
		in[at] = append(in[at], set.Set)
	}
	out := make(storage.Or, len(in))
	for i := range in {
		if out[i] = in[i]; len(ids[i]) > 0 {
			out[i] = append(storage.And{in[i]}, ids[i]...)
		}
	}
	return out
}

// idConds returns the conditions on the id of a token in all these containers, at
// most one for each container, always in the same order. It reports false if a
// single container shows that no id can meet them.
func idConds(rules []compiled, least Transform, containers []string, allowed map[string][]idRange) (conds storage.And, ok bool) {
	for _, container := range containers {
		ranges, known := allowed[container]
		if !known {
			ranges = idRanges(rules, least, container)
			allowed[container] = ranges
		}
		switch {
		case len(ranges) == 0:
			return nil, false
		case ranges[0].within != Span{} || len(ranges[0].except) > 0:
			conds = append(conds, idCond(ranges))
		}
	}
	compare := func(a, b storage.Cond) int { return cmp.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)) }
	slices.SortFunc(conds, compare)
	conds = slices.CompactFunc(conds, func(a, b storage.Cond) bool { return compare(a, b) == 0 })
	return conds, len(containers) > 0
}

// idRange is the set of ids that are in within and not in except.
type idRange struct {
	within Span
	except []Span
}

// idRanges returns the ids that the rules allow in a container with at least
// the given transform, always in the same order. No range lies in another range
// without exceptions.
func idRanges(rules []compiled, least Transform, container string) []idRange {
	var ranges []idRange
	var decided, hidden []Span // ids that earlier rules decide, and ids that they hide
	for _, r := range rules {
		if !r.container.covers(container) || slices.ContainsFunc(decided, r.id.within) {
			continue
		}
		decided = append(decided, r.id)
		if r.shows() < least {
			hidden = append(hidden, r.id)
			continue
		}
		next := idRange{within: r.id}
		for _, h := range hidden {
			if h.within(r.id) {
				next.except = append(next.except, h)
			}
		}
		if len(next.except) == 0 {
			ranges = slices.DeleteFunc(ranges, func(old idRange) bool { return old.within.within(r.id) })
		}
		ranges = append(ranges, next)
	}
	slices.SortFunc(ranges, func(a, b idRange) int {
		return cmp.Or(compareSpans(a.within, b.within), slices.CompareFunc(a.except, b.except, compareSpans))
	})
	return ranges
}

func compareSpans(a, b Span) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.Value, b.Value))
}

// idCond returns the condition that an id is in one of the ranges. Comparisons are
// byte for byte.
func idCond(ranges []idRange) storage.Or {
	var equal storage.IDIn
	var others storage.Or
	for _, r := range ranges {
		switch {
		case len(r.except) > 0:
			within := storage.And{r.within.cond()}
			for _, e := range r.except {
				within = append(within, storage.Not{Cond: e.cond()})
			}
			others = append(others, within)
		case r.within.kind == exact:
			equal = append(equal, r.within.Value)
		default:
			others = append(others, r.within.cond())
		}
	}
	if equal == nil {
		return others
	}
	return append(storage.Or{equal}, others...)
}

// cond returns the condition that an id is in the span.
func (s Span) cond() storage.Cond {
	if s.kind == exact {
		return storage.IDIn{s.Value}
	}
	return storage.IDPrefix(s.Value)
}

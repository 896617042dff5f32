package access

import (
	"cmp"
	"fmt"
	"slices"
)

// Filter describes the tokens that a permission allows, in terms that a
// database can evaluate: the sets of containers that tokens are in, and the
// tokens' ids.
type Filter struct {
	// All means every token, in any containers. There are no clauses.
	All bool
	// Clauses each allow some tokens. Without All and clauses, no token is
	// allowed.
	Clauses []Clause
}

// Clause allows the tokens that are in one of its sets and whose id meets all
// of its conditions.
type Clause struct {
	Sets []int // indexes into the sets passed to Filters, ascending
	IDs  []IDs // empty for any id
}

// IDs is a condition on an id: it equals one of Equal, starts with one of
// Prefixes, or is in one of Ranges. Comparisons are byte for byte. At least
// one of the three is not empty.
type IDs struct {
	Equal    []string
	Prefixes []string
	Ranges   []IDRange
}

// IDRange is the set of ids that are in Within and not in Except.
type IDRange struct {
	Within Span
	Except []Span // not empty in Ranges
}

// Filters returns the tokens on which Decide allows the permission with at
// least the given transform. Only tokens whose containers are one of the
// given sets count. A token must meet one filter of each group.
func (g *Grant) Filters(permission string, least Transform, sets [][]string) [][]Filter {
	groups := [][]Filter{{g.filter(permission, least, sets)}}
	for _, l := range g.limits {
		if !l.delegated {
			groups = append(groups, l.by.Filters(permission, least, sets)...)
			continue
		}
		groups = append(groups, l.by.Filters(permission, Redact, sets)...)
		if least <= Redact {
			continue
		}
		// At least one of the delegating holder's permissions must show as
		// much.
		groups = append(groups, []Filter{
			l.by.filter(permission, least, sets), l.by.filter(TokenRead, least, sets), l.by.filter(TokenUse, least, sets),
		})
	}
	return groups
}

// filter is Filters for the grant's own rules. No set occurs in two clauses.
func (g *Grant) filter(permission string, least Transform, sets [][]string) Filter {
	p := position(permission)
	var rules []compiled
	hides := false // some rule shows less than required
	for _, r := range g.rules {
		if !r.permissions.has(p) || r.container.kind == empty || r.id.kind == empty {
			continue
		}
		if r.container == everyPath && r.id == (Span{}) && r.shows() >= least && !hides {
			return Filter{All: true}
		}
		hides = hides || r.shows() < least
		rules = append(rules, r)
	}
	return Filter{Clauses: clauses(rules, least, sets)}
}

// clauses groups the sets by their conditions on ids.
func clauses(rules []compiled, least Transform, sets [][]string) []Clause {
	allowed := map[string][]IDRange{} // by container
	place := map[string]int{}         // index of the clause with these conditions
	var out []Clause
	for i, set := range sets {
		groups, ok := idGroups(rules, least, set, allowed)
		if !ok {
			continue
		}
		key := ""
		if len(groups) > 0 {
			key = fmt.Sprintf("%#v", groups)
		}
		at, known := place[key]
		if !known {
			at = len(out)
			place[key] = at
			out = append(out, Clause{IDs: groups})
		}
		out[at].Sets = append(out[at].Sets, i)
	}
	return out
}

// idGroups returns the conditions on the id of a token in all these
// containers, at most one for each container. It reports false if a single
// container shows that no id can meet them.
func idGroups(rules []compiled, least Transform, containers []string, allowed map[string][]IDRange) ([]IDs, bool) {
	var groups []IDs
	for _, container := range containers {
		ranges, known := allowed[container]
		if !known {
			ranges = idRanges(rules, least, container)
			allowed[container] = ranges
		}
		switch {
		case len(ranges) == 0:
			return nil, false
		case ranges[0].Within == Span{} && len(ranges[0].Except) == 0:
			continue
		}
		groups = append(groups, newIDs(ranges))
	}
	slices.SortFunc(groups, compareIDs)
	groups = slices.CompactFunc(groups, func(a, b IDs) bool { return compareIDs(a, b) == 0 })
	return groups, len(containers) > 0
}

// IDRanges returns the ids that the rules allow in a container with at least
// the given transform. No range lies in another range without exceptions.
func idRanges(rules []compiled, least Transform, container string) []IDRange {
	var ranges []IDRange
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
		next := IDRange{Within: r.id}
		for _, h := range hidden {
			if h.within(r.id) {
				next.Except = append(next.Except, h)
			}
		}
		if len(next.Except) == 0 {
			ranges = slices.DeleteFunc(ranges, func(old IDRange) bool { return old.Within.within(r.id) })
		}
		ranges = append(ranges, next)
	}
	return ranges
}

func newIDs(ranges []IDRange) IDs {
	var ids IDs
	for _, r := range ranges {
		switch {
		case len(r.Except) > 0:
			ids.Ranges = append(ids.Ranges, r)
		case r.Within.Exact():
			ids.Equal = append(ids.Equal, r.Within.Value)
		default:
			ids.Prefixes = append(ids.Prefixes, r.Within.Value)
		}
	}
	slices.Sort(ids.Equal)
	slices.Sort(ids.Prefixes)
	slices.SortFunc(ids.Ranges, compareRanges)
	return ids
}

func compareIDs(a, b IDs) int {
	return cmp.Or(slices.Compare(a.Equal, b.Equal), slices.Compare(a.Prefixes, b.Prefixes), slices.CompareFunc(a.Ranges, b.Ranges, compareRanges))
}

func compareRanges(a, b IDRange) int {
	return cmp.Or(compareSpans(a.Within, b.Within), slices.CompareFunc(a.Except, b.Except, compareSpans))
}

func compareSpans(a, b Span) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.Value, b.Value))
}

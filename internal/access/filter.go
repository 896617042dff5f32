package access

import (
	"fmt"
	"slices"
)

// Filter says which tokens a permission allows, in terms that a database knows:
// the sets of containers that tokens are in, and the tokens' ids.
type Filter struct {
	// All means every token, in any containers; there are no clauses.
	All bool
	// Clauses each allow some tokens. Without All and clauses, no token is
	// allowed.
	Clauses []Clause
}

// Clause allows the tokens that are in one of its sets and whose id meets every
// one of its conditions.
type Clause struct {
	Sets []int // indexes into the sets that Filter was given, ascending
	IDs  []IDs // empty: any id
}

// IDs is met by an id that is equal to one of Equal or starts with one of
// Prefixes, byte for byte. At least one of them is not empty.
type IDs struct {
	Equal    []string
	Prefixes []string
}

// Filter returns the tokens on which Decide allows the permission, among those
// whose containers are one of the given sets. No set occurs in two clauses.
func (g *Grant) Filter(permission string, sets [][]string) Filter {
	p := position(permission)
	var rules []compiled
	for _, r := range g.rules {
		if !r.permissions.has(p) || r.container.kind == empty || r.id.kind == empty {
			continue
		}
		if r.container == everyPath && r.id == (span{}) {
			return Filter{All: true}
		}
		rules = append(rules, r)
	}
	return Filter{Clauses: clauses(rules, sets)}
}

// clauses groups the sets by what their tokens' ids have to meet.
func clauses(rules []compiled, sets [][]string) []Clause {
	allowed := map[string][]span{} // by container
	place := map[string]int{}      // of the clause with these conditions
	var out []Clause
	for i, set := range sets {
		groups, ok := idGroups(rules, set, allowed)
		if !ok {
			continue
		}
		key := fmt.Sprintf("%q", groups)
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

// idGroups returns what the id of a token in all these containers has to meet,
// a condition for each container that has one. It reports false if no id can
// meet it, as far as a single container shows that.
func idGroups(rules []compiled, containers []string, allowed map[string][]span) ([]IDs, bool) {
	var groups []IDs
	for _, container := range containers {
		spans, known := allowed[container]
		if !known {
			spans = idSpans(rules, container)
			allowed[container] = spans
		}
		switch {
		case len(spans) == 0:
			return nil, false
		case spans[0] == span{}:
			continue
		}
		groups = append(groups, newIDs(spans))
	}
	slices.SortFunc(groups, compareIDs)
	groups = slices.CompactFunc(groups, func(a, b IDs) bool { return compareIDs(a, b) == 0 })
	return groups, len(containers) > 0
}

// idSpans returns the ids that some rule allows in a container, as spans of
// which none lies in another.
func idSpans(rules []compiled, container string) []span {
	var widest []span
	for _, r := range rules {
		if !r.container.covers(container) || slices.ContainsFunc(widest, r.id.within) {
			continue
		}
		widest = slices.DeleteFunc(widest, func(s span) bool { return s.within(r.id) })
		widest = append(widest, r.id)
	}
	return widest
}

func newIDs(spans []span) IDs {
	var ids IDs
	for _, s := range spans {
		if s.kind == exact {
			ids.Equal = append(ids.Equal, s.value)
		} else {
			ids.Prefixes = append(ids.Prefixes, s.value)
		}
	}
	slices.Sort(ids.Equal)
	slices.Sort(ids.Prefixes)
	return ids
}

func compareIDs(a, b IDs) int {
	if c := slices.Compare(a.Equal, b.Equal); c != 0 {
		return c
	}
	return slices.Compare(a.Prefixes, b.Prefixes)
}

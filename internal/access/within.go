package access

import (
	"slices"
	"strings"
)

// Within reports whether the authorizer may do everything that g allows, and
// may thus give g to others. For every token on which g allows a permission,
// the authorizer must have that permission. The transform of g must not
// exceed the authorizer's transform for the permission, or the best that it
// has on the token by reading or using it, as [Grant.Best] returns it. Where the
// authorizer may send the data only to destinations, g must not have others.
//
// The result is exact, including priorities: if a rule redacts a container
// before a later rule reveals everything, it limits what can be given to
// others there. Ranges of ids and containers divide all tokens into finitely
// many classes that no rule of either grant distinguishes. Within checks one
// token of each class.
func (g *Grant) Within(authorizer *Grant) bool {
	switch {
	case authorizer.unlimited:
		return true
	case g.unlimited, g.carried&^authorizer.carried != 0:
		return false
	}
	containers := points(everyPath, g, authorizer, func(c compiled) Span { return c.container })
	for _, id := range points(Span{}, g, authorizer, func(c compiled) Span { return c.id }) {
		if !withinOn(g.table(id, containers), authorizer.table(id, containers)) {
			return false
		}
	}
	return true
}

// points returns one string of each class into which the spans of both grants
// divide the whole. A string that is the exact value of a Span is its own
// class. Any other string is in the class of its longest prefix. The point of
// that class lies in the prefix and in the shorter prefixes that contain it,
// and in no other Span.
func points(whole Span, a, b *Grant, of func(compiled) Span) []string {
	all := []string{whole.point()}
	for _, r := range slices.Concat(a.rules, b.rules) {
		if s := of(r); s.kind != empty {
			all = append(all, s.point())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// decisions holds what a grant allows on a token in one container, by the
// position of the permission in the catalogue.
type decisions [tokenPermissions]Decision

// table returns what the grant allows on a token in each of the containers.
func (g *Grant) table(id string, containers []string) []decisions {
	var rules []compiled
	for _, r := range g.rules {
		if r.id.covers(id) {
			rules = append(rules, r)
		}
	}
	out := make([]decisions, len(containers))
	for i, container := range containers {
		for _, r := range rules {
			if r.container.covers(container) {
				out[i].add(r)
			}
		}
	}
	return out
}

// add sets the rule's decision for the permissions that no earlier rule
// decided.
func (t *decisions) add(r compiled) {
	for p := range t {
		if t[p].Transform == None && r.permissions.has(p) {
			t[p] = Decision{r.transform, r.to}
		}
	}
}

// withinOn compares two grants on tokens with one id, container by container.
// A token may be in several of the containers. The strictest transform then
// counts, separately for reading and for using. So it is not enough that the
// authorizer sees as much in each container by some permission. One
// permission must be sufficient in all containers where the grant gives as
// much.
func withinOn(grant, authorizer []decisions) bool {
	for p := range tokenPermissions {
		if !serves(p, Redact, p, grant, authorizer) || !reaches(p, grant, authorizer) {
			return false
		}
		for level := Redact; level <= Reveal; level++ {
			if !serves(p, level, p, grant, authorizer) && !serves(p, level, posRead, grant, authorizer) &&
				!serves(p, level, posUse, grant, authorizer) {
				return false
			}
		}
	}
	return true
}

// reaches reports whether the grant gives permission p nowhere with destinations
// that the authorizer does not have.
func reaches(p int, grant, authorizer []decisions) bool {
	for i := range grant {
		if grant[i][p].Transform != None && !grant[i][p].To.Within(authorizer[i][p].To) {
			return false
		}
	}
	return true
}

// serves reports whether the authorizer has the permission way with at least
// this level, wherever the grant gives permission p with at least this level.
// Use that is limited to destinations serves only use.
func serves(p int, level Transform, way int, grant, authorizer []decisions) bool {
	for i := range grant {
		has := authorizer[i][way]
		if grant[i][p].Transform >= level && (has.Transform < level || has.To != nil && p != way) {
			return false
		}
	}
	return true
}

// Span is a set of strings: all strings with a prefix, one exact string, or
// none. The zero Span is the prefix "", which covers every string.
//
// Spans are closed under intersection, and any two are nested or disjoint.
// Therefore rules can be compared with each other exactly.
type Span struct {
	kind  spanKind
	Value string // the string, or its prefix
}

type spanKind uint8

const (
	prefix spanKind = iota
	exact
	empty
)

func newSpan(op Operator, value string) Span {
	if op == Equals {
		return Span{exact, value}
	}
	return Span{prefix, value}
}

func (s Span) covers(v string) bool {
	switch s.kind {
	case prefix:
		return strings.HasPrefix(v, s.Value)
	case exact:
		return s.Value == v
	default:
		return false
	}
}

// and returns the strings that are in both spans.
func (s Span) and(o Span) Span {
	switch {
	case s.within(o):
		return s
	case o.within(s):
		return o
	default:
		return Span{kind: empty}
	}
}

// within reports whether every string of s is in o.
func (s Span) within(o Span) bool {
	switch s.kind {
	case empty:
		return true
	case exact:
		return o.covers(s.Value)
	default:
		return o.kind == prefix && strings.HasPrefix(s.Value, o.Value)
	}
}

// point returns a string that is in s and in no narrower Span. Values of
// conditions contain no NUL, so a prefix followed by NUL is outside every
// narrower Span.
func (s Span) point() string {
	if s.kind == prefix {
		return s.Value + "\x00"
	}
	return s.Value
}

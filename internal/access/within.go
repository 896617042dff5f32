package access

import "slices"

// Within reports whether everything that g allows is within what the authorizer
// may do, so that the authorizer may give it to others. For every token on
// which g allows a permission, the authorizer must have that permission, and
// the transform that g gives must be no stronger than the one that the
// authorizer has for it, or the best that it has on the token by reading or
// using it, as [Grant.Best] returns it.
//
// The answer is exact, priorities included: a rule that redacts a container
// before a later one reveals everything limits what can be given to others
// there. Ranges of ids and containers divide all tokens into finitely many
// classes that no rule of either grant tells apart, and one token of each is
// tried.
func (g *Grant) Within(authorizer *Grant) bool {
	switch {
	case authorizer.unlimited:
		return true
	case g.unlimited, g.carried&^authorizer.carried != 0:
		return false
	}
	containers := points(everyPath, g, authorizer, func(c compiled) span { return c.container })
	for _, id := range points(span{}, g, authorizer, func(c compiled) span { return c.id }) {
		if !withinOn(g.table(id, containers), authorizer.table(id, containers)) {
			return false
		}
	}
	return true
}

// points returns one string of each class into which the spans of both grants
// divide the whole. A string that is some span's exact value is its own class.
// Any other is in the class of the longest prefix that it has, whose point lies
// in that prefix, in the shorter ones that contain it, and in nothing else.
func points(whole span, a, b *Grant, of func(compiled) span) []string {
	all := []string{whole.point()}
	for _, r := range slices.Concat(a.rules, b.rules) {
		if s := of(r); s.kind != empty {
			all = append(all, s.point())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// transforms holds what a grant allows on a token in one container, by the
// position of the permission in the catalogue.
type transforms [tokenPermissions]Transform

// table returns what the grant allows on a token in each of the containers.
func (g *Grant) table(id string, containers []string) []transforms {
	var rules []compiled
	for _, r := range g.rules {
		if r.id.covers(id) {
			rules = append(rules, r)
		}
	}
	out := make([]transforms, len(containers))
	for i, container := range containers {
		for _, r := range rules {
			if r.container.covers(container) {
				out[i].add(r)
			}
		}
	}
	return out
}

// add takes the rule's transform for the permissions that no earlier rule
// decided.
func (t *transforms) add(r compiled) {
	for p := range t {
		if t[p] == None && r.permissions.has(p) {
			t[p] = r.transform
		}
	}
}

// withinOn compares two grants on the tokens that have one id, container by
// container. A token may be in several of the containers at once, and then the
// strictest transform counts, for reading and using each by itself. So it is
// not enough that the authorizer sees as much in each container in some way:
// one of the ways must serve in all the containers where the grant gives as
// much.
func withinOn(grant, authorizer []transforms) bool {
	for p := range tokenPermissions {
		if !serves(p, Redact, p, grant, authorizer) {
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

// serves reports whether, wherever the grant gives permission p with at least
// this transform, the authorizer has the permission way with at least it too.
func serves(p int, level Transform, way int, grant, authorizer []transforms) bool {
	for i := range grant {
		if grant[i][p] >= level && authorizer[i][way] < level {
			return false
		}
	}
	return true
}

package access

import (
	"cmp"
	"fmt"
	"slices"
)

// Grant is the set of operations that a caller may perform. It is immutable
// and safe for concurrent use. The zero Grant allows nothing.
type Grant struct {
	rules     []compiled    // in the order of evaluation
	carried   permissionSet // all permissions of rules and plain permissions
	unlimited bool
	limits    []limit // limits on all of the above
}

// compiled is a rule in reduced form. It covers a token in a container of the
// first range with an id of the second range.
type compiled struct {
	priority    int // priority of the rule; 0 for plain permissions
	permissions permissionSet
	container   span
	id          span
	transform   Transform
}

// everyPath is the range of all containers, because each path starts with
// "/".
var everyPath = span{prefix, "/"}

func (c *compiled) covers(id, container string) bool {
	return c.container.covers(container) && c.id.covers(id)
}

// New compiles rules and plain permissions that [Check] returned. It fails if
// Check would reject them for every kind of key, so that a damaged rule never
// widens a grant by being skipped.
func New(rules []Rule, permissions []string) (*Grant, error) {
	var problems Problems
	rules = problems.checkRules(rules)
	problems.checkPermissions("permissions", permissions)
	if len(problems) > 0 {
		return nil, fmt.Errorf("access: invalid grant: %s", problems.first())
	}
	g := &Grant{carried: setOf(permissions)}
	for _, r := range slices.SortedFunc(slices.Values(rules), byPriority) {
		c := compile(r)
		g.carried |= c.permissions
		g.rules = append(g.rules, c)
	}
	g.rules = append(g.rules, plain(setOf(permissions))...)
	return g, nil
}

// Unlimited returns the grant of the trusted embedding process: every
// permission on every token, with transform reveal.
func Unlimited() *Grant {
	every := compiled{permissions: 1<<len(catalogue) - 1, container: everyPath, transform: Reveal}
	return &Grant{rules: []compiled{every}, carried: every.permissions, unlimited: true}
}

func byPriority(a, b Rule) int { return cmp.Compare(a.Priority, b.Priority) }

func compile(r Rule) compiled {
	c := compiled{priority: r.Priority, permissions: setOf(r.Permissions), container: everyPath, transform: r.Transform}
	if r.Container != "" {
		c.container = span{prefix, r.Container}
	}
	for _, cond := range r.Conditions {
		s := newSpan(cond.Operator, cond.Value)
		if cond.Attribute == Container {
			c.container = c.container.and(s)
		} else {
			c.id = c.id.and(s)
		}
	}
	return c
}

// plain returns rules that are equivalent to plain permissions.
func plain(permissions permissionSet) []compiled {
	const onTokens permissionSet = 1<<tokenPermissions - 1
	const use permissionSet = 1 << posUse
	return []compiled{
		{permissions: permissions & onTokens &^ use, container: everyPath, transform: Mask},
		{permissions: permissions & use, container: everyPath, transform: Reveal},
	}
}

// Has reports whether a rule or plain permission has the permission. It is
// the check before any token is known, and the only check for permissions
// that are not on tokens.
func (g *Grant) Has(permission string) bool {
	if !g.carried.has(position(permission)) {
		return false
	}
	for i := range g.limits {
		if !g.limits[i].by.Has(permission) {
			return false
		}
	}
	return true
}

// Decide reports whether the grant allows the permission on a token, and the
// transform that applies. Only an unlimited grant allows a token without
// containers.
func (g *Grant) Decide(permission, id string, containers []string) (Transform, bool) {
	strictest := g.own(permission, id, containers)
	for i := range g.limits {
		strictest = min(strictest, g.limits[i].decide(permission, id, containers))
	}
	return strictest, strictest != None
}

// own returns the decision of the grant's own rules.
func (g *Grant) own(permission, id string, containers []string) Transform {
	p := position(permission)
	switch {
	case g.unlimited && g.carried.has(p):
		return Reveal
	case len(containers) == 0:
		return None
	}
	strictest := Reveal
	for _, container := range containers {
		strictest = min(strictest, g.decide(p, id, container))
	}
	return strictest
}

func (g *Grant) decide(permission int, id, container string) Transform {
	for i := range g.rules {
		if r := &g.rules[i]; r.permissions.has(permission) && r.covers(id, container) {
			return r.transform
		}
	}
	return None
}

// OnAll reports whether the grant allows the permission on every token, with
// any transform.
func (g *Grant) OnAll(permission string) bool {
	p := position(permission)
	return slices.ContainsFunc(g.rules, func(r compiled) bool {
		return r.permissions.has(p) && r.container == everyPath && r.id == span{}
	}) && !slices.ContainsFunc(g.limits, func(l limit) bool { return !l.by.OnAll(permission) })
}

// Shows reports whether the grant allows the permission with at least the
// given transform on any token.
func (g *Grant) Shows(permission string, least Transform) bool {
	p := position(permission)
	own := slices.ContainsFunc(g.rules, func(r compiled) bool { return r.permissions.has(p) && r.transform >= least })
	return own && !slices.ContainsFunc(g.limits, func(l limit) bool { return !l.shows(permission, least) })
}

// Best returns the most permissive transform that the grant has on a token,
// by reading or by using it. A caller that may not see a token's plaintext
// must not be able to evaluate its own expression over the data either.
func (g *Grant) Best(id string, containers []string) Transform {
	read, _ := g.Decide(TokenRead, id, containers)
	use, _ := g.Decide(TokenUse, id, containers)
	return max(read, use)
}

// MayGrant reports whether the holder of this grant may give the permission
// to an application. Permissions on tokens come with the right to manage
// applications. Any other permission can be granted only by a holder that has
// it.
func (g *Grant) MayGrant(permission string) bool {
	return onTokens(permission) || g.Has(permission)
}

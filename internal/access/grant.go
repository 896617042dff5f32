package access

import (
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/form"
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
	container   Span
	id          Span
	transform   Transform
	to          Limits
}

// everyPath is the range of all containers, because each path starts with
// "/".
var everyPath = Span{prefix, "/"}

// shows returns how much the rule shows to the caller. If the data may only be
// sent to destinations, that is nothing.
func (c *compiled) shows() Transform {
	if c.to != nil {
		return None
	}
	return c.transform
}

// New compiles rules and plain permissions that [Check] returned. It fails if
// Check would reject them for every kind of key, so that a damaged rule never
// widens a grant by being skipped.
func New(rules []Rule, permissions []string) (*Grant, error) {
	bad := &form.Problems{}
	rules = checkRules(bad, rules, true) // the egress policy refuses addresses that it does not allow
	checkPermissions(bad, "permissions", permissions)
	if bad.Any() {
		return nil, errors.New("access: " + form.Describe("invalid grant", bad.Fields))
	}
	g := &Grant{carried: setOf(permissions)}
	for _, r := range slices.SortedFunc(slices.Values(rules), func(a, b Rule) int { return a.Priority - b.Priority }) {
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

func compile(r Rule) compiled {
	c := compiled{priority: r.Priority, permissions: setOf(r.Permissions), container: everyPath, transform: r.Transform}
	if r.Destinations != nil {
		c.to = Limits{r.Destinations}
	}
	if r.Container != "" {
		c.container = Span{prefix, r.Container}
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

// Decision is what a grant allows on a token.
type Decision struct {
	Transform Transform // None if it allows nothing
	// To are the destinations that the data may be sent to: the lists of all rules
	// that apply. Nil means that there is no limit, and that the caller may see the
	// data.
	To Limits
}

// and returns what both decisions allow.
func (d Decision) and(o Decision) Decision {
	return Decision{min(d.Transform, o.Transform), d.To.and(o.To)}
}

// Decide reports whether the grant allows the permission on a token, and how
// much of the token the caller sees. Only an unlimited grant allows a token
// without containers.
func (g *Grant) Decide(permission, id string, containers []string) (Transform, bool) {
	d := g.DecideTo(permission, id, containers, Target{})
	return d.Transform, d.Transform != None
}

// DecideTo is Decide for data that goes to a target. If the rules permit only
// other destinations, they are in the Decision, and the Transform is None.
func (g *Grant) DecideTo(permission, id string, containers []string, to Target) Decision {
	d := g.allows(permission, id, containers)
	if !d.To.Match(to) {
		d.Transform = None
	}
	return d
}

// allows returns the decision before the target is considered.
func (g *Grant) allows(permission, id string, containers []string) Decision {
	d := g.own(permission, id, containers)
	for i := range g.limits {
		d = d.and(g.limits[i].allows(permission, id, containers))
	}
	if d.Transform == None {
		return Decision{} // destinations are told only to a caller that has the permission
	}
	return d
}

// own returns the decision of the grant's own rules.
func (g *Grant) own(permission, id string, containers []string) Decision {
	p := position(permission)
	switch {
	case g.unlimited && g.carried.has(p):
		return Decision{Transform: Reveal}
	case len(containers) == 0:
		return Decision{}
	}
	d := Decision{Transform: Reveal}
	for _, container := range containers {
		d = d.and(g.decide(p, id, container))
	}
	return d
}

func (g *Grant) decide(permission int, id, container string) Decision {
	for i := range g.rules {
		if r := &g.rules[i]; r.ask(permission, id, container) == Decides {
			return Decision{r.transform, r.to}
		}
	}
	return Decision{}
}

// OnAll reports whether the grant allows the permission on every token, with
// any transform.
func (g *Grant) OnAll(permission string) bool {
	p := position(permission)
	if slices.ContainsFunc(g.rules, func(r compiled) bool { return r.permissions.has(p) && r.shows() == None }) {
		return false
	}
	return slices.ContainsFunc(g.rules, func(r compiled) bool {
		return r.permissions.has(p) && r.container == everyPath && r.id == Span{}
	}) && !slices.ContainsFunc(g.limits, func(l limit) bool { return !l.by.OnAll(permission) })
}

// Shows reports whether the grant allows the permission with at least the
// given transform on any token.
func (g *Grant) Shows(permission string, least Transform) bool {
	p := position(permission)
	own := slices.ContainsFunc(g.rules, func(r compiled) bool { return r.permissions.has(p) && r.shows() >= least })
	return own && !slices.ContainsFunc(g.limits, func(l limit) bool { return !l.shows(permission, least) })
}

// Best returns the most permissive transform that the grant has on a token,
// by reading or by using it. Use that is limited to destinations shows nothing.
// A caller that may not see a token's plaintext must not be able to evaluate
// its own expression over the data either.
func (g *Grant) Best(id string, containers []string) Transform {
	read, _ := g.Decide(TokenRead, id, containers)
	use, _ := g.Decide(TokenUse, id, containers)
	return max(read, use)
}

// Destinations returns the destinations of all rules. It is nil if no rule limits
// the use of a token.
func (g *Grant) Destinations() Destinations {
	var all Destinations
	for _, r := range g.rules {
		for _, d := range r.to {
			all = append(all, d...)
		}
	}
	for _, l := range g.limits {
		all = append(all, l.by.Destinations()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MayGrant reports whether the holder of this grant may give the permission
// to an application. Permissions on tokens come with the right to manage
// applications. Any other permission can be granted only by a holder that has
// it.
func (g *Grant) MayGrant(permission string) bool {
	return OnTokens(permission) || g.Has(permission)
}

// limit restricts a grant by the grant of another holder.
type limit struct {
	by *Grant
	// delegated means that the other holder gave the grant. The transform is
	// then at most the best transform that the other holder has on the token,
	// by this permission, by reading or by using it. The other holder is an
	// application, whose grant has no limits.
	delegated bool
}

// Under returns the grant of a caller that may do only what both g and by
// allow, with the stricter transform and the destinations that both permit.
func (g *Grant) Under(by *Grant) *Grant { return g.limited(limit{by: by}) }

// DelegatedBy limits a grant to what its authorizer may do now. Each
// permission applies only where the authorizer has it, and no transform
// exceeds the best that the authorizer has there. Destinations of both apply.
// Both grants are evaluated at each use, so they need not be compared with each other.
func (g *Grant) DelegatedBy(authorizer *Grant) *Grant {
	return g.limited(limit{by: authorizer, delegated: true})
}

func (g *Grant) limited(l limit) *Grant {
	if l.by.unlimited && len(l.by.limits) == 0 {
		return g
	}
	bounded := *g
	bounded.limits = append(slices.Clip(g.limits), l)
	return &bounded
}

func (l *limit) allows(permission, id string, containers []string) Decision {
	d := l.by.allows(permission, id, containers)
	if d.Transform != None && l.delegated {
		d.Transform = max(d.Transform, l.by.Best(id, containers))
	}
	return d
}

func (l *limit) shows(permission string, least Transform) bool {
	if !l.delegated {
		return l.by.Shows(permission, least)
	}
	return l.by.Has(permission) && (l.by.Shows(TokenRead, least) || l.by.Shows(TokenUse, least) || l.by.Shows(permission, least))
}

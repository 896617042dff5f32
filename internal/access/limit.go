package access

import "slices"

// limit bounds a grant by what another holder may do.
type limit struct {
	by *Grant
	// delegated is for a grant that the other gave: its transform is bounded by
	// the best that the other has on the token, by this permission or by reading
	// or using it. The other is an application, whose grant has no limits.
	delegated bool
}

// Under returns the grant of a caller that may do what g and by both allow, with
// the stricter transform.
func (g *Grant) Under(by *Grant) *Grant { return g.limited(limit{by: by}) }

// DelegatedBy returns what is left of a grant that an authorizer gave, when the
// authorizer may do no more than this now: each permission only where the
// authorizer has it, and no transform beyond the best that it has there. Asking
// both at each use needs no comparison of the two.
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

func (l *limit) decide(permission, id string, containers []string) Transform {
	t, ok := l.by.Decide(permission, id, containers)
	if ok && l.delegated {
		return max(t, l.by.Best(id, containers))
	}
	return t
}

func (l *limit) shows(permission string, least Transform) bool {
	if !l.delegated {
		return l.by.Shows(permission, least)
	}
	return l.by.Has(permission) && (l.by.Shows(TokenRead, least) || l.by.Shows(TokenUse, least) || l.by.Shows(permission, least))
}

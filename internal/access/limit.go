package access

import "slices"

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

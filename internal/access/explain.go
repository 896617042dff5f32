package access

// Outcome is what came of asking a rule.
type Outcome uint8

// The outcomes, in the order in which a rule is asked. A rule after the one that
// decides is not asked.
const (
	OtherPermission Outcome = iota // it does not carry the permission
	OtherContainer                 // it does not cover the container
	OtherID                        // it covers other ids only
	Decides
	NotAsked
)

// Step is a rule and what came of asking it. Priority 0 stands for the plain
// permissions, which come after all rules.
type Step struct {
	Priority int
	Outcome  Outcome
}

// Look is how one holder's rules were asked about one container.
type Look struct {
	// Limit is 0 for the grant's own rules, and counts the limits on them from 1.
	Limit     int
	Container string
	Transform Transform // None: no rule allows it
	// Best is set for the limits of a grant that the holder delegated: the most
	// that it sees of the token by reading or using it. Its transform counts as
	// this, where its rules allow the permission at all.
	Best  Transform
	Steps []Step
}

// Explain shows how [Grant.Decide] comes to its answer: a look for each container
// and each holder whose rules are asked.
func (g *Grant) Explain(permission, id string, containers []string) []Look {
	var looks []Look
	for _, container := range containers {
		looks = append(looks, g.look(permission, id, container))
	}
	for i := range g.limits {
		l := &g.limits[i]
		for _, look := range l.by.Explain(permission, id, containers) {
			look.Limit += i + 1
			if l.delegated {
				look.Best = l.by.Best(id, containers)
			}
			looks = append(looks, look)
		}
	}
	return looks
}

func (g *Grant) look(permission, id, container string) Look {
	p := position(permission)
	look := Look{Container: container}
	decided := false
	for i := range g.rules {
		r := &g.rules[i]
		if r.priority == 0 && !r.permissions.has(p) {
			continue // of the two that stand for plain permissions, the other one
		}
		outcome := NotAsked
		if !decided {
			outcome = r.ask(p, id, container)
		}
		if outcome == Decides {
			decided, look.Transform = true, r.transform
		}
		look.Steps = append(look.Steps, Step{r.priority, outcome})
	}
	return look
}

// ask says whether the rule decides, and if not, why.
func (c *compiled) ask(permission int, id, container string) Outcome {
	switch {
	case !c.permissions.has(permission):
		return OtherPermission
	case !c.container.covers(container):
		return OtherContainer
	case !c.id.covers(id):
		return OtherID
	default:
		return Decides
	}
}

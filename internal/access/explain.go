package access

// Outcome is the result of checking a rule.
type Outcome uint8

// The outcomes. Rules after the deciding rule are NotAsked.
const (
	OtherPermission Outcome = iota // the rule lacks the permission
	OtherContainer                 // the rule does not cover the container
	OtherID                        // the rule covers only other ids
	Decides
	NotAsked
)

// Step is a rule and its outcome. Priority 0 means the plain permissions,
// which come after all rules.
type Step struct {
	Priority int
	Outcome  Outcome
}

// Look is the evaluation of one holder's rules for one container.
type Look struct {
	// Limit is 0 for the grant's own rules. Its limits count from 1.
	Limit     int
	Container string
	Decision
	// Best is set for the limits of a delegated grant. It is the most that
	// the delegating holder sees of the token by reading or using it. Where
	// its rules allow the permission at all, its transform counts as Best.
	Best  Transform
	Steps []Step
}

// Explain shows how [Grant.Decide] reaches its decision. It returns a look
// for each container and each holder whose rules apply.
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
			continue // two compiled rules represent the plain permissions; the other one applies
		}
		outcome := NotAsked
		if !decided {
			outcome = r.ask(p, id, container)
		}
		if outcome == Decides {
			decided, look.Decision = true, Decision{r.transform, r.to}
		}
		look.Steps = append(look.Steps, Step{r.priority, outcome})
	}
	return look
}

// ask returns whether the rule decides and, if not, why.
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

package vault

import (
	"fmt"
	"strings"
)

// deciding returns the rule that decides, or nil.
func (l *RuleLook) deciding() *AskedRule {
	for i := range l.Rules {
		if l.Rules[i].Outcome == RuleDecides {
			return &l.Rules[i]
		}
	}
	return nil
}

// counts is the transform that the look comes to.
func (l *RuleLook) counts() Transform {
	if l.Allowed && rank(l.Best) > rank(l.Transform) {
		return l.Best
	}
	return l.Transform
}

// rank orders transforms by how much they show.
func rank(t Transform) int {
	return map[Transform]int{TransformRedact: 1, TransformMask: 2, TransformReveal: 3}[t]
}

// reason says in a sentence which look decides: the first that refuses, or the
// first with the strictest transform.
func (e *Explanation) reason() string {
	var strictest *RuleLook
	for i := range e.Looks {
		l := &e.Looks[i]
		if !l.Allowed {
			return fmt.Sprintf("No rule and no plain permission of the %s allows %s in %s.", l.Holder, e.Permission, l.Container)
		}
		if strictest == nil || rank(l.counts()) < rank(strictest.counts()) {
			strictest = l
		}
	}
	if strictest == nil {
		return "The token is in no container."
	}
	rule := strictest.deciding()
	if rule.Priority == 0 {
		return fmt.Sprintf("The plain permission of the %s decides: %s.", strictest.Holder, e.Transform)
	}
	return fmt.Sprintf("Rule %d of the %s decides: %s.", rule.Priority, strictest.Holder, e.Transform)
}

var outcomeTexts = map[RuleOutcome]string{
	RuleDecides: "decides", RuleOtherPermission: "does not carry the permission", RuleOtherContainer: "does not cover the container",
	RuleOtherID: "covers other ids only", RuleNotAsked: "is not asked",
}

// Text says why a rule decides or does not, as a predicate.
func (o RuleOutcome) Text() string { return outcomeTexts[o] }

// String is the explanation as lines of text, the same for the same rules, fit
// for a golden file:
//
//	token:read is allowed: mask
//	Rule 2 of the application decides: mask.
//
//	application, /pci/high/: mask
//	  rule 1 (support) does not carry the permission
//	  rule 2 decides
//	  the plain permission is not asked
func (e *Explanation) String() string {
	var b strings.Builder
	switch {
	case !e.Allowed:
		fmt.Fprintf(&b, "%s is refused\n", e.Permission)
	case e.Transform == "":
		fmt.Fprintf(&b, "%s is allowed\n", e.Permission)
	default:
		fmt.Fprintf(&b, "%s is allowed: %s\n", e.Permission, e.Transform)
	}
	b.WriteString(e.Reason + "\n")
	for i := range e.Looks {
		e.Looks[i].write(&b)
	}
	return b.String()
}

func (l *RuleLook) write(b *strings.Builder) {
	outcome := "refused"
	if l.Allowed {
		outcome = string(l.Transform)
	}
	if l.Best != "" {
		outcome += ", sees at best " + string(l.Best)
	}
	fmt.Fprintf(b, "\n%s, %s: %s\n", l.Holder, l.Container, outcome)
	for _, r := range l.Rules {
		name := fmt.Sprintf("rule %d", r.Priority)
		if r.Description != "" {
			name += " (" + r.Description + ")"
		}
		if r.Priority == 0 {
			name = "the plain permission"
		}
		fmt.Fprintf(b, "  %s %s\n", name, r.Outcome.Text())
	}
	if len(l.Rules) == 0 {
		b.WriteString("  there are no rules\n")
	}
}

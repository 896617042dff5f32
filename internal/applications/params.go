package applications

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/identity"
)

// Params are the parameters of an application. Package vault documents the
// fields.
type Params struct {
	Name        string        `json:"name"`
	Type        string        `json:"type"`
	Permissions []string      `json:"permissions,omitempty"`
	Rules       []access.Rule `json:"rules,omitempty"`
	ExpiresAt   time.Time     `json:"expires_at,omitzero"`
	// Identities are the workloads that may act as the application with a JWT.
	Identities []identity.Identity `json:"identities,omitempty"`
	CreateKey  *bool               `json:"create_key,omitempty"`
}

// Read reads the JSON form.
func (p *Params) Read(r *form.Reader) {
	p.Name, p.Type = r.Text("name"), r.Text("type")
	p.Permissions = r.Texts("permissions")
	p.Rules = ReadRules(r)
	p.ExpiresAt = r.Moment("expires_at")
	p.Identities = nil // a patch is read several times
	r.Each("identities", func(r *form.Reader) { p.Identities = append(p.Identities, identity.Read(r)) })
	p.CreateKey = r.OptionalBool("create_key")
}

// UnmarshalJSON reads the JSON form strictly.
func (p *Params) UnmarshalJSON(data []byte) error { return fault.Of(form.ReadText(data, p.Read)) }

// ReadRules reads the field rules. An unknown transform becomes None, which
// [access.Check] rejects.
func ReadRules(r *form.Reader) []access.Rule {
	var rules []access.Rule
	r.Each("rules", func(r *form.Reader) {
		rule := access.Rule{Description: r.Text("description"), Container: r.Text("container")}
		_ = rule.Transform.UnmarshalText([]byte(r.Text("transform")))
		rule.Permissions, rule.Destinations = r.Texts("permissions"), r.Texts("destinations")
		rule.Priority, _ = r.Int("priority")
		r.Each("conditions", func(r *form.Reader) {
			rule.Conditions = append(rule.Conditions, access.Condition{
				Attribute: access.Attribute(r.Text("attribute")), Operator: access.Operator(r.Text("operator")), Value: r.Text("value"),
			})
		})
		rules = append(rules, rule)
	})
	return rules
}

// checked validates the parameters and returns them in their stored form.
// Loopback is as for [access.Check], and must as for [identity.Check]; identities are
// not checked if it is nil.
func (p Params) checked(now time.Time, loopback bool, must func(string) ([]string, bool)) (Params, error) {
	bad := &form.Problems{}
	p.problems(now, bad)
	switch holder := access.Holder(p.Type); holder {
	case access.Public, access.Private, access.Management:
		rules, permissions, problems := access.Check(holder, p.Rules, p.Permissions, loopback)
		bad.AddAll("", problems)
		p.Rules, p.Permissions = rules, permissions
	default:
		bad.Add("type", "must be public, private or management")
	}
	if p.Type == string(access.Public) && len(p.Identities) > 0 {
		bad.Add("identities", "must be empty: a public key is for browsers, which are no workloads")
	} else if must != nil {
		p.Identities = identity.Check("identities", p.Identities, must, bad)
	}
	return p, fault.Of(bad)
}

// checkPlain makes the checks that do not depend on the type.
func (p *Params) checkPlain(now time.Time) error {
	bad := &form.Problems{}
	p.problems(now, bad)
	return fault.Of(bad)
}

func (p *Params) problems(now time.Time, bad *form.Problems) {
	form.CheckName(bad, "name", p.Name)
	if !p.ExpiresAt.IsZero() {
		form.CheckExpiry(p.ExpiresAt, now, bad)
	}
}

// Same reports whether p and q describe the same application. The order of
// permissions, rules and destinations does not count. A missing type matches any type.
func (p *Params) Same(q *Params) bool {
	a, b := *p, *q
	a.Type, b.Type = cmp.Or(p.Type, q.Type), cmp.Or(q.Type, p.Type)
	a, b = a.plain(), b.plain()
	return a.Name == b.Name && a.Type == b.Type && a.ExpiresAt.Equal(b.ExpiresAt) && identity.Same(a.Identities, b.Identities) && slices.Equal(a.Permissions, b.Permissions) &&
		slices.EqualFunc(a.Rules, b.Rules, func(x, y access.Rule) bool {
			return x.Description == y.Description && x.Priority == y.Priority && x.Container == y.Container && x.Transform == y.Transform &&
				slices.Equal(x.Conditions, y.Conditions) && slices.Equal(x.Permissions, y.Permissions) && slices.Equal(x.Destinations, y.Destinations)
		})
}

// plain returns the parameters in their stored form, with sorted lists. It
// ignores problems.
func (p Params) plain() Params {
	p, _ = p.checked(time.Time{}, true, nil)
	p.Permissions = slices.Sorted(slices.Values(p.Permissions))
	p.Rules = slices.SortedFunc(slices.Values(p.Rules), func(a, b access.Rule) int { return a.Priority - b.Priority })
	for i := range p.Rules {
		p.Rules[i].Permissions = slices.Sorted(slices.Values(p.Rules[i].Permissions))
		p.Rules[i].Destinations = slices.Sorted(slices.Values(p.Rules[i].Destinations))
	}
	return p
}

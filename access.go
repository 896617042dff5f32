package vault

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
)

// Permission names something that a key may do.
type Permission string

// The permissions. Public applications may hold [PermissionTokenCreate] and
// [PermissionTokenUpdate]. Private applications and sessions may hold all
// permissions on tokens, and management applications all other permissions.
//
// [PermissionSessionCreate] and [PermissionSessionAuthorize] are only for
// [Client.HasPermission] and cannot be granted. Every public key has the first, and
// every private key the second.
const (
	PermissionTokenCreate Permission = access.TokenCreate
	PermissionTokenRead   Permission = access.TokenRead
	PermissionTokenUpdate Permission = access.TokenUpdate
	PermissionTokenDelete Permission = access.TokenDelete
	PermissionTokenSearch Permission = access.TokenSearch
	PermissionTokenUse    Permission = access.TokenUse

	PermissionLogRead Permission = access.LogRead

	PermissionReactorCreate Permission = access.ReactorCreate
	PermissionReactorRead   Permission = access.ReactorRead
	PermissionReactorUpdate Permission = access.ReactorUpdate
	PermissionReactorDelete Permission = access.ReactorDelete

	PermissionProxyCreate Permission = access.ProxyCreate
	PermissionProxyRead   Permission = access.ProxyRead
	PermissionProxyUpdate Permission = access.ProxyUpdate
	PermissionProxyDelete Permission = access.ProxyDelete

	PermissionApplicationCreate Permission = access.ApplicationCreate
	PermissionApplicationRead   Permission = access.ApplicationRead
	PermissionApplicationUpdate Permission = access.ApplicationUpdate
	PermissionApplicationDelete Permission = access.ApplicationDelete

	PermissionSessionRead   Permission = access.SessionRead
	PermissionSessionDelete Permission = access.SessionDelete

	PermissionTenantRead   Permission = access.TenantRead
	PermissionTenantUpdate Permission = access.TenantUpdate

	PermissionSessionCreate    Permission = access.SessionCreate
	PermissionSessionAuthorize Permission = access.SessionAuthorize
)

// PermissionInfo describes a permission that applications may hold.
type PermissionInfo struct {
	Type             Permission        `json:"type"`
	Description      string            `json:"description"`
	ApplicationTypes []ApplicationType `json:"application_types"`
}

// ListPermissions returns all permissions. Calling it needs no permission.
func (c *Client) ListPermissions(ctx context.Context) ([]PermissionInfo, error) {
	return run(ctx, c, &core.VerbListPermissions, func(context.Context, *core.Op) (all []PermissionInfo, err error) {
		for _, p := range access.Catalogue() {
			all = append(all, PermissionInfo{Permission(p.Type), p.Description, as[ApplicationType](p.ApplicationTypes)})
		}
		return all, nil
	})
}

// AllPermissions returns every permission that applications of a type may hold.
func AllPermissions(typ ApplicationType) []Permission {
	var all []Permission
	for _, p := range access.Catalogue() {
		if slices.Contains(p.ApplicationTypes, access.Holder(typ)) {
			all = append(all, Permission(p.Type))
		}
	}
	return all
}

// as converts a list of strings of one type to another. Nil stays nil.
func as[To, From ~string](list []From) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = To(x)
	}
	return out
}

// Transform is how much of a token's data an access rule shows.
type Transform string

// The transforms: the data itself, its mask, or nothing.
const (
	TransformReveal Transform = "reveal"
	TransformMask   Transform = "mask"
	TransformRedact Transform = "redact"
)

// AccessRule grants permissions on some of a tenant's tokens. It covers either a
// container and everything below it, or the tokens that meet all of its conditions.
// If several rules match, the rule with the lowest priority number decides.
type AccessRule struct {
	Description string       `json:"description,omitempty"`
	Priority    int          `json:"priority"` // 1 or more, unique
	Container   string       `json:"container,omitempty"`
	Conditions  []Condition  `json:"conditions,omitempty"`
	Transform   Transform    `json:"transform"`
	Permissions []Permission `json:"permissions"` // on tokens, such as token:read
	// Destinations, if not nil, limit token:use to these requests. An entry is
	// "[METHOD[,METHOD...] ]host[:port][/path]", such as "api.example.com:8443",
	// "*.example.com" (the star is one label) or "GET,HEAD api.example.com/v1/**". In
	// a path, * is one segment and ** at the end is any rest, also none. The query
	// does not count. The caller does not see the data. The rule must have token:use
	// as its only permission, and the transform reveal.
	Destinations []string `json:"destinations,omitzero"`
}

// Condition narrows an access rule. The Value for a container is a whole path
// ending in /.
type Condition struct {
	Attribute string `json:"attribute"` // id or container
	Operator  string `json:"operator"`  // equals or starts_with, both byte for byte
	Value     string `json:"value"`
}

// accessRules converts rules to the type of package access. An unknown transform
// becomes a value that package access refuses.
func accessRules(rules []AccessRule) []access.Rule {
	out := make([]access.Rule, len(rules))
	for i, r := range rules {
		out[i] = access.Rule{Description: r.Description, Priority: r.Priority, Container: r.Container, Permissions: as[string](r.Permissions), Destinations: r.Destinations}
		_ = out[i].Transform.UnmarshalText([]byte(r.Transform))
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, access.Condition{
				Attribute: access.Attribute(c.Attribute), Operator: access.Operator(c.Operator), Value: c.Value})
		}
	}
	return out
}

func rulesOf(rules []access.Rule) []AccessRule {
	if len(rules) == 0 {
		return nil
	}
	out := make([]AccessRule, len(rules))
	for i, r := range rules {
		out[i] = AccessRule{Description: r.Description, Priority: r.Priority, Container: r.Container,
			Transform: Transform(r.Transform.String()), Permissions: as[Permission](r.Permissions), Destinations: slices.Clone(r.Destinations)}
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, Condition{string(c.Attribute), string(c.Operator), c.Value})
		}
	}
	return out
}

// ExplainParams selects the key of an application or session, and a permission on a
// token or in containers, for [Client.Explain].
type ExplainParams struct {
	ApplicationID uuid.UUID  `json:"application_id,omitzero"` // or a session
	SessionID     uuid.UUID  `json:"session_id,omitzero"`
	Permission    Permission `json:"permission"`
	// Containers are the containers of a hypothetical token. Rules about ids are
	// evaluated for a token whose id no rule names. Leave Containers empty for a
	// permission that is not on tokens.
	Containers []string `json:"containers,omitempty"`
	// TokenID names a token instead. Only the tenant itself may use it, so that the
	// holder of a management key does not learn which ids exist.
	TokenID string `json:"-"`
	// JWT, of a workload, is verified and compared with the identities of the
	// application. Permission may then be left out.
	JWT string `json:"jwt,omitempty"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *ExplainParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.ApplicationID = readID(r, "application_id")
		p.SessionID = readID(r, "session_id")
		p.Permission = Permission(r.Text("permission"))
		p.Containers = r.Texts("containers")
		p.JWT = r.Text("jwt")
	})
}

// readID reads the id of an entity. It returns the zero id if the field is absent.
func readID(r *form.Reader, name string) uuid.UUID {
	text := r.Text(name)
	if text == "" {
		return uuid.UUID{}
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		r.Problem(name, "must be a UUID")
	}
	return id
}

// Explanation reports what a key may do, and how that was decided.
type Explanation struct {
	Permission Permission `json:"permission"`
	Allowed    bool       `json:"allowed"`
	// Transform is how much of the token's data the caller gets. It is empty if the
	// call is not allowed, the permission is not on tokens, or the data can only be
	// sent to Destinations.
	Transform Transform `json:"transform,omitempty"`
	// Destinations are the requests that the data can be sent in. Nil means no limit.
	Destinations []string `json:"destinations,omitempty"`
	// Reason is one sentence.
	Reason string `json:"reason"`
	// Looks are the evaluations of the rules: for each container, the rules of the
	// application or session, and for a session also the rules of its authorizer.
	Looks []RuleLook `json:"looks,omitempty"`
	// Identities are the comparisons of [ExplainParams].JWT with the identities of the
	// application, in their order. One must match.
	Identities []IdentityLook `json:"identities,omitempty"`
}

// IdentityLook is the comparison of a JWT with an identity of an application.
type IdentityLook struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	Matches  bool   `json:"matches"`
	// Reason says why the identity does not match. It names a claim, and never its value.
	Reason string `json:"reason,omitempty"`
}

// RuleLook is the evaluation of one holder's rules for one container. A token in
// several containers needs the permission in each, and gets the strictest of the
// transforms and the destinations that they have in common.
type RuleLook struct {
	// Holder is the kind of key that holds the rules: application, session or
	// authorizer. A session has the rights it was granted, as far as its authorizer
	// could grant them now.
	Holder    string `json:"holder"`
	Container string `json:"container"`
	Allowed   bool   `json:"allowed"`
	// Transform is empty if Destinations are set, because the data is not shown.
	Transform    Transform `json:"transform,omitempty"`
	Destinations []string  `json:"destinations,omitempty"`
	// Best is the most that an authorizer sees of the token by reading or using it.
	// A session may see this much, where the authorizer has the permission.
	Best  Transform   `json:"best,omitempty"`
	Rules []AskedRule `json:"rules,omitempty"` // in the order of evaluation
}

// AskedRule is a rule and the outcome of its evaluation.
type AskedRule struct {
	// Priority is the priority of the rule. 0 stands for the plain permissions,
	// which are evaluated after all rules.
	Priority    int    `json:"priority"`
	Description string `json:"description,omitempty"`
	// Outcome is decides, other_permission (the rule does not grant the
	// permission), other_container or other_id (it does not cover the token), or
	// not_asked (a rule before it decides).
	Outcome string `json:"outcome"`
}

// ruleOutcomes are the outcomes, and their texts as predicates.
var ruleOutcomes = [...]struct{ name, text string }{
	access.Decides:         {"decides", "decides"},
	access.OtherPermission: {"other_permission", "does not carry the permission"},
	access.OtherContainer:  {"other_container", "does not cover the container"},
	access.OtherID:         {"other_id", "covers other ids only"},
	access.NotAsked:        {"not_asked", "is not asked"},
}

// Text returns the outcome as a predicate, such as "covers other ids only".
func (r AskedRule) Text() string {
	for _, o := range ruleOutcomes {
		if o.name == r.Outcome {
			return o.text
		}
	}
	return r.Outcome
}

// Explain reports whether an application or a session may do something, how much it
// would see, and which rule decides. It needs the permission application:read, and
// for a session also session:read. It evaluates the same rules in the same order as
// the operation itself. An unknown application or session is ErrNotFound.
func (c *Client) Explain(ctx context.Context, p ExplainParams) (*Explanation, error) {
	return run(ctx, c, &core.VerbExplain, func(ctx context.Context, op *core.Op) (*Explanation, error) {
		a, err := applications.Ask(ctx, op, applications.Question{
			ApplicationID: p.ApplicationID, SessionID: p.SessionID, Permission: string(p.Permission), Containers: p.Containers, TokenID: p.TokenID, JWT: p.JWT,
		})
		if err != nil {
			return nil, err
		}
		e := &Explanation{Permission: p.Permission, Allowed: a.Allowed, Transform: Transform(a.Transform.String()), Destinations: a.To, Reason: a.Reason}
		for _, l := range a.Looks {
			e.Looks = append(e.Looks, lookOf(l))
		}
		for _, l := range a.Identities {
			e.Identities = append(e.Identities, IdentityLook(l))
		}
		return e, nil
	})
}

func lookOf(l applications.Look) RuleLook {
	out := RuleLook{Holder: l.Holder, Container: l.Container, Allowed: l.Transform != access.None,
		Transform: Transform(l.Transform.String()), Destinations: l.To.Common(), Best: Transform(l.Best.String())}
	if l.To != nil {
		out.Transform = ""
	}
	for _, s := range l.Steps {
		out.Rules = append(out.Rules, AskedRule{Priority: s.Priority, Description: l.Descriptions[s.Priority], Outcome: ruleOutcomes[s.Outcome].name})
	}
	return out
}

// String returns the explanation as lines of text. The text is the same for the
// same rules, so it fits a golden file:
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
	asked := cmp.Or(string(e.Permission), "the JWT")
	switch {
	case !e.Allowed:
		fmt.Fprintf(&b, "%s is refused\n", asked)
	case len(e.Destinations) > 0:
		fmt.Fprintf(&b, "%s is allowed: %s\n", asked, onlyTo(e.Destinations))
	case e.Transform == "":
		fmt.Fprintf(&b, "%s is allowed\n", asked)
	default:
		fmt.Fprintf(&b, "%s is allowed: %s\n", asked, e.Transform)
	}
	b.WriteString(e.Reason + "\n")
	for i, l := range e.Identities {
		fmt.Fprintf(&b, "\nidentity %d of %s: %s\n", i+1, l.Issuer, cmp.Or(l.Reason, "matches"))
	}
	for i := range e.Looks {
		e.Looks[i].write(&b)
	}
	return b.String()
}

func onlyTo(destinations []string) string { return "only to " + strings.Join(destinations, ", ") }

func (l *RuleLook) write(b *strings.Builder) {
	outcome := "refused"
	switch {
	case len(l.Destinations) > 0:
		outcome = onlyTo(l.Destinations)
	case l.Allowed:
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
		fmt.Fprintf(b, "  %s %s\n", name, r.Text())
	}
	if len(l.Rules) == 0 {
		b.WriteString("  there are no rules\n")
	}
}

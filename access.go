package vault

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/form"
)

// Permission names something that a key may do.
type Permission string

// The permissions. Public applications may hold [PermissionTokenCreate] and
// [PermissionTokenUpdate], private applications and sessions all of those on
// tokens, and management applications all others.
//
// [PermissionSessionCreate] and [PermissionSessionAuthorize] are for
// [Client.HasPermission] alone: they go with the type of a key, every public key having
// the one and every private key the other, and cannot be granted.
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

	PermissionSessionCreate    Permission = "session:create"
	PermissionSessionAuthorize Permission = "session:authorize"
)

// PermissionInfo describes a permission that applications may hold.
type PermissionInfo struct {
	Type             Permission        `json:"type"`
	Description      string            `json:"description"`
	ApplicationTypes []ApplicationType `json:"application_types"`
}

// ListPermissions returns all permissions. It needs none.
func (c *Client) ListPermissions(ctx context.Context) ([]PermissionInfo, error) {
	return run(ctx, c, &verbListPermissions, func(context.Context, *operation) (all []PermissionInfo, err error) {
		for _, p := range access.Catalogue() {
			types := make([]ApplicationType, len(p.ApplicationTypes))
			for i, h := range p.ApplicationTypes {
				types[i] = ApplicationType(h)
			}
			all = append(all, PermissionInfo{Permission(p.Type), p.Description, types})
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

func permissionsOf(texts []string) []Permission {
	if texts == nil {
		return nil
	}
	out := make([]Permission, len(texts))
	for i, p := range texts {
		out[i] = Permission(p)
	}
	return out
}

func texts(permissions []Permission) []string {
	if permissions == nil {
		return nil
	}
	out := make([]string, len(permissions))
	for i, p := range permissions {
		out[i] = string(p)
	}
	return out
}

// Transform says how much of a token's data an access rule shows.
type Transform string

// The transforms: the data itself, its mask, or nothing.
const (
	TransformReveal Transform = "reveal"
	TransformMask   Transform = "mask"
	TransformRedact Transform = "redact"
)

// AccessRule grants permissions on some of a tenant's tokens. It covers either
// a container and all below it, or the tokens that meet all of its conditions.
// Of several rules that match, the one with the lowest priority number decides.
type AccessRule struct {
	Description string       `json:"description,omitempty"`
	Priority    int          `json:"priority"` // from 1 on, unique
	Container   string       `json:"container,omitempty"`
	Conditions  []Condition  `json:"conditions,omitempty"`
	Transform   Transform    `json:"transform"`
	Permissions []Permission `json:"permissions"` // on tokens, such as token:read
}

// Condition narrows an access rule. The Value for a container is a whole path
// ending in /.
type Condition struct {
	Attribute RuleAttribute `json:"attribute"`
	Operator  RuleOperator  `json:"operator"`
	Value     string    `json:"value"`
}

// RuleAttribute is what a condition looks at.
type RuleAttribute string

// The attributes of a token that a condition can look at.
const (
	AttributeID        RuleAttribute = "id"
	AttributeContainer RuleAttribute = "container"
)

// RuleOperator is how a condition compares.
type RuleOperator string

// The comparisons. Both are byte for byte.
const (
	OperatorEquals     RuleOperator = "equals"
	OperatorStartsWith RuleOperator = "starts_with"
)

func readRules(r *form.Reader) []AccessRule {
	var rules []AccessRule
	r.Each("rules", func(r *form.Reader) {
		rule := AccessRule{Description: r.Text("description"), Container: r.Text("container"),
			Transform: Transform(r.Text("transform")), Permissions: permissionsOf(r.Texts("permissions"))}
		rule.Priority, _ = r.Int("priority")
		r.Each("conditions", func(r *form.Reader) {
			rule.Conditions = append(rule.Conditions, Condition{RuleAttribute(r.Text("attribute")), RuleOperator(r.Text("operator")), r.Text("value")})
		})
		rules = append(rules, rule)
	})
	return rules
}

// accessRules returns rules as package access reads them. A transform that it
// does not know becomes one that it refuses.
func accessRules(rules []AccessRule) []access.Rule {
	out := make([]access.Rule, len(rules))
	for i, r := range rules {
		out[i] = access.Rule{Description: r.Description, Priority: r.Priority, Container: r.Container, Permissions: texts(r.Permissions)}
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
			Transform: Transform(r.Transform.String()), Permissions: permissionsOf(r.Permissions)}
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, Condition{RuleAttribute(c.Attribute), RuleOperator(c.Operator), c.Value})
		}
	}
	return out
}

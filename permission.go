package vault

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/access"
)

// Permission names something that a key may do.
type Permission string

// The permissions. Public applications may hold [PermissionTokenCreate] and
// [PermissionTokenUpdate], private applications and sessions all of those on
// tokens, and management applications all others.
//
// [PermissionSessionCreate] and [PermissionSessionAuthorize] are for
// [Client.Check] alone: they go with the type of a key, every public key having
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

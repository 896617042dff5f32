package access

import "slices"

// The permissions.
const (
	TokenCreate = "token:create"
	TokenRead   = "token:read"
	TokenUpdate = "token:update"
	TokenDelete = "token:delete"
	TokenSearch = "token:search"
	TokenUse    = "token:use"

	LogRead = "log:read"

	ReactorCreate = "reactor:create"
	ReactorRead   = "reactor:read"
	ReactorUpdate = "reactor:update"
	ReactorDelete = "reactor:delete"

	ProxyCreate = "proxy:create"
	ProxyRead   = "proxy:read"
	ProxyUpdate = "proxy:update"
	ProxyDelete = "proxy:delete"

	ApplicationCreate = "application:create"
	ApplicationRead   = "application:read"
	ApplicationUpdate = "application:update"
	ApplicationDelete = "application:delete"

	SessionRead   = "session:read"
	SessionDelete = "session:delete"

	TenantRead   = "tenant:read"
	TenantUpdate = "tenant:update"
)

// The permissions that come with the type of a key. They cannot be granted.
const (
	SessionCreate    = "session:create"
	SessionAuthorize = "session:authorize"
)

// Holder is a kind of key. It limits the permissions that the key can have.
type Holder string

// The kinds of keys: the three types of applications, and sessions.
const (
	Public     Holder = "public"
	Private    Holder = "private"
	Management Holder = "management"
	Session    Holder = "session"
)

// Permission is an entry of the catalogue.
type Permission struct {
	Type             string   `json:"type"`
	Description      string   `json:"description"`
	ApplicationTypes []Holder `json:"application_types"`
}

// catalogue lists every permission. Permissions on tokens come first, so that
// their positions index small arrays.
var catalogue = [...]Permission{
	{TokenCreate, "Create tokens", []Holder{Public, Private}},
	{TokenRead, "Read and list tokens", []Holder{Private}},
	{TokenUpdate, "Update tokens", []Holder{Public, Private}},
	{TokenDelete, "Delete tokens", []Holder{Private}},
	{TokenSearch, "Search tokens", []Holder{Private}},
	{TokenUse, "Use tokens in reactors, proxies and detokenization", []Holder{Private}},
	{LogRead, "Read logs", []Holder{Management}},
	{ReactorCreate, "Create reactors", []Holder{Management}},
	{ReactorRead, "Read reactors", []Holder{Management}},
	{ReactorUpdate, "Update reactors", []Holder{Management}},
	{ReactorDelete, "Delete reactors", []Holder{Management}},
	{ProxyCreate, "Create proxies", []Holder{Management}},
	{ProxyRead, "Read proxies", []Holder{Management}},
	{ProxyUpdate, "Update proxies", []Holder{Management}},
	{ProxyDelete, "Delete proxies", []Holder{Management}},
	{ApplicationCreate, "Create applications", []Holder{Management}},
	{ApplicationRead, "Read applications", []Holder{Management}},
	{ApplicationUpdate, "Update applications and regenerate their keys", []Holder{Management}},
	{ApplicationDelete, "Delete applications", []Holder{Management}},
	{SessionRead, "List sessions", []Holder{Management}},
	{SessionDelete, "End sessions", []Holder{Management}},
	{TenantRead, "Read the tenant", []Holder{Management}},
	{TenantUpdate, "Update the tenant", []Holder{Management}},
}

// The positions of permissions on tokens in the catalogue.
const (
	posCreate = iota
	posRead
	posUpdate
	posDelete
	posSearch
	posUse
	tokenPermissions // number of permissions on tokens
)

// Catalogue returns every permission, with a description and the types of
// applications that may have it. The caller owns the result.
func Catalogue() []Permission {
	all := slices.Clone(catalogue[:])
	for i := range all {
		all[i].ApplicationTypes = slices.Clone(all[i].ApplicationTypes)
	}
	return all
}

// MayHold reports whether a key of this kind can have the permission at all.
// A session can have each permission on tokens that its authorizer has.
func (h Holder) MayHold(permission string) bool {
	if h == Session {
		return OnTokens(permission)
	}
	i := position(permission)
	return i >= 0 && slices.Contains(catalogue[i].ApplicationTypes, h)
}

// Known reports whether the permission exists.
func Known(permission string) bool { return position(permission) >= 0 }

// OnTokens reports whether the permission is on tokens, so that rules can
// have it.
func OnTokens(permission string) bool {
	i := position(permission)
	return i >= 0 && i < tokenPermissions
}

var positions = func() map[string]int {
	m := map[string]int{}
	for i, p := range catalogue {
		m[p.Type] = i
	}
	return m
}()

// position returns the index of a permission in the catalogue, or -1.
func position(permission string) int {
	if i, ok := positions[permission]; ok {
		return i
	}
	return -1
}

// permissionSet is a bit set of positions in the catalogue.
type permissionSet uint32

func setOf(permissions []string) permissionSet {
	var s permissionSet
	for _, p := range permissions {
		if i := position(p); i >= 0 {
			s |= 1 << i
		}
	}
	return s
}

func (s permissionSet) has(position int) bool {
	return position >= 0 && s&(1<<position) != 0
}

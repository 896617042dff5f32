package vault_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestCreateApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rules := []vault.AccessRule{{Description: "cards", Priority: 3, Container: "/PCI/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}}
	got := must.Get(v.Management.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Checkout", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}, Rules: rules, ExpiresAt: vaulttest.Start.Add(time.Hour)}))(t)
	if !regexp.MustCompile(`^key_prv_[1-9A-HJ-NP-Za-km-z]{38}$`).MatchString(got.Key) {
		t.Error("the key is not of the form key_prv_<38 base58 characters>")
	}
	rules[0].Container = "/pci/"
	want := &vault.Application{ID: got.ID, TenantID: v.Acme.ID, Name: "Checkout", Type: vault.ApplicationPrivate, Key: got.Key, Permissions: []vault.Permission{"token:use"},
		Rules: rules, CreatedBy: v.Management.ApplicationID(), CreatedAt: vaulttest.Start, ExpiresAt: vaulttest.Start.Add(time.Hour)}
	given.SameApplication(t, "created application", got, want)
	want.Key = ""
	read := must.Get(v.Management.GetApplication(t.Context(), got.ID))(t)
	given.SameApplication(t, "application read", read, want)
	page, err := v.Management.ListApplications(t.Context(), vault.ListApplicationsParams{IDs: []uuid.UUID{got.ID}})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("list: %v", err)
	}
	given.SameApplication(t, "application listed", &page.Data[0], want)
	own := must.Get(given.Authenticated(t, v.Vault, got.Key).OwnApplication(t.Context()))(t)
	given.SameApplication(t, "own application", own, want)
	must.Match(t, "the tenant's own application", must.Err(v.Owner.OwnApplication(t.Context())), vault.ErrNotFound)
}

func TestKeyKinds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := must.Get(v.Public.CreateSession(t.Context()))(t)
	for prefix, key := range map[string]string{"key_pub_": v.PublicKey, "key_prv_": v.PrivateKey, "key_mgt_": v.ManagementKey, "key_sess_": s.SessionKey} {
		if !strings.HasPrefix(key, prefix) || len(key) != len(prefix)+38 {
			t.Errorf("a key of %d characters does not have the form of %s", len(key), prefix)
		}
	}
}

// Every type may hold its own permissions and no others.
func TestTypePermissionMatrix(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	may := map[vault.ApplicationType][]vault.Permission{vault.ApplicationPublic: {"token:create", "token:update"}, vault.ApplicationPrivate: given.Everything}
	all := must.Get(v.Public.ListPermissions(t.Context()))(t)
	for _, p := range all {
		if !slices.Contains(given.Everything, p.Type) {
			may[vault.ApplicationManagement] = append(may[vault.ApplicationManagement], p.Type)
		}
	}
	given.Same(t, "management permissions", may[vault.ApplicationManagement], []vault.Permission{
		"log:read", "reactor:create", "reactor:read", "reactor:update", "reactor:delete", "proxy:create", "proxy:read", "proxy:update", "proxy:delete",
		"application:create", "application:read", "application:update", "application:delete", "session:read", "session:delete", "tenant:read", "tenant:update"})
	for _, typ := range []vault.ApplicationType{vault.ApplicationPublic, vault.ApplicationPrivate, vault.ApplicationManagement} {
		for _, p := range all {
			allowed := slices.Contains(may[typ], p.Type)
			given.Same(t, fmt.Sprint(p.Type, " in the catalogue for ", typ), slices.Contains(p.ApplicationTypes, typ), allowed)
			_, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Permissions: []vault.Permission{p.Type}})
			if allowed && err != nil {
				t.Errorf("%s for %s: %v", p.Type, typ, err)
			}
			if !allowed {
				given.WantFields(t, string(p.Type)+" for "+string(typ), err, "permissions[0]")
			}
			_, err = v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformMask, p.Type)}})
			given.Same(t, fmt.Sprintf("a rule with %s for %s: %v", p.Type, typ, err), allowed && typ != vault.ApplicationManagement, err == nil)
		}
	}
}

// Package access tests the rules in detail.
func TestApplicationRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	good := func() vault.ApplicationParams {
		return vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformMask, "token:read")}}
	}
	for name, tt := range map[string]struct {
		change func(*vault.ApplicationParams)
		field  string
	}{
		"no name":                    {func(p *vault.ApplicationParams) { p.Name = " " }, "name"},
		"a long name":                {func(p *vault.ApplicationParams) { p.Name = strings.Repeat("x", 201) }, "name"},
		"NUL in the name":            {func(p *vault.ApplicationParams) { p.Name = "a\x00" }, "name"},
		"no type":                    {func(p *vault.ApplicationParams) { p.Type = "" }, "type"},
		"an unknown type":            {func(p *vault.ApplicationParams) { p.Type = "session" }, "type"},
		"nothing granted":            {func(p *vault.ApplicationParams) { p.Rules = nil }, "permissions"},
		"an unknown permission":      {func(p *vault.ApplicationParams) { p.Permissions = []vault.Permission{"token:see"} }, "permissions[0]"},
		"expired":                    {func(p *vault.ApplicationParams) { p.ExpiresAt = vaulttest.Start }, "expires_at"},
		"an unknown transform":       {func(p *vault.ApplicationParams) { p.Rules[0].Transform = "show" }, "rules[0].transform"},
		"rules and a management key": {func(p *vault.ApplicationParams) { p.Type = vault.ApplicationManagement }, "rules"},
	} {
		p := good()
		tt.change(&p)
		given.WantFields(t, name, must.Err(v.Owner.CreateApplication(t.Context(), p)), tt.field)
	}
	p := good()
	p.Name = strings.Repeat("ä", 200)
	must.Match(t, "a name of 200 characters", must.Err(v.Owner.CreateApplication(t.Context(), p)), nil)
	var read vault.ApplicationParams
	given.WantFields(t, "unknown fields", read.UnmarshalJSON([]byte(`{"name":"x","key":"y","rules":[{"colour":1,"conditions":[{"z":1}]}]}`)),
		"key", "rules[0].colour", "rules[0].conditions[0].z")
}

// Only a client that holds a management permission can grant it.
func TestPermissionsAreGrantedByHolders(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	admin := given.Application(t, v, vault.ApplicationParams{Name: "Admin", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:create", "application:update", "application:read", "log:read"}})
	make := func(typ vault.ApplicationType, permissions ...vault.Permission) error {
		return must.Err(admin.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Permissions: permissions}))
	}
	for name, err := range map[string]error{
		"its own": make(vault.ApplicationManagement, "log:read", "application:create"), "those on tokens": make(vault.ApplicationPrivate, given.Everything...), "public ones": make(vault.ApplicationPublic, "token:create"),
	} {
		must.Match(t, name, err, nil)
	}
	must.Match(t, "another", make(vault.ApplicationManagement, "log:read", "tenant:update"), vault.ErrForbidden)

	weak := must.Get(admin.CreateApplication(t.Context(), vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}}))(t)
	_, err := admin.PatchApplication(t.Context(), weak.ID, vault.JSON(`{"permissions":["log:read","application:delete"]}`))
	must.Match(t, "another by patch", err, vault.ErrForbidden)
	_, err = admin.ReplaceApplication(t.Context(), weak.ID, vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:delete"}})
	must.Match(t, "another by replacement", err, vault.ErrForbidden)
	_, err = admin.RegenerateKey(t.Context(), v.Management.ApplicationID())
	must.Match(t, "the key of a stronger application", err, vault.ErrForbidden)
	must.Match(t, "the old key after a refused regeneration", must.Err(v.Authenticate(t.Context(), v.ManagementKey)), nil)
}

func TestUpdateApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "old", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}, ExpiresAt: vaulttest.Start.Add(time.Hour)}))(t)
	c := given.Authenticated(t, v.Vault, app.Key)
	v.Clock.Advance(time.Minute)
	got := must.Get(v.Management.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"new","permissions":null,"rules":[{"priority":1,"container":"/","transform":"redact","permissions":["token:read"]}],"expires_at":null}`)))(t)
	want := &vault.Application{ID: app.ID, TenantID: v.Acme.ID, Name: "new", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformRedact, "token:read")},
		CreatedBy: v.Acme.ID, CreatedAt: vaulttest.Start, ModifiedBy: v.Management.ApplicationID(), ModifiedAt: vaulttest.Start.Add(time.Minute)}
	given.SameApplication(t, "patched application", got, want)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	given.WantData(t, "what the client sees at once", given.Get(t, c, tok.ID).Data, ``)

	got = must.Get(v.Management.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "third", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}}))(t)
	want.Name, want.Rules, want.Permissions = "third", nil, []vault.Permission{"token:use"}
	given.SameApplication(t, "replaced application", got, want)
	must.Match(t, "what the client may no longer do", must.Err(c.GetToken(t.Context(), tok.ID)), vault.ErrForbidden)

	for patch, fields := range map[string][]string{
		`{"type":"public"}`: {"type"}, `{"type":"public","permissions":["token:create"]}`: {"type"}, `{"keys":"x"}`: {"keys"},
		`{"permissions":null}`: {"permissions"}, `{"name":null}`: {"name"}, `[]`: {""}, `{"expires_at":"2020-01-01T00:00:00Z"}`: {"expires_at"},
	} {
		given.WantFields(t, patch, must.Err(v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(patch))), fields...)
	}
	_, err := v.Owner.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
	given.WantFields(t, "another type", err, "type")
	after := must.Get(v.Owner.GetApplication(t.Context(), app.ID))(t)
	given.SameApplication(t, "application after refused changes", after, want)
	for name, err := range map[string]error{
		"patch":      must.Err(v.Owner.PatchApplication(t.Context(), uuid.New(), vault.JSON(`{}`))),
		"replace":    must.Err(v.Owner.ReplaceApplication(t.Context(), uuid.New(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})),
		"regenerate": must.Err(v.Owner.RegenerateKey(t.Context(), uuid.New())),
		"get":        must.Err(v.Owner.GetApplication(t.Context(), uuid.New())),
		"delete":     v.Owner.DeleteApplication(t.Context(), uuid.New()),
	} {
		must.Match(t, name+" of a missing application", err, vault.ErrNotFound)
	}
}

func TestApplicationOperationsNeedTheirPermissions(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	id := v.Public.ApplicationID()
	p := vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}
	none := given.Application(t, v, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}})
	for _, c := range []*vault.Client{none, v.Private} {
		for name, err := range map[string]error{
			"create":         must.Err(c.CreateApplication(t.Context(), p)),
			"get":            must.Err(c.GetApplication(t.Context(), id)),
			"list":           must.Err(c.ListApplications(t.Context(), vault.ListApplicationsParams{})),
			"replace":        must.Err(c.ReplaceApplication(t.Context(), id, p)),
			"patch":          must.Err(c.PatchApplication(t.Context(), id, vault.JSON(`{}`))),
			"regenerate":     must.Err(c.RegenerateKey(t.Context(), id)),
			"delete":         c.DeleteApplication(t.Context(), id),
			"get tenant":     must.Err(c.GetTenant(t.Context())),
			"update tenant":  must.Err(c.ReplaceTenant(t.Context(), vault.TenantParams{Name: "x"})),
			"create reactor": must.Err(c.CreateReactor(t.Context(), vault.ReactorParams{})),
			"create proxy":   must.Err(c.CreateProxy(t.Context(), vault.ProxyParams{})),
		} {
			must.Match(t, name, err, vault.ErrForbidden)
		}
	}
	must.Match(t, "logs", must.Err(v.Private.ListLogs(t.Context(), vault.ListLogsParams{})), vault.ErrForbidden)
	must.Match(t, "entity types", must.Err(v.Private.ListEntityTypes(t.Context())), vault.ErrForbidden)
}

func newSession(t *testing.T, v *vaulttest.Vault) *vault.Session {
	t.Helper()
	return must.Get(v.Public.CreateSession(t.Context()))(t)
}

func TestSessionHasNoAccessUntilAuthorized(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	given.Same(t, "expiry", s.ExpiresAt, vaulttest.Start.Add(3*time.Minute))
	if len(s.Nonce) < 22 || strings.ContainsAny(s.Nonce, "0OIl+/=_-") {
		t.Errorf("the nonce is not 22 or more base58 characters: %d", len(s.Nonce))
	}
	c := given.Authenticated(t, v.Vault, s.SessionKey)
	create := func() error {
		return must.Err(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))
	}
	must.Match(t, "before the authorization", create(), vault.ErrForbidden)
	must.Do(t, v.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}}))
	must.Match(t, "after it, with the same client", create(), nil)
	must.Match(t, "beyond the grant", must.Err(c.ListTokens(t.Context(), vault.ListTokensParams{})), vault.ErrForbidden)
}

// An authorization on one node takes effect on the others at once, because
// unauthorized sessions are not cached.
func TestAuthorizationReachesOtherNodesAtOnce(t *testing.T) {
	t.Parallel()
	vaults, _ := given.Nodes(t)
	tenant := given.TenantOf(t, vaults[0])
	app := must.Get(tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	s := must.Get(given.Authenticated(t, vaults[0], app.Key).CreateSession(t.Context()))(t)
	c := given.Authenticated(t, vaults[0], s.SessionKey)
	must.Match(t, "before", c.HasPermission(t.Context(), "token:read"), vault.ErrForbidden)
	must.Do(t, vaults[1].Tenant(tenant.TenantID()).AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}}))
	must.Match(t, "after", c.HasPermission(t.Context(), "token:read"), nil)
}

// Sessions are created with public keys and authorized with private keys.
func TestSessionsNeedTheRightKeyType(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	authorized := given.Session(t, v, vault.SessionGrant{Permissions: given.Everything})
	for name, c := range map[string]*vault.Client{"private": v.Private, "management": v.Management, "tenant": v.Owner.Client, "session": authorized} {
		must.Match(t, "created by "+name, must.Err(c.CreateSession(t.Context())), vault.ErrForbidden)
	}
	for name, c := range map[string]*vault.Client{"public": v.Public, "management": v.Management, "session": authorized} {
		err := c.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}})
		must.Match(t, "authorized by "+name, err, vault.ErrForbidden)
	}
}

func TestNonceCanBeUsedOnce(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	g := vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}}
	var wins, conflicts atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := v.Private.AuthorizeSession(t.Context(), g); {
			case err == nil:
				wins.Add(1)
			case errors.Is(err, vault.ErrConflict):
				conflicts.Add(1)
			default:
				t.Errorf("authorize: %v", err)
			}
		})
	}
	wg.Wait()
	given.Same(t, "authorizations", wins.Load(), 1)
	given.Same(t, "conflicts", conflicts.Load(), 7)
	g.Permissions = []vault.Permission{"token:read"}
	must.Match(t, "a used nonce", v.Private.AuthorizeSession(t.Context(), g), vault.ErrConflict)
	c := given.Authenticated(t, v.Vault, s.SessionKey)
	must.Match(t, "what the second grant would give", c.HasPermission(t.Context(), "token:read"), vault.ErrForbidden)
}

func TestUnknownNonces(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	try := func(c *vault.Client, nonce string) error {
		return c.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: nonce, Permissions: []vault.Permission{"token:create"}})
	}
	_, other := v.NewTenant(t, "Other")
	for name, err := range map[string]error{
		"made up": try(v.Private, "abcdefghijkmnopqrstuvwx"), "cut off": try(v.Private, s.Nonce[1:]),
		"the session's key": try(v.Private, s.SessionKey), "an application's key": try(v.Private, v.PublicKey), "another tenant's": try(other.Client, s.Nonce),
	} {
		must.Match(t, name, err, vault.ErrNotFound)
		given.WantSilent(t, err, s.Nonce, s.SessionKey, v.PublicKey)
	}
	v.Clock.Advance(3*time.Minute - time.Microsecond)
	late := newSession(t, v)
	v.Clock.Advance(time.Microsecond)
	must.Match(t, "expired", try(v.Private, s.Nonce), vault.ErrNotFound)
	must.Do(t, v.Owner.DeleteApplication(t.Context(), v.Public.ApplicationID()))
	must.Match(t, "of a deleted application", try(v.Private, late.Nonce), vault.ErrNotFound)
}

func TestGrantRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	for name, tt := range map[string]struct {
		g     vault.SessionGrant
		field string
	}{
		"no nonce":              {vault.SessionGrant{Permissions: []vault.Permission{"token:create"}}, "nonce"},
		"nothing granted":       {vault.SessionGrant{Nonce: s.Nonce}, "permissions"},
		"a management right":    {vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"log:read"}}, "permissions[0]"},
		"an unknown permission": {vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:see"}}, "permissions[0]"},
		"a bad rule":            {vault.SessionGrant{Nonce: s.Nonce, Rules: []vault.AccessRule{given.Rule(1, "/x", vault.TransformMask, "token:read")}}, "rules[0].container"},
		"expired":               {vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: vaulttest.Start}, "expires_at"},
	} {
		given.WantFields(t, name, v.Owner.AuthorizeSession(t.Context(), tt.g), tt.field)
	}
	var g vault.SessionGrant
	given.WantFields(t, "unknown fields", g.UnmarshalJSON([]byte(`{"nonce":"x","scope":"y"}`)), "scope")
	given.WantFields(t, "a date alone", g.UnmarshalJSON([]byte(`{"nonce":"x","expires_at":"2026-01-01"}`)), "expires_at")
	if err := v.Owner.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: given.Everything}); err != nil {
		t.Errorf("the nonce after refused grants: %v", err)
	}
}

// A client cannot grant a session more than it has itself.
func TestGrantCannotExceedTheAuthorizer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	pci := given.Private(t, v, given.Rule(1, "/pci/", vault.TransformMask, "token:read", "token:create"), given.Rule(2, "/pci/low/", vault.TransformReveal, "token:use"))
	plain := given.Holding(t, v, "token:read", "token:create")
	user := given.Holding(t, v, "token:read", "token:use")
	for name, tt := range map[string]struct {
		by      *vault.Client
		g       vault.SessionGrant
		allowed bool
	}{
		"narrower":                    {pci, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/pci/high/", vault.TransformRedact, "token:read")}}, true},
		"wider container":             {pci, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformMask, "token:read")}}, false},
		"plain permissions are wider": {pci, vault.SessionGrant{Permissions: []vault.Permission{"token:read"}}, false},
		"the best of read and use":    {pci, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/pci/low/", vault.TransformReveal, "token:read")}}, true},
		"reveal from plain use":       {user, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/x/", vault.TransformReveal, "token:read")}}, true},
		"one good and one bad":        {plain, vault.SessionGrant{Permissions: []vault.Permission{"token:create", "token:delete"}}, false},
		"everything from the tenant":  {v.Owner.Client, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, given.Everything...)}}, true},
	} {
		s := newSession(t, v)
		tt.g.Nonce = s.Nonce
		err := tt.by.AuthorizeSession(t.Context(), tt.g)
		given.WantAllowed(t, name, err, tt.allowed)
		if !tt.allowed {
			must.Match(t, name+": the session", given.Authenticated(t, v.Vault, s.SessionKey).HasPermission(t.Context(), "token:read"), vault.ErrForbidden)
		}
	}
}

func TestSessionExpires(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		expires time.Time
		life    time.Duration
	}{
		"by default after three minutes":      {time.Time{}, 3 * time.Minute},
		"when its authorization says":         {vaulttest.Start.Add(time.Hour), time.Hour},
		"earlier when its authorization says": {vaulttest.Start.Add(time.Minute), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			s := newSession(t, v)
			must.Do(t, v.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: tt.expires}))
			c := given.Authenticated(t, v.Vault, s.SessionKey)
			v.Clock.Advance(tt.life - time.Microsecond)
			must.Match(t, "just before its end", c.HasPermission(t.Context(), "token:create"), nil)
			v.Clock.Advance(time.Microsecond)
			must.Match(t, "the client", c.HasPermission(t.Context(), "token:create"), vault.ErrUnauthenticated)
			must.Match(t, "the key", must.Err(v.Authenticate(t.Context(), s.SessionKey)), vault.ErrUnauthenticated)
			given.Same(t, "the sweep deletes", must.Get(v.Sweep(t.Context()))(t).Sessions, 1)
			must.Match(t, "the key after the sweep", must.Err(v.Authenticate(t.Context(), s.SessionKey)), vault.ErrUnauthenticated)
		})
	}
}

// Entities that a session writes, and its log entries, name its application as the
// actor.
func TestSessionActsForItsApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Session(t, v, vault.SessionGrant{Rules: []vault.AccessRule{given.Rule(1, "/general/", vault.TransformReveal, "token:create", "token:read", "token:update")}})
	tok := given.Create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	app := v.Public.ApplicationID()
	given.Same(t, "creator", tok.CreatedBy, app)
	given.Same(t, "modifier", given.Update(t, c, tok.ID, `{"metadata":{"a":"b"}}`).ModifiedBy, app)
	given.Same(t, "application", c.ApplicationID(), app)
	given.WantData(t, "data", given.Get(t, c, tok.ID).Data, `"secret"`)
	for _, e := range given.Entries(t, v, vault.ListLogsParams{EntityID: tok.ID}) {
		given.Same(t, fmt.Sprint("the actor of ", e.Operation, ": id"), e.ActorID, app)
		given.Same(t, fmt.Sprint("the actor of ", e.Operation, ": type"), e.ActorType, "application")
	}
	_, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	must.Match(t, "in another container", err, vault.ErrForbidden)
}

// Clients with the permission can list and end active sessions, on every node.
func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	manager := given.Application(t, v, vault.ApplicationParams{Name: "ops", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"session:read", "session:delete"}})
	open := newSession(t, v)
	authorized := newSession(t, v)
	far := v.Clock.Now().Add(time.Hour)
	must.Do(t, v.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: authorized.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: far}))
	private := must.Get(v.Private.OwnApplication(t.Context()))(t)
	page, err := manager.ListSessions(t.Context(), vault.PageParams{})
	if err != nil || page.Pagination.TotalItems != 2 || len(page.Data) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	newest, oldest := page.Data[0], page.Data[1]
	if newest.AuthorizedBy != private.ID || !slices.Equal(newest.Permissions, []vault.Permission{"token:read"}) || !newest.ExpiresAt.Equal(far) {
		t.Errorf("the authorized session is %+v", newest)
	}
	if oldest.AuthorizedBy != (uuid.UUID{}) || oldest.Permissions != nil || !oldest.ExpiresAt.Equal(open.ExpiresAt) {
		t.Errorf("the open session is %+v", oldest)
	}
	second, err := manager.ListSessions(t.Context(), vault.PageParams{Page: 2, Size: 1})
	if err != nil || len(second.Data) != 1 || second.Data[0].ID != oldest.ID || second.Pagination.TotalPages != 2 {
		t.Errorf("the second page is %+v, %v", second, err)
	}

	c := given.Authenticated(t, v.Vault, authorized.SessionKey)
	must.Do(t, manager.DeleteSession(t.Context(), newest.ID))
	must.Match(t, "a session that was ended", must.Err(c.ListTokens(t.Context(), vault.ListTokensParams{})), vault.ErrUnauthenticated)
	must.Match(t, "ending it again", manager.DeleteSession(t.Context(), newest.ID), vault.ErrNotFound)
	v.Clock.Advance(10 * time.Minute)
	page = must.Get(manager.ListSessions(t.Context(), vault.PageParams{}))(t)
	given.Same(t, "sessions that are alive", page.Pagination.TotalItems, 0)
	must.Match(t, "ending one that expired", manager.DeleteSession(t.Context(), oldest.ID), vault.ErrNotFound)

	must.Match(t, "without session:read", must.Err(v.Private.ListSessions(t.Context(), vault.PageParams{})), vault.ErrForbidden)
	must.Match(t, "without session:delete", v.Private.DeleteSession(t.Context(), oldest.ID), vault.ErrForbidden)
}

func TestMaxSessionLife(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxSessionLife: time.Hour})
	lasting := func(life time.Duration) error {
		grant := vault.SessionGrant{Nonce: newSession(t, v).Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: v.Clock.Now().Add(life)}
		return v.Private.AuthorizeSession(t.Context(), grant)
	}
	must.Match(t, "within", lasting(time.Hour), nil)
	given.WantFields(t, "beyond", lasting(time.Hour+time.Second), "expires_at")
	short := vaulttest.Open(t, ":memory:", &vault.Config{MaxSessionLife: time.Minute})
	if s := newSession(t, short); s.ExpiresAt.Sub(short.Clock.Now()) > time.Minute {
		t.Errorf("a session lives until %s", s.ExpiresAt)
	}
}

// ways are the ways in which an application loses the rights that it granted.
var ways = map[string]func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error{
	"deleted": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		return v.Owner.DeleteApplication(ctx, app)
	},
	"given a new key": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		return must.Err(v.Owner.RegenerateKey(ctx, app))
	},
	"moved to another key": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		keys, err := v.Owner.ListApplicationKeys(ctx, app)
		if err != nil {
			return err
		}
		return errors.Join(must.Err(v.Owner.CreateApplicationKey(ctx, app, vault.ApplicationKeyParams{})), v.Owner.DeleteApplicationKey(ctx, app, keys[0].ID))
	},
	"expired": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		_, err := v.Owner.PatchApplication(ctx, app, map[string]any{"expires_at": v.Clock.Now().Add(time.Second)})
		v.Clock.Advance(time.Minute)
		return err
	},
}

// A session ends with the key that created it and with the key that authorized it,
// whatever its expiry is.
func TestSessionEndsWithItsKeys(t *testing.T) {
	t.Parallel()
	for name, lose := range ways {
		for who, creator := range map[string]bool{"creator": true, "authorizer": false} {
			t.Run(who+" "+name, func(t *testing.T) {
				t.Parallel()
				v := vaulttest.New(t)
				tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
				public, pub := given.NewApplication(t, v, vault.ApplicationParams{Name: "pub", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
				private, prv := given.NewApplication(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
				s, pending := must.Get(pub.CreateSession(t.Context()))(t), must.Get(pub.CreateSession(t.Context()))(t)
				far := v.Clock.Now().AddDate(100, 0, 0)
				must.Do(t, prv.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:use"}, ExpiresAt: far}))
				c := given.Authenticated(t, v.Vault, s.SessionKey)
				given.Same(t, "out", string(must.Get(c.Detokenize(t.Context(), "{{"+tok.ID+"}}"))(t)), `"secret"`)
				gone := private.ID
				if creator {
					gone = public.ID
				}
				must.Do(t, lose(t.Context(), v, gone))
				must.Match(t, "a session whose "+who+" was "+name, must.Err(c.Detokenize(t.Context(), "{{"+tok.ID+"}}")), vault.ErrUnauthenticated)
				must.Match(t, "its key", must.Err(v.Authenticate(t.Context(), s.SessionKey)), vault.ErrUnauthenticated)
				if creator {
					must.Match(t, "a session that waits", must.Err(v.Authenticate(t.Context(), pending.SessionKey)), vault.ErrUnauthenticated)
					grant := vault.SessionGrant{Nonce: pending.Nonce, Permissions: []vault.Permission{"token:create"}}
					must.Match(t, "its nonce", v.Private.AuthorizeSession(t.Context(), grant), vault.ErrNotFound)
				}
			})
		}
	}
}

// A session never has more than its authorizer could grant at that moment.
func TestSessionLosesRightsWithItsAuthorizer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, name := range []string{"a", "b"} {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok-" + name, Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/" + name + "/"}})
	}
	app, prv := given.NewApplication(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:read", "token:use", "token:search")}})
	s := newSession(t, v)
	grant := vault.SessionGrant{Nonce: s.Nonce, Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:read", "token:search")}}
	must.Do(t, prv.AuthorizeSession(t.Context(), grant))
	c := given.Authenticated(t, v.Vault, s.SessionKey)
	cut := func(rules ...vault.AccessRule) {
		t.Helper()
		must.Get(v.Owner.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Rules: rules}))(t)
	}
	given.WantData(t, "before", given.Get(t, c, "tok-a").Data, `"secret"`)

	cut(given.Rule(1, "/a/", vault.TransformMask, "token:read", "token:use", "token:search"))
	given.WantData(t, "masked for the authorizer", given.Get(t, c, "tok-a").Data, `"XXcret"`)
	must.Match(t, "outside of the authorizer's containers", must.Err(c.GetToken(t.Context(), "tok-b")), vault.ErrForbidden)
	got, total := given.List(t, c, vault.ListTokensParams{})
	given.Same(t, "the session lists: got", got, []string{"tok-a"})
	given.Same(t, "the session lists: total", total, 1)
	given.Same(t, "the session", search(t, c, "type:token"), []string{"tok-a"})

	cut(given.Rule(1, "/", vault.TransformReveal, "token:create"))
	must.Match(t, "without the authorizer's permission", must.Err(c.GetToken(t.Context(), "tok-a")), vault.ErrForbidden)

	cut(given.Rule(1, "/", vault.TransformReveal, "token:read", "token:use", "token:search"))
	given.WantData(t, "given back", given.Get(t, c, "tok-b").Data, `"secret"`)
}

// A client cannot change an application that holds more than the client could
// grant.
func TestApplicationsAreChangedOnlyByHoldersOfTheirRights(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	strong, _ := given.NewApplication(t, v, vault.ApplicationParams{Name: "strong", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:update", "log:read"}})
	plain, _ := given.NewApplication(t, v, vault.ApplicationParams{Name: "plain", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	_, weak := given.NewApplication(t, v, vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement,
		Permissions: []vault.Permission{"application:create", "application:read", "application:update", "application:delete"}})
	for what, do := range map[string]func(uuid.UUID) error{
		"rename": func(id uuid.UUID) error {
			return must.Err(weak.PatchApplication(t.Context(), id, vault.JSON(`{"name":"mine"}`)))
		},
		"replace": func(id uuid.UUID) error {
			return must.Err(weak.ReplaceApplication(t.Context(), id, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:read"}}))
		},
		"regenerate": func(id uuid.UUID) error { return must.Err(weak.RegenerateKey(t.Context(), id)) },
		"delete":     func(id uuid.UUID) error { return weak.DeleteApplication(t.Context(), id) },
	} {
		must.Match(t, what, do(strong.ID), vault.ErrForbidden)
	}
	if _, err := weak.PatchApplication(t.Context(), plain.ID, vault.JSON(`{"name":"renamed"}`)); err != nil {
		t.Errorf("an application that holds no more than its changer could grant: %v", err)
	}
	must.Match(t, "its deletion", weak.DeleteApplication(t.Context(), plain.ID), nil)
}

// A deleted application reads as absent where other entities refer to it, and does
// not block a later patch.
func TestDeletedApplicationIsAbsent(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": map[string]any{"client": in["application"]}}, nil
	})
	app, _ := given.NewApplication(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
	ref := app.ID
	r, err := w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}, ApplicationID: ref})
	if err != nil || r.ApplicationID == (uuid.UUID{}) {
		t.Fatalf("%v, %v", r, err)
	}
	x, err := w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/", ApplicationID: ref})
	if err != nil || x.ApplicationID == (uuid.UUID{}) {
		t.Fatalf("%v, %v", x, err)
	}
	must.Do(t, w.Owner.DeleteApplication(t.Context(), app.ID))
	absent := func(what string, r *vault.Reactor, x *vault.Proxy, err error) {
		t.Helper()
		if err != nil || r != nil && r.ApplicationID != (uuid.UUID{}) || x != nil && x.ApplicationID != (uuid.UUID{}) {
			t.Errorf("%s: the application exists, or %v", what, err)
		}
	}
	r, err = w.Management.GetReactor(t.Context(), r.ID)
	absent("get", r, nil, err)
	x, err = w.Management.GetProxy(t.Context(), x.ID)
	absent("get", nil, x, err)
	reactors, err := w.Management.ListReactors(t.Context(), vault.ListParams{IDs: []uuid.UUID{r.ID}})
	absent("list", &reactors.Data[0], nil, err)
	proxies, err := w.Management.ListProxies(t.Context(), vault.ListParams{})
	absent("list", nil, &proxies.Data[0], err)
	r, err = w.Management.PatchReactor(t.Context(), r.ID, vault.JSON(`{"name":"renamed"}`))
	absent("patch", r, nil, err)
	x, err = w.Management.PatchProxy(t.Context(), x.ID, vault.JSON(`{"name":"renamed"}`))
	absent("patch", nil, x, err)
	_, err = w.Management.PatchReactor(t.Context(), r.ID, vault.JSON(`{"application":{"id":"`+app.ID.String()+`"}}`))
	given.WantFields(t, "a patch that names it", err, "application.id")
	out := must.Get(w.Private.React(t.Context(), r.ID, vault.ReactParams{}))(t)
	given.Same(t, "the code runs with", string(out.Raw), `{"client":false}`)
}

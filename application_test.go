package vault_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// sameApplication compares what is visible of applications.
func sameApplication(t *testing.T, what string, got, want *vault.Application) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(vault.Application{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestCreateApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rules := []vault.AccessRule{{Description: "cards", Priority: 3, Container: "/PCI/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}}
	got, err := v.Management.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Checkout", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}, Rules: rules, ExpiresAt: vaulttest.Start.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^key_prv_[1-9A-HJ-NP-Za-km-z]{38}$`).MatchString(got.Key) {
		t.Error("the key is not of the form key_prv_<38 base58 characters>")
	}
	rules[0].Container = "/pci/"
	want := &vault.Application{ID: got.ID, TenantID: v.Acme.ID, Name: "Checkout", Type: vault.ApplicationPrivate, Key: got.Key, Permissions: []vault.Permission{"token:use"},
		Rules: rules, CreatedBy: v.Management.ApplicationID(), CreatedAt: vaulttest.Start, ExpiresAt: vaulttest.Start.Add(time.Hour)}
	sameApplication(t, "created application", got, want)
	want.Key = ""
	read, err := v.Management.GetApplication(t.Context(), got.ID)
	if err != nil {
		t.Fatal(err)
	}
	sameApplication(t, "application read", read, want)
	page, err := v.Management.ListApplications(t.Context(), vault.ListApplicationsParams{IDs: []uuid.UUID{got.ID}})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("list: %v", err)
	}
	sameApplication(t, "application listed", &page.Data[0], want)
	own, err := authenticated(t, v.Vault, got.Key).OwnApplication(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sameApplication(t, "own application", own, want)
	_, err = v.Owner.OwnApplication(t.Context())
	wantError(t, "the tenant's own application", err, vault.ErrNotFound)
}

func TestKeyKinds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s, err := v.Public.CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	may := map[vault.ApplicationType][]vault.Permission{vault.ApplicationPublic: {"token:create", "token:update"}, vault.ApplicationPrivate: everything}
	all, err := v.Public.ListPermissions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !slices.Contains(everything, p.Type) {
			may[vault.ApplicationManagement] = append(may[vault.ApplicationManagement], p.Type)
		}
	}
	same(t, "management permissions", may[vault.ApplicationManagement], []vault.Permission{
		"log:read", "reactor:create", "reactor:read", "reactor:update", "reactor:delete", "proxy:create", "proxy:read", "proxy:update", "proxy:delete",
		"application:create", "application:read", "application:update", "application:delete", "session:read", "session:delete", "tenant:read", "tenant:update"})
	for _, typ := range []vault.ApplicationType{vault.ApplicationPublic, vault.ApplicationPrivate, vault.ApplicationManagement} {
		for _, p := range all {
			allowed := slices.Contains(may[typ], p.Type)
			same(t, fmt.Sprint(p.Type, " in the catalogue for ", typ), slices.Contains(p.ApplicationTypes, typ), allowed)
			_, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Permissions: []vault.Permission{p.Type}})
			if allowed && err != nil {
				t.Errorf("%s for %s: %v", p.Type, typ, err)
			}
			if !allowed {
				wantFields(t, string(p.Type)+" for "+string(typ), err, "permissions[0]")
			}
			_, err = v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Rules: []vault.AccessRule{rule(1, "/", vault.TransformMask, p.Type)}})
			if (allowed && typ != vault.ApplicationManagement) != (err == nil) {
				t.Errorf("a rule with %s for %s: %v", p.Type, typ, err)
			}
		}
	}
}

func TestApplicationRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	good := func() vault.ApplicationParams {
		return vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{rule(1, "/", vault.TransformMask, "token:read")}}
	}
	condition := func(attribute vault.Attribute, operator vault.Operator, value string) []vault.Condition {
		return []vault.Condition{{Attribute: attribute, Operator: operator, Value: value}}
	}
	for name, tt := range map[string]struct {
		change func(*vault.ApplicationParams)
		field  string
	}{
		"no name":               {func(p *vault.ApplicationParams) { p.Name = " " }, "name"},
		"a long name":           {func(p *vault.ApplicationParams) { p.Name = strings.Repeat("x", 201) }, "name"},
		"NUL in the name":       {func(p *vault.ApplicationParams) { p.Name = "a\x00" }, "name"},
		"no type":               {func(p *vault.ApplicationParams) { p.Type = "" }, "type"},
		"an unknown type":       {func(p *vault.ApplicationParams) { p.Type = "session" }, "type"},
		"nothing granted":       {func(p *vault.ApplicationParams) { p.Rules = nil }, "permissions"},
		"an unknown permission": {func(p *vault.ApplicationParams) { p.Permissions = []vault.Permission{"token:see"} }, "permissions[0]"},
		"expired":               {func(p *vault.ApplicationParams) { p.ExpiresAt = vaulttest.Start }, "expires_at"},
		"priority 0":            {func(p *vault.ApplicationParams) { p.Rules[0].Priority = 0 }, "rules[0].priority"},
		"equal priorities":      {func(p *vault.ApplicationParams) { p.Rules = append(p.Rules, p.Rules[0]) }, "rules[1].priority"},
		"no transform":          {func(p *vault.ApplicationParams) { p.Rules[0].Transform = "" }, "rules[0].transform"},
		"an unknown transform":  {func(p *vault.ApplicationParams) { p.Rules[0].Transform = "show" }, "rules[0].transform"},
		"no permissions":        {func(p *vault.ApplicationParams) { p.Rules[0].Permissions = nil }, "rules[0].permissions"},
		"no container":          {func(p *vault.ApplicationParams) { p.Rules[0].Container = "" }, "rules[0].container"},
		"a bad container":       {func(p *vault.ApplicationParams) { p.Rules[0].Container = "/x" }, "rules[0].container"},
		"both kinds of cover":   {func(p *vault.ApplicationParams) { p.Rules[0].Conditions = condition("id", "equals", "x") }, "rules[0].container"},
		"an unknown attribute": {func(p *vault.ApplicationParams) {
			p.Rules[0].Container, p.Rules[0].Conditions = "", condition("type", "equals", "card")
		}, "rules[0].conditions[0].attribute"},
		"an unknown operator": {func(p *vault.ApplicationParams) {
			p.Rules[0].Container, p.Rules[0].Conditions = "", condition("id", "matches", "x")
		}, "rules[0].conditions[0].operator"},
		"a part of a container": {func(p *vault.ApplicationParams) {
			p.Rules[0].Container, p.Rules[0].Conditions = "", condition("container", "starts_with", "/pc")
		}, "rules[0].conditions[0].value"},
		"rules and a management key": {func(p *vault.ApplicationParams) { p.Type = vault.ApplicationManagement }, "rules"},
	} {
		p := good()
		tt.change(&p)
		_, err := v.Owner.CreateApplication(t.Context(), p)
		wantFields(t, name, err, tt.field)
	}
	p := good()
	p.Name = strings.Repeat("ä", 200)
	if _, err := v.Owner.CreateApplication(t.Context(), p); err != nil {
		t.Errorf("a name of 200 characters: %v", err)
	}
	var read vault.ApplicationParams
	wantFields(t, "unknown fields", read.UnmarshalJSON([]byte(`{"name":"x","key":"y","rules":[{"colour":1,"conditions":[{"z":1}]}]}`)),
		"key", "rules[0].colour", "rules[0].conditions[0].z")
}

// Management permissions can be given only by who holds them.
func TestPermissionsAreGrantedByHolders(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	admin := application(t, v, vault.ApplicationParams{Name: "Admin", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:create", "application:update", "application:read", "log:read"}})
	make := func(typ vault.ApplicationType, permissions ...vault.Permission) error {
		return second(admin.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: typ, Permissions: permissions}))
	}
	for name, err := range map[string]error{
		"its own": make(vault.ApplicationManagement, "log:read", "application:create"), "those on tokens": make(vault.ApplicationPrivate, everything...), "public ones": make(vault.ApplicationPublic, "token:create"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantError(t, "another", make(vault.ApplicationManagement, "log:read", "tenant:update"), vault.ErrForbidden)

	weak, err := admin.CreateApplication(t.Context(), vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.PatchApplication(t.Context(), weak.ID, vault.JSON(`{"permissions":["log:read","application:delete"]}`))
	wantError(t, "another by patch", err, vault.ErrForbidden)
	_, err = admin.ReplaceApplication(t.Context(), weak.ID, vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:delete"}})
	wantError(t, "another by replacement", err, vault.ErrForbidden)
	_, err = admin.RegenerateKey(t.Context(), v.Management.ApplicationID())
	wantError(t, "the key of a stronger application", err, vault.ErrForbidden)
	if _, err := v.Authenticate(t.Context(), v.ManagementKey); err != nil {
		t.Errorf("the old key after a refused regeneration: %v", err)
	}
}

func TestUpdateApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "old", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}, ExpiresAt: vaulttest.Start.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	c := authenticated(t, v.Vault, app.Key)
	v.Clock.Advance(time.Minute)
	got, err := v.Management.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"new","permissions":null,"rules":[{"priority":1,"container":"/","transform":"redact","permissions":["token:read"]}],"expires_at":null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &vault.Application{ID: app.ID, TenantID: v.Acme.ID, Name: "new", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{rule(1, "/", vault.TransformRedact, "token:read")},
		CreatedBy: v.Acme.ID, CreatedAt: vaulttest.Start, ModifiedBy: v.Management.ApplicationID(), ModifiedAt: vaulttest.Start.Add(time.Minute)}
	sameApplication(t, "patched application", got, want)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	wantData(t, "what the client sees at once", get(t, c, tok.ID).Data, ``)

	got, err = v.Management.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "third", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
	if err != nil {
		t.Fatal(err)
	}
	want.Name, want.Rules, want.Permissions = "third", nil, []vault.Permission{"token:use"}
	sameApplication(t, "replaced application", got, want)
	_, err = c.GetToken(t.Context(), tok.ID)
	wantError(t, "what the client may no longer do", err, vault.ErrForbidden)

	for patch, fields := range map[string][]string{
		`{"type":"public"}`: {"type"}, `{"type":"public","permissions":["token:create"]}`: {"type"}, `{"keys":"x"}`: {"keys"},
		`{"permissions":null}`: {"permissions"}, `{"name":null}`: {"name"}, `[]`: {""}, `{"expires_at":"2020-01-01T00:00:00Z"}`: {"expires_at"},
	} {
		_, err := v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(patch))
		wantFields(t, patch, err, fields...)
	}
	_, err = v.Owner.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
	wantFields(t, "another type", err, "type")
	after, err := v.Owner.GetApplication(t.Context(), app.ID)
	if err != nil {
		t.Fatal(err)
	}
	sameApplication(t, "application after refused changes", after, want)
	for name, err := range map[string]error{
		"patch":      second(v.Owner.PatchApplication(t.Context(), uuid.New(), vault.JSON(`{}`))),
		"replace":    second(v.Owner.ReplaceApplication(t.Context(), uuid.New(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})),
		"regenerate": second(v.Owner.RegenerateKey(t.Context(), uuid.New())),
		"get":        second(v.Owner.GetApplication(t.Context(), uuid.New())),
		"delete":     v.Owner.DeleteApplication(t.Context(), uuid.New()),
	} {
		wantError(t, name+" of a missing application", err, vault.ErrNotFound)
	}
}

func TestApplicationOperationsNeedTheirPermissions(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	id := v.Public.ApplicationID()
	p := vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}
	none := application(t, v, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}})
	for _, c := range []*vault.Client{none, v.Private} {
		for name, err := range map[string]error{
			"create":         second(c.CreateApplication(t.Context(), p)),
			"get":            second(c.GetApplication(t.Context(), id)),
			"list":           second(c.ListApplications(t.Context(), vault.ListApplicationsParams{})),
			"replace":        second(c.ReplaceApplication(t.Context(), id, p)),
			"patch":          second(c.PatchApplication(t.Context(), id, vault.JSON(`{}`))),
			"regenerate":     second(c.RegenerateKey(t.Context(), id)),
			"delete":         c.DeleteApplication(t.Context(), id),
			"get tenant":     second(c.GetTenant(t.Context())),
			"update tenant":  second(c.ReplaceTenant(t.Context(), vault.TenantParams{Name: "x"})),
			"create reactor": second(c.CreateReactor(t.Context(), vault.ReactorParams{})),
			"create proxy":   second(c.CreateProxy(t.Context(), vault.ProxyParams{})),
		} {
			wantError(t, name, err, vault.ErrForbidden)
		}
	}
	_, err := v.Private.ListLogs(t.Context(), vault.ListLogsParams{})
	wantError(t, "logs", err, vault.ErrForbidden)
	_, err = v.Private.ListEntityTypes(t.Context())
	wantError(t, "entity types", err, vault.ErrForbidden)
}

package vault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Reveal shows the data, mask its mask, and redact leaves the property out.
func TestTransforms(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	text := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Metadata: map[string]string{"k": "v"}})
	number := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: 1234567890})
	for transform, want := range map[vault.Transform][2]string{
		vault.TransformReveal: {`"secret"`, `1234567890`}, vault.TransformMask: {`"XXcret"`, ``}, vault.TransformRedact: {``, ``},
	} {
		c := given.Private(t, v, given.Rule(1, "/", transform, "token:read"))
		got := given.Get(t, c, text.ID)
		given.WantData(t, string(transform), got.Data, want[0])
		given.WantData(t, string(transform)+" without a mask", given.Get(t, c, number.ID).Data, want[1])
		given.WantData(t, string(transform)+": mask", got.Mask, `"{{ data | reveal_last: 4 }}"`)
		given.Same(t, "metadata", got.Metadata, map[string]string{"k": "v"})
		given.Same(t, "fingerprint", got.Fingerprint, text.Fingerprint)
	}
}

// Containers inherit downward, and only along whole segments.
func TestContainersInherit(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Private(t, v, given.Rule(1, "/PCI/Low/", vault.TransformReveal, given.Everything...))
	for container, allowed := range map[string]bool{
		"/pci/low/": true, "/pci/low/deep/er/": true, "/PCI/LOW/": true,
		"/pci/": false, "/pci/lower/": false, "/": false, "/x/pci/low/": false, "/pci/high/": false,
	} {
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Containers: []string{container}})
		for _, tt := range []struct {
			name string
			err  error
		}{
			{"create", must.Err(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{container}}))},
			{"read", must.Err(c.GetToken(t.Context(), tok.ID))},
			{"update", must.Err(c.PatchToken(t.Context(), tok.ID, vault.JSON(`{"metadata":{"a":"b"}}`)))},
			{"use", must.Err(c.Detokenize(t.Context(), vault.JSON(`"{{ `+tok.ID+` }}"`)))},
			{"delete", c.DeleteToken(t.Context(), tok.ID)},
		} {
			given.WantAllowed(t, tt.name+" in "+container, tt.err, allowed)
		}
		_, err := v.Owner.GetToken(t.Context(), tok.ID)
		given.Same(t, "in "+container+" deleted", err != nil, allowed)
	}
}

// A token in several containers needs the permission in each, and the
// strictest transform applies.
func TestSeveralContainers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Private(t, v, given.Rule(1, "/open/", vault.TransformReveal, given.Everything...), given.Rule(2, "/half/", vault.TransformMask, given.Everything...),
		given.Rule(3, "/shut/", vault.TransformRedact, given.Everything...))
	for _, tt := range []struct {
		containers []string
		want       string
		forbidden  bool
	}{
		{[]string{"/open/"}, `"secret"`, false},
		{[]string{"/open/", "/open/x/"}, `"secret"`, false},
		{[]string{"/open/", "/half/"}, `"XXcret"`, false},
		{[]string{"/shut/", "/open/", "/half/"}, ``, false},
		{[]string{"/open/", "/elsewhere/"}, ``, true},
	} {
		p := vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Containers: tt.containers}
		tok := given.Create(t, v.Owner.Client, p)
		got, err := c.GetToken(t.Context(), tok.ID)
		_, createErr := c.CreateToken(t.Context(), p)
		_, patchErr := c.PatchToken(t.Context(), tok.ID, vault.JSON(`{"metadata":{}}`))
		given.WantAllowed(t, "read", err, !tt.forbidden)
		given.WantAllowed(t, "create", createErr, !tt.forbidden)
		given.WantAllowed(t, "update", patchErr, !tt.forbidden)
		if err == nil {
			given.WantData(t, "data", got.Data, tt.want)
		}
		given.WantAllowed(t, "delete", c.DeleteToken(t.Context(), tok.ID), !tt.forbidden)
	}
}

// A client cannot access a token through a permission that it does not hold.
func TestEachOperationNeedsItsPermission(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"})
	operations := map[vault.Permission]func(*vault.Client) error{
		"token:create": func(c *vault.Client) error {
			return must.Err(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))
		},
		"token:read":   func(c *vault.Client) error { return must.Err(c.GetToken(t.Context(), tok.ID)) },
		"token:update": func(c *vault.Client) error { return must.Err(c.PatchToken(t.Context(), tok.ID, vault.JSON(`{}`))) },
		"token:search": func(c *vault.Client) error {
			return must.Err(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:card"}))
		},
		"token:use":    func(c *vault.Client) error { return must.Err(c.Detokenize(t.Context(), vault.JSON(`"{{ tok }}"`))) },
		"token:delete": func(c *vault.Client) error { return c.DeleteToken(t.Context(), tok.ID) },
	}
	for needed, do := range operations {
		for _, held := range given.Everything {
			if held != needed {
				must.Match(t, string(needed+" with "+held), do(given.Holding(t, v, held)), vault.ErrForbidden)
			}
		}
		must.Match(t, string(needed)+" with a management key", do(v.Management), vault.ErrForbidden)
	}
	for _, needed := range []vault.Permission{"token:create", "token:read", "token:update", "token:search", "token:use", "token:delete"} {
		must.Match(t, fmt.Sprint(needed, " with it"), operations[needed](given.Holding(t, v, needed)), nil)
	}
	_, err := given.Holding(t, v, "token:use").Tokenize(t.Context(), vault.JSON(`"x"`))
	must.Match(t, "Tokenize without token:create", err, vault.ErrForbidden)
	_, err = given.Holding(t, v, "token:use").ListTokens(t.Context(), vault.ListTokensParams{})
	must.Match(t, "ListTokens without token:read", err, vault.ErrForbidden)
	_, err = given.Holding(t, v, "token:use").Detokenize(t.Context(), vault.JSON(`"{{"`))
	must.Match(t, "the permission is there, so the body is judged", err, vault.ErrInvalid)
	_, err = given.Holding(t, v, "token:read").Detokenize(t.Context(), vault.JSON(`"{{"`))
	must.Match(t, "the permission is judged before the body", err, vault.ErrForbidden)
}

// Another tenant's token gives the same error as a missing token.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "ours", Type: vault.TypeGeneric, Data: "secret", SearchIndexes: []string{"{{ data }}"}, Metadata: map[string]string{"k": "v"}})
	for name, do := range map[string]func(id string) error{
		"get":    func(id string) error { return must.Err(other.GetToken(t.Context(), id)) },
		"update": func(id string) error { return must.Err(other.PatchToken(t.Context(), id, vault.JSON(`{}`))) },
		"delete": func(id string) error { return other.DeleteToken(t.Context(), id) },
	} {
		theirs, missing := do("ours"), do("none")
		must.Match(t, name, theirs, vault.ErrNotFound)
		given.Same(t, name+": text", theirs.Error(), missing.Error())
	}
	must.Match(t, "use", must.Err(other.Detokenize(t.Context(), vault.JSON(`"{{ ours }}"`))), vault.ErrInvalid)
	found, total := given.List(t, other.Client, vault.ListTokensParams{IDs: []string{"ours"}})
	given.Same(t, "list", found, []string{})
	given.Same(t, "total", total, 0)
	page := must.Get(other.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:secret OR metadata.k:v"}))(t)
	given.Same(t, "search finds", page.Pagination.TotalItems, 0)
	app := v.Private.ApplicationID()
	must.Match(t, "application", must.Err(other.GetApplication(t.Context(), app)), vault.ErrNotFound)
	must.Match(t, "acting as an application", must.Err(other.As(t.Context(), app)), vault.ErrNotFound)
}

func TestBadKeysAreUnauthenticated(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	key := v.PrivateKey
	swapped := key[:len(key)-1] + string("12"[btoi(key[len(key)-1] == '1')])
	middle := key[:20] + string("12"[btoi(key[20] == '1')]) + key[21:]
	for name, bad := range map[string]string{
		"none": "", "no key at all": "secret", "cut off": key[:len(key)-1], "one character too many": key + "1", "another checksum": swapped, "another character": middle,
		"another kind": strings.Replace(key, "prv", "mgt", 1), "an unknown kind": strings.Replace(key, "prv", "xyz", 1), "lower case": strings.ToLower(key), "space": " " + key,
		"only a prefix": "key_prv_", "master key": vault.NewKey().Text(), "huge": "key_prv_" + strings.Repeat("1", 1<<20),
	} {
		c, err := v.Authenticate(t.Context(), bad)
		must.Match(t, name, err, vault.ErrUnauthenticated)
		given.WantSilent(t, err, key)
		if c != nil {
			t.Errorf("%s: there is a client", name)
		}
	}
	_, elsewhere := vaulttest.New(t), vaulttest.New(t)
	must.Match(t, "a key of another vault", must.Err(v.Authenticate(t.Context(), elsewhere.PrivateKey)), vault.ErrUnauthenticated)
	s := must.Get(v.Public.CreateSession(t.Context()))(t)
	must.Match(t, "a nonce", must.Err(v.Authenticate(t.Context(), s.Nonce)), vault.ErrUnauthenticated)
	proxy := must.Get(v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: "https://example.com"}))(t)
	must.Match(t, "a proxy's key", must.Err(v.Authenticate(t.Context(), proxy.Key)), vault.ErrUnauthenticated)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A revoked key stops working at once on the node that revoked it, also for
// existing clients.
func TestRevokedKeyStopsWorkingAtOnce(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error{
		"delete": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			return v.Owner.DeleteApplication(t.Context(), id)
		},
		"regenerate": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			return must.Err(v.Owner.RegenerateKey(t.Context(), id))
		},
		"delete in Once": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			_, _, err := v.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
				return vault.StoredResponse{}, c.DeleteApplication(ctx, id)
			})
			return err
		},
		"expiry": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			_, err := v.Owner.PatchApplication(t.Context(), id, vault.JSON(`{"expires_at":"2026-01-01T12:00:01Z"}`))
			v.Clock.Advance(time.Second)
			return err
		},
		"tenant": func(t *testing.T, v *vaulttest.Vault, _ uuid.UUID) error {
			return v.DeleteTenant(t.Context(), v.Acme.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			must.Do(t, revoke(t, v, v.Private.ApplicationID()))
			must.Match(t, "the key", must.Err(v.Authenticate(t.Context(), v.PrivateKey)), vault.ErrUnauthenticated)
			_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			must.Match(t, "the client", err, vault.ErrUnauthenticated)
			must.Match(t, "Check", v.Private.HasPermission(t.Context(), "token:create"), vault.ErrUnauthenticated)
		})
	}
}

// A key that was revoked on one node stops working on the others within a
// second.
func TestRevocationReachesOtherNodes(t *testing.T) {
	t.Parallel()
	vaults, _ := given.Nodes(t)
	tenant := given.TenantOf(t, vaults[0])
	app := must.Get(tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}}))(t)
	there := given.Authenticated(t, vaults[1], app.Key)
	given.Create(t, there, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	must.Do(t, tenant.DeleteApplication(t.Context(), app.ID))
	revoked := time.Now()
	must.Match(t, "on the node that did it", must.Err(vaults[0].Authenticate(t.Context(), app.Key)), vault.ErrUnauthenticated)
	given.Eventually(t, "the other node still takes the key", func() bool {
		asked := time.Now()
		err := there.HasPermission(t.Context(), "token:create")
		if err == nil && asked.Sub(revoked) > time.Second {
			t.Fatalf("the key works %s after it was revoked", asked.Sub(revoked))
		}
		return errors.Is(err, vault.ErrUnauthenticated)
	})
}

// When the database does not respond, every key is refused.
func TestKeysAreRefusedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: given.Everything}))(t)
	s := must.Get(v.Public.CreateSession(t.Context()))(t)
	for _, tt := range []struct{ down, key string }{{"Lookup", app.Key}, {"Lookup", s.SessionKey}, {"Records", s.SessionKey}} {
		store.Before = func(call string, _ *storage.Change) error {
			if call == tt.down {
				return given.ErrDown
			}
			return nil
		}
		c, err := v.Authenticate(t.Context(), tt.key)
		if c != nil || !errors.Is(err, given.ErrDown) {
			t.Errorf("while %s fails: got a client: %v; %v", tt.down, c != nil, err)
		}
	}
	store.Before = nil
	given.Authenticated(t, v.Vault, app.Key)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for name, tt := range map[string]struct {
		c          *vault.Client
		permission vault.Permission
		want       error
	}{
		"held":               {v.Private, "token:read", nil},
		"held by a rule":     {given.Private(t, v, given.Rule(1, "/x/", vault.TransformRedact, "token:read")), "token:read", nil},
		"not held":           {v.Public, "token:read", vault.ErrForbidden},
		"none needed":        {v.Public, "", nil},
		"unknown":            {v.Owner.Client, "token:see", vault.ErrForbidden},
		"the tenant":         {v.Owner.Client, "tenant:update", nil},
		"session:create":     {v.Public, vault.PermissionSessionCreate, nil},
		"session:create 2":   {v.Private, vault.PermissionSessionCreate, vault.ErrForbidden},
		"session:authorize":  {v.Private, vault.PermissionSessionAuthorize, nil},
		"session:authorize2": {v.Public, vault.PermissionSessionAuthorize, vault.ErrForbidden},
		"no such tenant":     {v.Vault.Tenant(uuid.New()).Client, "token:read", vault.ErrNotFound},
	} {
		must.Match(t, name, tt.c.HasPermission(t.Context(), tt.permission), tt.want)
	}
}

// Only the tenant itself may act as its applications.
func TestAs(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := must.Get(v.Owner.As(t.Context(), v.Public.ApplicationID()))(t)
	tok := given.Create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	given.Same(t, "creator", tok.CreatedBy, v.Public.ApplicationID())
	must.Match(t, "beyond the application's rights", must.Err(c.GetToken(t.Context(), tok.ID)), vault.ErrForbidden)
	must.Match(t, "a missing application", must.Err(v.Owner.As(t.Context(), uuid.New())), vault.ErrNotFound)
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: given.Everything, ExpiresAt: vaulttest.Start.Add(time.Second)}))(t)
	v.Clock.Advance(time.Second)
	must.Match(t, "an expired application", must.Err(v.Owner.As(t.Context(), app.ID)), vault.ErrUnauthenticated)
}

// support may see bank accounts masked, and cards in plaintext if their ids mark
// them as test cards.
func support(t *testing.T, v *vaulttest.Vault) *vault.Application {
	t.Helper()
	return must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Support", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:search"},
		Rules: []vault.AccessRule{
			{Priority: 3, Description: "bank", Container: "/bank/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}},
			{Priority: 1, Container: "/", Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:delete"}},
			{Priority: 2, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"},
				Conditions: []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: "test-"}}},
		},
	}))(t)
}

func TestExplainText(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app := support(t, v)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "test-1", Type: vault.TypeCardNumber, Data: given.Visa, Containers: []string{"/pci/", "/bank/"}})
	for _, c := range []struct {
		params vault.ExplainParams
		want   string
	}{
		{vault.ExplainParams{Permission: "token:read", Containers: []string{"/BANK/high/"}}, `token:read is allowed: mask
Rule 3 of the application decides: mask.

application, /bank/high/: mask
  rule 1 does not carry the permission
  rule 2 covers other ids only
  rule 3 (bank) decides
`},
		{vault.ExplainParams{Permission: "token:read", Containers: []string{"/bank/", "/pci/"}}, `token:read is refused
No rule and no plain permission of the application allows token:read in /pci/.

application, /bank/: mask
  rule 1 does not carry the permission
  rule 2 covers other ids only
  rule 3 (bank) decides

application, /pci/: refused
  rule 1 does not carry the permission
  rule 2 covers other ids only
  rule 3 (bank) does not cover the container
`},
		{vault.ExplainParams{Permission: "token:read", TokenID: "test-1"}, `token:read is allowed: reveal
Rule 2 of the application decides: reveal.

application, /pci/: reveal
  rule 1 does not carry the permission
  rule 2 decides
  rule 3 (bank) is not asked

application, /bank/: reveal
  rule 1 does not carry the permission
  rule 2 decides
  rule 3 (bank) is not asked
`},
		{vault.ExplainParams{Permission: "token:search", Containers: []string{"/"}}, `token:search is allowed: mask
The plain permission of the application decides: mask.

application, /: mask
  rule 1 does not carry the permission
  rule 2 does not carry the permission
  rule 3 (bank) does not carry the permission
  the plain permission decides
`},
		{vault.ExplainParams{Permission: "log:read"}, "log:read is refused\nThe permission is not held.\n"},
	} {
		c.params.ApplicationID = app.ID
		e := must.Get(v.Owner.Explain(t.Context(), c.params))(t)
		given.Same(t, fmt.Sprintf("%+v", c.params), e.String(), c.want)
	}
}

// TestExplainSession follows a session from its creation to its end, including a
// loss of its authorizer's rights.
func TestExplainSession(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	app := support(t, v)
	authorizer := must.Get(v.Authenticate(ctx, app.Key))(t)
	s := must.Get(v.Public.CreateSession(ctx))(t)
	alive := must.Get(v.Owner.ListSessions(ctx, vault.PageParams{}))(t)
	asks := vault.ExplainParams{SessionID: alive.Data[0].ID, Permission: "token:read", Containers: []string{"/bank/"}}
	explained := func(want string) {
		t.Helper()
		e := must.Get(v.Owner.Explain(ctx, asks))(t)
		given.Same(t, "explanation", e.String(), want)
	}
	explained("token:read is refused\nThe session has not been authorized.\n")
	grant := vault.SessionGrant{Nonce: s.Nonce, Rules: []vault.AccessRule{{Priority: 7, Container: "/bank/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}}}
	must.Do(t, authorizer.AuthorizeSession(ctx, grant))
	explained(`token:read is allowed: mask
Rule 7 of the session decides: mask.

session, /bank/: mask
  rule 7 decides

authorizer, /bank/: mask, sees at best mask
  rule 1 does not carry the permission
  rule 2 covers other ids only
  rule 3 (bank) decides
`)
	must.Get(v.Owner.PatchApplication(ctx, app.ID, vault.JSON(`{"rules":null}`)))(t)
	explained(`token:read is refused
No rule and no plain permission of the authorizer allows token:read in /bank/.

session, /bank/: mask
  rule 7 decides

authorizer, /bank/: refused
  there are no rules
`)
	must.Do(t, v.Owner.DeleteApplication(ctx, app.ID))
	explained("token:read is refused\nThe session has ended.\n")
}

func TestExplainIsRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	app := support(t, v)
	limited := must.Get(v.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:read"}}))(t)
	reader := must.Get(v.Authenticate(ctx, limited.Key))(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "here", Type: vault.TypeGeneric, Data: "x"})
	bank := []string{"/bank/"}
	for name, c := range map[string]struct {
		client *vault.Client
		params vault.ExplainParams
		want   error
	}{
		"a private key":       {v.Private, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", Containers: bank}, vault.ErrForbidden},
		"a token that exists": {v.Management, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "here"}, vault.ErrForbidden},
		"a token that is not": {v.Management, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "gone"}, vault.ErrForbidden},
		"no such token":       {v.Owner.Client, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "gone"}, vault.ErrNotFound},
		"no such application": {v.Owner.Client, vault.ExplainParams{ApplicationID: uuid.New(), Permission: "token:read", Containers: bank}, vault.ErrNotFound},
		"a session":           {reader, vault.ExplainParams{SessionID: uuid.New(), Permission: "token:read", Containers: bank}, vault.ErrForbidden},
		"both":                {v.Owner.Client, vault.ExplainParams{ApplicationID: app.ID, SessionID: app.ID, Permission: "token:read", Containers: bank}, vault.ErrInvalid},
		"token and container": {v.Owner.Client, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "here", Containers: bank}, vault.ErrInvalid},
	} {
		must.Match(t, name, must.Err(c.client.Explain(ctx, c.params)), c.want)
	}
	if err := new(vault.ExplainParams).UnmarshalJSON([]byte(`{"permission":"token:read","token_id":"here"}`)); err == nil {
		t.Error("JSON takes a token")
	}
}

// TestMasked checks that a masked client cannot read plaintext in any way, and can
// still do what does not concern data.
func TestMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: given.Visa})
	revealing := must.Get(v.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "r", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
		{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read", "token:search", "token:use"}}}}))(t)
	app := must.Get(v.Authenticate(ctx, revealing.Key))(t)
	for name, c := range map[string]*vault.Client{"tenant": v.Owner.Client, "application": app, "user": v.Owner.AsUser("x").Client, "twice": v.Owner.Masked()} {
		m := c.Masked()
		token := must.Get(m.GetToken(ctx, "card"))(t)
		given.Same(t, name+": GetToken", string(token.Data), `"XXXXXXXXXXXX4242"`)
		list, err := m.ListTokens(ctx, vault.ListTokensParams{})
		if err != nil || len(list.Data) != 1 || strings.Contains(string(list.Data[0].Data), given.Visa) {
			t.Errorf("%s: ListTokens: %v", name, err)
		}
		found, err := m.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:card_number"})
		if err != nil || len(found.Data) != 1 || strings.Contains(string(found.Data[0].Data), given.Visa) {
			t.Errorf("%s: SearchTokens: %v", name, err)
		}
		must.Match(t, name+": Detokenize", must.Err(m.Detokenize(ctx, "{{ card }}")), vault.ErrForbidden)
	}
	must.Get(v.Owner.Masked().ListApplications(ctx, vault.ListApplicationsParams{}))(t)
	user := v.Owner.AsUser("ops").Masked()
	must.Get(user.GetToken(ctx, "card"))(t)
	by := given.Entries(t, v, vault.ListLogsParams{EntityID: "card"})
	if !slices.ContainsFunc(by, func(e vault.LogEntry) bool { return e.ActorName == "ops" && e.Operation == vault.OperationRead }) {
		t.Errorf("no entry is by the user: %+v", by)
	}
}

// A client from As has the rights that its application has at each operation.
func TestAsFollowsTheApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	app, _ := given.NewApplication(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	c := must.Get(v.Owner.As(t.Context(), app.ID))(t)
	given.Get(t, c, tok.ID)
	must.Get(v.Owner.RegenerateKey(t.Context(), app.ID))(t)
	given.Get(t, c, tok.ID) // it has no key
	must.Get(v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions":["token:create"]}`)))(t)
	must.Match(t, "without its permission", must.Err(c.GetToken(t.Context(), tok.ID)), vault.ErrForbidden)
	must.Do(t, v.Owner.DeleteApplication(t.Context(), app.ID))
	must.Match(t, "without its application", must.Err(c.GetToken(t.Context(), tok.ID)), vault.ErrUnauthenticated)
}

// The embedding program may act for one of its users, as the tenant or with a key. A
// user has the same id each time. The id depends on the tenant, and the log holds the
// program's name for the user.
func TestUserBySubject(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	other, elsewhere := v.NewTenant(t, "Other")
	id := uuid.New()
	long, jane := strings.Repeat("ü", 300), uuid.NewSHA1(v.Acme.ID, []byte("auth0|jane"))
	for n, c := range []struct {
		subject, name string
		id            uuid.UUID
	}{
		{"auth0|jane", "auth0|jane", uuid.NewSHA1(v.Acme.ID, []byte("auth0|jane"))},
		{id.String(), id.String(), id},
		{strings.ToUpper(id.String()), strings.ToUpper(id.String()), id},
		{"{" + id.String() + "}", "{" + id.String() + "}", uuid.NewSHA1(v.Acme.ID, []byte("{"+id.String()+"}"))},
		{jane.String(), jane.String(), uuid.NewSHA1(v.Acme.ID, []byte(jane.String()))}, // or this user would be Jane
		{long, long[:400], uuid.NewSHA1(v.Acme.ID, []byte(long))},
		{"a\nb\x00\xff", "a\uFFFDb\uFFFD\uFFFD", uuid.NewSHA1(v.Acme.ID, []byte("a\nb\x00\xff"))},
	} {
		for by, user := range map[string]*vault.Client{
			"tenant": v.Owner.AsUser(c.subject).Client, "application": v.Private.AsUser(c.subject),
		} {
			token := fmt.Sprintf("%s-%d", by, n)
			given.Same(t, c.name+": creator", given.Create(t, user, given.Text(token, "x")).CreatedBy, c.id)
			given.Get(t, user, token)
			for _, e := range given.Entries(t, v, vault.ListLogsParams{EntityID: token}) {
				given.Same(t, c.subject+": actor", []any{e.ActorID, e.ActorName, e.ActorType}, []any{c.id, c.name, vault.ActorUser})
			}
		}
	}
	_, err := v.Public.AsUser(id.String()).GetToken(t.Context(), "tenant-0")
	must.Match(t, "a user of an application without the right", err, vault.ErrForbidden)
	given.Create(t, v.Owner.Client, given.Text("by-tenant", "x"))
	of := given.Entries(t, v, vault.ListLogsParams{EntityID: "by-tenant"})[0]
	given.Same(t, "the actor of the tenant itself", []any{of.ActorID, of.ActorType}, []any{uuid.UUID{}, vault.ActorType("")})
	tok := given.Create(t, elsewhere.AsUser("auth0|jane").Client, generic)
	given.Same(t, "the id in another tenant", tok.CreatedBy, uuid.NewSHA1(other.ID, []byte("auth0|jane")))
	if e := given.Entries(t, v, vault.ListLogsParams{EntityType: "application"})[0]; e.ActorName != "" {
		t.Errorf("an actor that is not a user is called %q", e.ActorName)
	}
}

package vault_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// support may see bank accounts masked, and cards in clear if their ids say that
// they are for tests.
func support(t *testing.T, v *vaulttest.Vault) *vault.Application {
	t.Helper()
	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Support", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:search"},
		Rules: []vault.AccessRule{
			{Priority: 3, Description: "bank", Container: "/bank/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}},
			{Priority: 1, Container: "/", Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:delete"}},
			{Priority: 2, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"},
				Conditions: []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: "test-"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func TestExplainText(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app := support(t, v)
	create(t, v.Owner, vault.TokenParams{ID: "test-1", Type: vault.TypeCardNumber, Data: visa, Containers: []string{"/pci/", "/bank/"}})
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
		e, err := v.Owner.Explain(t.Context(), c.params)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, e.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.params, diff)
		}
	}
}

// TestExplainSession follows a session from its creation to its end, and through
// a cut of its authorizer's rights.
func TestExplainSession(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	app := support(t, v)
	authorizer, err := v.Authenticate(ctx, app.Key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Public.CreateSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	alive, err := v.Owner.ListSessions(ctx, vault.ListSessionsParams{})
	if err != nil {
		t.Fatal(err)
	}
	asks := vault.ExplainParams{SessionID: alive.Data[0].ID, Permission: "token:read", Containers: []string{"/bank/"}}
	explained := func(want string) {
		t.Helper()
		e, err := v.Owner.Explain(ctx, asks)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, e.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	explained("token:read is refused\nThe session has not been authorized.\n")
	grant := vault.Grant{Nonce: s.Nonce, Rules: []vault.AccessRule{{Priority: 7, Container: "/bank/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}}}
	if err := authorizer.AuthorizeSession(ctx, grant); err != nil {
		t.Fatal(err)
	}
	explained(`token:read is allowed: mask
Rule 7 of the session decides: mask.

session, /bank/: mask
  rule 7 decides

authorizer, /bank/: mask, sees at best mask
  rule 1 does not carry the permission
  rule 2 covers other ids only
  rule 3 (bank) decides
`)
	if _, err := v.Owner.PatchApplication(ctx, app.ID, vault.JSON(`{"rules":null}`)); err != nil {
		t.Fatal(err)
	}
	explained(`token:read is refused
No rule and no plain permission of the authorizer allows token:read in /bank/.

session, /bank/: mask
  rule 7 decides

authorizer, /bank/: refused
  there are no rules
`)
	if err := v.Owner.DeleteApplication(ctx, app.ID); err != nil {
		t.Fatal(err)
	}
	explained("token:read is refused\nThe session has ended.\n")
}

func TestExplainIsRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	app := support(t, v)
	limited, err := v.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:read"}})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := v.Authenticate(ctx, limited.Key)
	if err != nil {
		t.Fatal(err)
	}
	create(t, v.Owner, vault.TokenParams{ID: "here", Type: vault.TypeGeneric, Data: "x"})
	bank := []string{"/bank/"}
	for name, c := range map[string]struct {
		client *vault.Client
		params vault.ExplainParams
		want   error
	}{
		"a private key":       {v.Private, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", Containers: bank}, vault.ErrForbidden},
		"a token that exists": {v.Management, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "here"}, vault.ErrForbidden},
		"a token that is not": {v.Management, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "gone"}, vault.ErrForbidden},
		"no such token":       {v.Owner, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "gone"}, vault.ErrNotFound},
		"no such application": {v.Owner, vault.ExplainParams{ApplicationID: uuid.New(), Permission: "token:read", Containers: bank}, vault.ErrNotFound},
		"a session":           {reader, vault.ExplainParams{SessionID: uuid.New(), Permission: "token:read", Containers: bank}, vault.ErrForbidden},
		"both":                {v.Owner, vault.ExplainParams{ApplicationID: app.ID, SessionID: app.ID, Permission: "token:read", Containers: bank}, vault.ErrInvalid},
		"token and container": {v.Owner, vault.ExplainParams{ApplicationID: app.ID, Permission: "token:read", TokenID: "here", Containers: bank}, vault.ErrInvalid},
	} {
		_, err := c.client.Explain(ctx, c.params)
		wantError(t, name, err, c.want)
	}
	if err := new(vault.ExplainParams).UnmarshalJSON([]byte(`{"permission":"token:read","token_id":"here"}`)); err == nil {
		t.Error("JSON takes a token")
	}
}

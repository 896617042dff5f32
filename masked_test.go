package vault_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestMasked finds that no way of reading gives a masked client data in clear,
// and that it may still do what is not about data.
func TestMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	create(t, v.Owner, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: visa})
	revealing, err := v.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "r", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
		{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read", "token:search", "token:use"}}}})
	if err != nil {
		t.Fatal(err)
	}
	app, err := v.Authenticate(ctx, revealing.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*vault.Client{"tenant": v.Owner, "application": app, "user": v.Owner.AsUser("x"), "twice": v.Owner.Masked()} {
		m := c.Masked()
		token, err := m.GetToken(ctx, "card")
		if err != nil || string(token.Data) != `"XXXXXXXXXXXX4242"` {
			t.Errorf("%s: GetToken: %s, %v", name, token.Data, err)
		}
		list, err := m.ListTokens(ctx, vault.ListTokensParams{})
		if err != nil || len(list.Data) != 1 || strings.Contains(string(list.Data[0].Data), visa) {
			t.Errorf("%s: ListTokens: %v", name, err)
		}
		found, err := m.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:card_number"})
		if err != nil || len(found.Data) != 1 || strings.Contains(string(found.Data[0].Data), visa) {
			t.Errorf("%s: SearchTokens: %v", name, err)
		}
		_, err = m.Detokenize(ctx, "{{ card }}")
		wantError(t, name+": Detokenize", err, vault.ErrForbidden)
	}
	if _, err := v.Owner.Masked().ListApplications(ctx, vault.ListApplicationsParams{}); err != nil {
		t.Error(err)
	}
	user := v.Owner.AsUser("ops").Masked()
	if _, err := user.GetToken(ctx, "card"); err != nil {
		t.Fatal(err)
	}
	by := entries(t, v, vault.ListLogsParams{EntityID: "card"})
	if !slices.ContainsFunc(by, func(e vault.LogEntry) bool { return e.ActorName == "ops" && e.Operation == vault.OperationRead }) {
		t.Errorf("no entry is by the user: %+v", by)
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s, err := v.System(t.Context())
	if err != nil || len(s.Migrations) == 0 || len(s.Pools) == 0 || s.Config.MaxBytes != 5<<20 || s.Workers != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

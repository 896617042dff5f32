package vaultclient_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// nobody is an id that no entity has.
var nobody = uuid.MustParse("00000000-0000-4000-8000-000000000000")

func sessionLifecycle(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"})
	s, err := w.public.CreateSession(ctx)
	w.saw("CreateSession", s, err)
	session := w.as(s.SessionKey)
	w.see("GetToken before")(session.GetToken(ctx, "tok"))
	grant := vault.SessionGrant{Nonce: s.Nonce, ExpiresAt: w.Clock.Now().Add(time.Hour).In(time.FixedZone("west", -3600)), Rules: []vault.AccessRule{
		{Description: "all", Priority: 1, Conditions: []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: "to"}}, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}}}
	for range 2 {
		w.saw("AuthorizeSession", nil, w.private.AuthorizeSession(ctx, grant))
	}
	w.see("GetToken after")(session.GetToken(ctx, "tok"))
	w.see("OwnApplication")(session.OwnApplication(ctx))
	w.Clock.Advance(2 * time.Hour)
	w.see("GetToken when it has ended")(session.GetToken(ctx, "tok"))
	w.see("CreateSession by a private key")(w.private.CreateSession(ctx))
}

func authorizeRefused(w *apiVault) {
	ctx := w.t.Context()
	s := must.Get(w.Public.CreateSession(ctx))(w.t)
	for i, g := range []vault.SessionGrant{
		{}, {Nonce: "unknown", Permissions: []vault.Permission{"token:read"}}, {Nonce: s.Nonce}, {Nonce: s.Nonce, Permissions: []vault.Permission{"log:read", "nope"}},
		{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: w.Clock.Now()},
		{Nonce: s.Nonce, Rules: []vault.AccessRule{{Priority: 0, Container: "x", Transform: "nope", Permissions: []vault.Permission{}}}},
		{Nonce: s.Nonce, Rules: []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"}}}},
	} {
		w.saw(fmt.Sprint("AuthorizeSession ", i), nil, w.private.AuthorizeSession(ctx, g))
	}
	w.saw("AuthorizeSession by a public key", nil, w.public.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}}))
}

func listSessions(w *apiVault) {
	ctx := w.t.Context()
	for range 3 {
		s := must.Get(w.Public.CreateSession(ctx))(w.t)
		must.Do(w.t, w.Private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}}))
		w.Clock.Advance(time.Second)
	}
	for _, p := range []vault.PageParams{{}, {Page: 2, Size: 2}, {Size: 1000}} {
		w.see("ListSessions")(w.management.ListSessions(ctx, p))
	}
	w.see("ListSessions by a private key")(w.private.ListSessions(ctx, vault.PageParams{}))
}

func deleteSession(w *apiVault) {
	ctx := w.t.Context()
	s := must.Get(w.Public.CreateSession(ctx))(w.t)
	page := must.Get(w.Owner.ListSessions(ctx, vault.PageParams{}))(w.t)
	session := w.as(s.SessionKey)
	for range 2 {
		w.saw("DeleteSession", nil, w.management.DeleteSession(ctx, page.Data[0].ID))
	}
	w.see("GetToken")(session.GetToken(ctx, "tok"))
	w.saw("DeleteSession by a private key", nil, w.private.DeleteSession(ctx, page.Data[0].ID))
}

// shop returns parameters of an application with every field set.
func (w *apiVault) shop() vault.ApplicationParams {
	return vault.ApplicationParams{Name: "Shop <&> ü", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use", "token:read"},
		ExpiresAt: w.Clock.Now().Add(time.Hour), Rules: []vault.AccessRule{
			{Description: "cards", Priority: 1, Container: "/PCI/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"}},
			{Priority: 2, Conditions: []vault.Condition{{Attribute: "container", Operator: "equals", Value: "/bank/"}}, Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:delete"}},
			{Priority: 3, Container: "/pay/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}, Destinations: []string{"API.stripe.com", "*.example.com:8443"}}}}
}

func createApplication(w *apiVault) {
	ctx := w.t.Context()
	for i, p := range []vault.ApplicationParams{
		w.shop(), {Name: "plain", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}, Rules: []vault.AccessRule{}},
		{}, {Name: "x", Type: "nope"}, {Name: "x", Type: vault.ApplicationPublic}, {Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"log:read"}},
		{Name: "x", Type: vault.ApplicationManagement, Rules: w.shop().Rules}, {Name: "x\x00", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}},
		{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}, ExpiresAt: w.Clock.Now()},
		{Name: "x", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}, Destinations: []string{}}}},
	} {
		w.see(fmt.Sprint("CreateApplication ", i))(w.management.CreateApplication(ctx, p))
	}
	w.see("CreateApplication by a private key")(w.private.CreateApplication(ctx, w.shop()))
	limited := must.Get(w.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:create"}}))(w.t)
	w.see("CreateApplication with more than its maker has")(w.as(limited.Key).CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}}))
}

func getApplication(w *apiVault) {
	made := must.Get(w.Management.CreateApplication(w.t.Context(), w.shop()))(w.t)
	for _, id := range []uuid.UUID{made.ID, nobody, {}} {
		w.see("GetApplication")(w.management.GetApplication(w.t.Context(), id))
	}
	w.see("GetApplication by a private key")(w.private.GetApplication(w.t.Context(), made.ID))
}

func listApplications(w *apiVault) {
	made := must.Get(w.Management.CreateApplication(w.t.Context(), w.shop()))(w.t)
	for i, p := range []vault.ListApplicationsParams{
		{}, {PageParams: vault.PageParams{Page: 2, Size: 2}}, {IDs: []uuid.UUID{made.ID, nobody}}, {IDs: []uuid.UUID{nobody}}, {PageParams: vault.PageParams{Size: 101}},
	} {
		w.see(fmt.Sprint("ListApplications ", i))(w.management.ListApplications(w.t.Context(), p))
	}
}

func replaceApplication(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	w.Clock.Advance(time.Second)
	for i, p := range []vault.ApplicationParams{
		{Name: "New", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}, {Name: "New", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}, {},
	} {
		w.see(fmt.Sprint("ReplaceApplication ", i))(w.management.ReplaceApplication(ctx, made.ID, p))
	}
	w.see("ReplaceApplication of none")(w.management.ReplaceApplication(ctx, nobody, w.shop()))
}

func patchApplication(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	w.Clock.Advance(time.Second)
	for _, patch := range []string{`{"name":"Patched"}`, `{"rules":null,"expires_at":null}`, `{}`, `{"type":"public"}`, `{"nope":1}`, `[]`, ``, `{"permissions":null}`} {
		w.see("PatchApplication " + patch)(w.management.PatchApplication(ctx, made.ID, vault.JSON(patch)))
	}
	w.see("PatchApplication of none")(w.management.PatchApplication(ctx, nobody, vault.JSON(`{}`)))
	updater := must.Get(w.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:update"}}))(w.t)
	_, err := w.as(updater.Key).PatchApplication(ctx, made.ID, vault.JSON(`{"name":"by one who may not read"}`))
	if err != nil && !errors.Is(err, vaultclient.ErrUnseen) { // in process, the result is returned
		w.t.Errorf("PatchApplication without read permission: %v", err)
	}
	w.see("GetApplication as patched by one who may not read")(w.management.GetApplication(ctx, made.ID))
	w.see("ListLogs")(w.management.ListLogs(ctx, vault.ListLogsParams{EntityType: "application"}))
}

func deleteApplication(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	c := w.as(made.Key)
	w.see("ListTokens")(c.ListTokens(ctx, vault.ListTokensParams{}))
	for range 2 {
		w.saw("DeleteApplication", nil, w.management.DeleteApplication(ctx, made.ID))
	}
	w.see("ListTokens")(c.ListTokens(ctx, vault.ListTokensParams{}))
	w.saw("DeleteToken", nil, c.DeleteToken(ctx, "some"))
	w.see("CreateToken")(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1}))
}

func explain(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	session := must.Get(w.Public.CreateSession(ctx))(w.t)
	must.Do(w.t, w.Private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: session.Nonce, Permissions: []vault.Permission{"token:read"}}))
	alive := must.Get(w.Management.ListSessions(ctx, vault.PageParams{}))(w.t)
	pci := []string{"/PCI/high/"}
	for i, p := range []vault.ExplainParams{
		{ApplicationID: made.ID, Permission: "token:read", Containers: pci},
		{ApplicationID: made.ID, Permission: "token:delete", Containers: []string{"/bank/", "/pci/"}},
		{ApplicationID: made.ID, Permission: "log:read"},
		{SessionID: alive.Data[0].ID, Permission: "token:read", Containers: pci},
		{SessionID: alive.Data[0].ID, Permission: "token:use", Containers: pci},
		{ApplicationID: nobody, Permission: "token:read", Containers: pci}, {SessionID: nobody, Permission: "token:read", Containers: pci},
		{}, {ApplicationID: made.ID, Permission: "nope"}, {ApplicationID: made.ID, Permission: "token:read"}, {ApplicationID: made.ID, Permission: "log:read", Containers: pci},
	} {
		w.see(fmt.Sprint("Explain ", i))(w.management.Explain(ctx, p))
	}
	w.see("Explain by a private key")(w.private.Explain(ctx, vault.ExplainParams{ApplicationID: made.ID, Permission: "token:read", Containers: pci}))
	_, err := w.management.Explain(ctx, vault.ExplainParams{ApplicationID: made.ID, Permission: "token:read", TokenID: "some"})
	must.Match(w.t, "Explain of a token", err, vault.ErrForbidden)
}

func ownApplication(w *apiVault) {
	for _, c := range []vault.API{w.public, w.private, w.management} {
		w.see("OwnApplication")(c.OwnApplication(w.t.Context()))
	}
}

func tellNow(w *apiVault) {
	w.see("Now")(w.private.Now(w.t.Context()))
	w.Clock.Advance(400 * 24 * time.Hour)
	w.see("Now, a year later")(w.public.Now(w.t.Context()))
}

func createKeys(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	k, err := w.management.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{ExpiresAt: w.Clock.Now().Add(time.Hour)})
	w.saw("CreateApplicationKey", k, err)
	w.see("with the new key")(w.as(k.Key).ListTokens(ctx, vault.ListTokensParams{}))
	w.see("with the old key")(w.as(made.Key).ListTokens(ctx, vault.ListTokensParams{}))
	for _, end := range []time.Time{w.Clock.Now().Add(-time.Hour), {}, {}} {
		w.see("CreateApplicationKey")(w.management.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{ExpiresAt: end}))
	}
	w.see("CreateApplicationKey of none")(w.management.CreateApplicationKey(ctx, nobody, vault.ApplicationKeyParams{}))
	w.see("CreateApplicationKey by a private key")(w.private.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{}))
	p := w.shop()
	p.Name, p.CreateKey = "keyless", new(false)
	keyless, err := w.management.CreateApplication(ctx, p)
	w.saw("CreateApplication without a key", keyless, err)
	w.see("ListApplicationKeys of none")(w.management.ListApplicationKeys(ctx, keyless.ID))
	w.see("ReplaceApplication with create_key")(w.management.ReplaceApplication(ctx, keyless.ID, p))
	w.see("ApplyApplication again")(w.management.ApplyApplication(ctx, p))
}

func listKeys(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	w.Clock.Advance(time.Minute)
	must.Get(w.Management.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{}))(w.t)
	w.see("ListApplicationKeys")(w.management.ListApplicationKeys(ctx, made.ID))
	w.see("ListApplicationKeys of none")(w.management.ListApplicationKeys(ctx, nobody))
	w.see("ListApplicationKeys by a private key")(w.private.ListApplicationKeys(ctx, made.ID))
}

func getKey(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	k := must.Get(w.Management.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{}))(w.t)
	w.see("GetApplicationKey")(w.management.GetApplicationKey(ctx, made.ID, k.ID))
	w.see("GetApplicationKey of none")(w.management.GetApplicationKey(ctx, made.ID, nobody))
	w.see("GetApplicationKey of another application")(w.management.GetApplicationKey(ctx, w.Private.ApplicationID(), k.ID))
}

func deleteKey(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	k := must.Get(w.Management.CreateApplicationKey(ctx, made.ID, vault.ApplicationKeyParams{}))(w.t)
	gone, stays := w.as(k.Key), w.as(made.Key)
	for range 2 {
		w.saw("DeleteApplicationKey", nil, w.management.DeleteApplicationKey(ctx, made.ID, k.ID))
	}
	w.see("with the deleted key")(gone.ListTokens(ctx, vault.ListTokensParams{}))
	w.see("with the other key")(stays.ListTokens(ctx, vault.ListTokensParams{}))
}

func regenerateKey(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateApplication(ctx, w.shop()))(w.t)
	old := w.as(made.Key)
	w.Clock.Advance(time.Second)
	app, err := w.management.RegenerateKey(ctx, made.ID)
	w.saw("RegenerateKey", app, err)
	w.see("ListTokens with the old key")(old.ListTokens(ctx, vault.ListTokensParams{}))
	w.see("ListTokens with the new key")(w.as(app.Key).ListTokens(ctx, vault.ListTokensParams{}))
	w.see("RegenerateKey of none")(w.management.RegenerateKey(ctx, nobody))
}

func listPermissions(w *apiVault) {
	for _, c := range []vault.API{w.public, w.management} {
		w.see("ListPermissions")(c.ListPermissions(w.t.Context()))
	}
}

func getTenant(w *apiVault) {
	for _, c := range []vault.API{w.management, w.private} {
		w.see("GetTenant")(c.GetTenant(w.t.Context()))
	}
}

func updateTenant(w *apiVault) {
	w.Clock.Advance(time.Second)
	for _, p := range []vault.TenantParams{{Name: "New <ü>", Settings: vault.TenantSettings{DeduplicateTokens: true}}, {Name: "Old"}, {}} {
		w.see("ReplaceTenant")(w.management.ReplaceTenant(w.t.Context(), p))
	}
	w.see("ReplaceTenant by a private key")(w.private.ReplaceTenant(w.t.Context(), vault.TenantParams{Name: "x"}))
}

// listLogs checks the filters, and that calls leave the same log entries in
// process and over HTTP.
func listLogs(w *apiVault) {
	ctx := w.t.Context()
	start := w.Clock.Now()
	for _, call := range []func() error{
		func() error {
			return must.Err(w.private.CreateToken(ctx, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: 1}))
		},
		func() error { return must.Err(w.private.GetToken(ctx, "tok")) },
		func() error { return must.Err(w.private.PatchToken(ctx, "tok", vault.JSON(`{"data":2}`))) },
		func() error { return must.Err(w.private.Detokenize(ctx, "{{ tok }}")) },
		func() error { return must.Err(w.public.CreateSession(ctx)) },
		func() error { return must.Err(w.management.GetTenant(ctx)) },
		func() error { return w.private.DeleteToken(ctx, "tok") },
		func() error { return w.private.DeleteToken(ctx, "tok") },
	} {
		w.Clock.Advance(time.Minute)
		w.saw("a call", nil, call())
	}
	for i, p := range []vault.ListLogsParams{
		{}, {EntityType: "token"}, {EntityID: "tok", PageParams: vault.PageParams{Page: 2, Size: 2}}, {EntityID: "no body&="},
		{StartDate: start.Add(2 * time.Minute), EndDate: start.Add(4 * time.Minute).In(time.FixedZone("east", 7200))},
		{PageParams: vault.PageParams{Page: -1}}, {EntityType: "\x00"},
	} {
		w.see(fmt.Sprint("ListLogs ", i))(w.management.ListLogs(ctx, p))
	}
	w.see("ListLogs by a private key")(w.private.ListLogs(ctx, vault.ListLogsParams{}))
}

func listEntityTypes(w *apiVault) {
	for _, c := range []vault.API{w.management, w.private} {
		w.see("ListEntityTypes")(c.ListEntityTypes(w.t.Context()))
	}
}

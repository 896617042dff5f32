package vault_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func newSession(t *testing.T, v *vaulttest.Vault) *vault.Session {
	t.Helper()
	s, err := v.Public.CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSessionHasNoAccessUntilAuthorized(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	same(t, "expiry", s.ExpiresAt, vaulttest.Start.Add(3*time.Minute))
	if len(s.Nonce) < 22 || strings.ContainsAny(s.Nonce, "0OIl+/=_-") {
		t.Errorf("the nonce is not 22 or more base58 characters: %d", len(s.Nonce))
	}
	c := authenticated(t, v.Vault, s.SessionKey)
	create := func() error {
		return second(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))
	}
	wantError(t, "before the authorization", create(), vault.ErrForbidden)
	if err := v.Private.AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}}); err != nil {
		t.Fatal(err)
	}
	if err := create(); err != nil {
		t.Errorf("after it, with the same client: %v", err)
	}
	_, err := c.ListTokens(t.Context(), vault.ListTokensParams{})
	wantError(t, "beyond the grant", err, vault.ErrForbidden)
}

// What one node authorizes counts on the others at once: a session that waits
// is not remembered.
func TestAuthorizationReachesOtherNodesAtOnce(t *testing.T) {
	t.Parallel()
	vaults, _ := nodes(t)
	tenant := tenantOf(t, vaults[0])
	app, err := tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := authenticated(t, vaults[0], app.Key).CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := authenticated(t, vaults[0], s.SessionKey)
	wantError(t, "before", c.Check(t.Context(), "token:read"), vault.ErrForbidden)
	if err := vaults[1].Tenant(tenant.TenantID()).AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context(), "token:read"); err != nil {
		t.Errorf("after: %v", err)
	}
}

// Sessions are created with public keys and authorized with private ones.
func TestSessionsNeedTheRightKind(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	authorized := session(t, v, vault.Grant{Permissions: everything})
	for name, c := range map[string]*vault.Client{"private": v.Private, "management": v.Management, "tenant": v.Owner, "session": authorized} {
		_, err := c.CreateSession(t.Context())
		wantError(t, "created by "+name, err, vault.ErrForbidden)
	}
	for name, c := range map[string]*vault.Client{"public": v.Public, "management": v.Management, "session": authorized} {
		err := c.AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}})
		wantError(t, "authorized by "+name, err, vault.ErrForbidden)
	}
}

func TestNonceIsForOnce(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	g := vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}}
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
	same(t, "authorizations", wins.Load(), 1)
	same(t, "conflicts", conflicts.Load(), 7)
	g.Permissions = []vault.Permission{"token:read"}
	wantError(t, "a used nonce", v.Private.AuthorizeSession(t.Context(), g), vault.ErrConflict)
	c := authenticated(t, v.Vault, s.SessionKey)
	wantError(t, "what the second grant would give", c.Check(t.Context(), "token:read"), vault.ErrForbidden)
}

func TestUnknownNonces(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	try := func(c *vault.Client, nonce string) error {
		return c.AuthorizeSession(t.Context(), vault.Grant{Nonce: nonce, Permissions: []vault.Permission{"token:create"}})
	}
	_, other := v.NewTenant(t, "Other")
	for name, err := range map[string]error{
		"made up": try(v.Private, "abcdefghijkmnopqrstuvwx"), "cut off": try(v.Private, s.Nonce[1:]),
		"the session's key": try(v.Private, s.SessionKey), "an application's key": try(v.Private, v.PublicKey), "another tenant's": try(other, s.Nonce),
	} {
		wantError(t, name, err, vault.ErrNotFound)
		wantSilent(t, err, s.Nonce, s.SessionKey, v.PublicKey)
	}
	v.Clock.Advance(3*time.Minute - time.Microsecond)
	late := newSession(t, v)
	v.Clock.Advance(time.Microsecond)
	wantError(t, "expired", try(v.Private, s.Nonce), vault.ErrNotFound)
	if err := v.Owner.DeleteApplication(t.Context(), v.Public.ApplicationID()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "of a deleted application", try(v.Private, late.Nonce), vault.ErrNotFound)
}

func TestGrantRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	s := newSession(t, v)
	for name, tt := range map[string]struct {
		g     vault.Grant
		field string
	}{
		"no nonce":              {vault.Grant{Permissions: []vault.Permission{"token:create"}}, "nonce"},
		"nothing granted":       {vault.Grant{Nonce: s.Nonce}, "permissions"},
		"a management right":    {vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"log:read"}}, "permissions[0]"},
		"an unknown permission": {vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:see"}}, "permissions[0]"},
		"a bad rule":            {vault.Grant{Nonce: s.Nonce, Rules: []vault.AccessRule{rule(1, "/x", vault.TransformMask, "token:read")}}, "rules[0].container"},
		"expired":               {vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: vaulttest.Start}, "expires_at"},
	} {
		wantFields(t, name, v.Owner.AuthorizeSession(t.Context(), tt.g), tt.field)
	}
	var g vault.Grant
	wantFields(t, "unknown fields", g.UnmarshalJSON([]byte(`{"nonce":"x","scope":"y"}`)), "scope")
	wantFields(t, "a date alone", g.UnmarshalJSON([]byte(`{"nonce":"x","expires_at":"2026-01-01"}`)), "expires_at")
	if err := v.Owner.AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: everything}); err != nil {
		t.Errorf("the nonce after refused grants: %v", err)
	}
}

// Any ISO 8601 date-time says when a session or an application ends.
func TestDateTimeFormats(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2030-08-26T19:23:57Z":            "2030-08-26T19:23:57Z",
		"2030-08-26T19:23:57+02:00":       "2030-08-26T17:23:57Z",
		"2030-08-26T19:23:57.1234567":     "2030-08-26T19:23:57.123456Z",
		"2030-08-26T19:23:57":             "2030-08-26T19:23:57Z",
		"2030-08-26T19:23-07:00":          "2030-08-27T02:23:00Z",
		"2030-08-26T19:23":                "2030-08-26T19:23:00Z",
		"2030-08-26T19:23:57+02":          "2030-08-26T17:23:57Z",
		"20300826T192357Z":                "2030-08-26T19:23:57Z",
		"20300826T192357.5-0700":          "2030-08-27T02:23:57.5Z",
		"20300826T1923":                   "2030-08-26T19:23:00Z",
		"2030-08-26T19:23:57.123456+0200": "",
		"20300826T192357+02:00":           "",
		"20300826192357":                  "",
		"20300826":                        "",
		"2030-08-26":                      "",
		"8/26/2030":                       "",
		"":                                "",
	} {
		doc := []byte(`{"expires_at":"` + text + `"}`)
		var g vault.Grant
		var a vault.ApplicationParams
		ofGrant, ofApplication := g.UnmarshalJSON(doc), a.UnmarshalJSON(doc)
		switch {
		case want == "":
			wantFields(t, "grant "+text, ofGrant, "expires_at")
			wantFields(t, "application "+text, ofApplication, "expires_at")
		case ofGrant != nil || ofApplication != nil:
			t.Errorf("%s: %v, %v", text, ofGrant, ofApplication)
		default:
			same(t, "grant "+text, g.ExpiresAt.Format(time.RFC3339Nano), want)
			same(t, "application "+text, a.ExpiresAt.Format(time.RFC3339Nano), want)
		}
	}
}

// Nobody gives a session more than he has himself.
func TestGrantLiesWithinTheAuthorizers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	pci := private(t, v, rule(1, "/pci/", vault.TransformMask, "token:read", "token:create"), rule(2, "/pci/low/", vault.TransformReveal, "token:use"))
	plain := holding(t, v, "token:read", "token:create")
	user := holding(t, v, "token:read", "token:use")
	for name, tt := range map[string]struct {
		by      *vault.Client
		g       vault.Grant
		allowed bool
	}{
		"the same":                    {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/pci/", vault.TransformMask, "token:read", "token:create")}}, true},
		"narrower":                    {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/pci/high/", vault.TransformRedact, "token:read")}}, true},
		"wider container":             {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/", vault.TransformMask, "token:read")}}, false},
		"plain permissions are wider": {pci, vault.Grant{Permissions: []vault.Permission{"token:read"}}, false},
		"another permission":          {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/pci/", vault.TransformMask, "token:delete")}}, false},
		"a stronger transform":        {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/pci/", vault.TransformReveal, "token:read")}}, false},
		"the best of read and use":    {pci, vault.Grant{Rules: []vault.AccessRule{rule(1, "/pci/low/", vault.TransformReveal, "token:read")}}, true},
		"plain within plain":          {plain, vault.Grant{Permissions: []vault.Permission{"token:create"}}, true},
		"reveal from plain read":      {plain, vault.Grant{Rules: []vault.AccessRule{rule(1, "/x/", vault.TransformReveal, "token:read")}}, false},
		"reveal from plain use":       {user, vault.Grant{Rules: []vault.AccessRule{rule(1, "/x/", vault.TransformReveal, "token:read")}}, true},
		"one good and one bad":        {plain, vault.Grant{Permissions: []vault.Permission{"token:create", "token:delete"}}, false},
		"everything from the tenant":  {v.Owner, vault.Grant{Rules: []vault.AccessRule{rule(1, "/", vault.TransformReveal, everything...)}}, true},
	} {
		s := newSession(t, v)
		tt.g.Nonce = s.Nonce
		err := tt.by.AuthorizeSession(t.Context(), tt.g)
		if tt.allowed && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !tt.allowed {
			wantError(t, name, err, vault.ErrForbidden)
			wantError(t, name+": the session", authenticated(t, v.Vault, s.SessionKey).Check(t.Context(), "token:read"), vault.ErrForbidden)
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
			if err := v.Private.AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: tt.expires}); err != nil {
				t.Fatal(err)
			}
			c := authenticated(t, v.Vault, s.SessionKey)
			v.Clock.Advance(tt.life - time.Microsecond)
			if err := c.Check(t.Context(), "token:create"); err != nil {
				t.Errorf("just before its end: %v", err)
			}
			v.Clock.Advance(time.Microsecond)
			wantError(t, "the client", c.Check(t.Context(), "token:create"), vault.ErrUnauthenticated)
			_, err := v.Authenticate(t.Context(), s.SessionKey)
			wantError(t, "the key", err, vault.ErrUnauthenticated)
			if swept, err := v.Sweep(t.Context()); err != nil || swept.Sessions != 1 {
				t.Errorf("the sweep deletes %d sessions (%v)", swept.Sessions, err)
			}
			_, err = v.Authenticate(t.Context(), s.SessionKey)
			wantError(t, "the key after the sweep", err, vault.ErrUnauthenticated)
		})
	}
}

// Sessions end with their application.
func TestSessionEndsWithItsApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := session(t, v, vault.Grant{Permissions: everything})
	pending := newSession(t, v)
	if err := v.Owner.DeleteApplication(t.Context(), v.Public.ApplicationID()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "the client", c.Check(t.Context(), "token:create"), vault.ErrUnauthenticated)
	_, err := v.Authenticate(t.Context(), pending.SessionKey)
	wantError(t, "a session that waits", err, vault.ErrUnauthenticated)
	grant := vault.Grant{Nonce: pending.Nonce, Permissions: []vault.Permission{"token:create"}}
	wantError(t, "its nonce", v.Private.AuthorizeSession(t.Context(), grant), vault.ErrNotFound)

	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}, ExpiresAt: vaulttest.Start.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := authenticated(t, v.Vault, app.Key).CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(time.Minute)
	_, err = v.Authenticate(t.Context(), s.SessionKey)
	wantError(t, "a session of an expired application", err, vault.ErrUnauthenticated)
	grant.Nonce = s.Nonce
	wantError(t, "its nonce", v.Private.AuthorizeSession(t.Context(), grant), vault.ErrNotFound)
}

// What a session makes carries its application.
func TestSessionActsForItsApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := session(t, v, vault.Grant{Rules: []vault.AccessRule{rule(1, "/general/", vault.TransformReveal, "token:create", "token:read", "token:update")}})
	tok := create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	app := v.Public.ApplicationID()
	same(t, "creator", tok.CreatedBy, app)
	same(t, "modifier", update(t, c, tok.ID, `{"metadata":{"a":"b"}}`).ModifiedBy, app)
	same(t, "application", c.ApplicationID(), app)
	wantData(t, "data", get(t, c, tok.ID).Data, `"secret"`)
	for _, e := range entries(t, v, vault.ListLogsParams{EntityID: tok.ID}) {
		if e.ActorID != app || e.ActorType != "application" {
			t.Errorf("the actor of %s is %v, a %s", e.Operation, e.ActorID, e.ActorType)
		}
	}
	_, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: visa}})
	wantError(t, "in another container", err, vault.ErrForbidden)
}

// Sessions that are alive can be seen and ended by who may, on every node.
func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	manager := application(t, v, vault.ApplicationParams{Name: "ops", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"session:read", "session:delete"}})
	open := newSession(t, v)
	authorized := newSession(t, v)
	far := v.Clock.Now().Add(time.Hour)
	if err := v.Private.AuthorizeSession(t.Context(), vault.Grant{Nonce: authorized.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: far}); err != nil {
		t.Fatal(err)
	}
	private, err := v.Private.OwnApplication(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := manager.ListSessions(t.Context(), vault.ListSessionsParams{})
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
	second, err := manager.ListSessions(t.Context(), vault.ListSessionsParams{PageParams: vault.PageParams{Page: 2, Size: 1}})
	if err != nil || len(second.Data) != 1 || second.Data[0].ID != oldest.ID || second.Pagination.TotalPages != 2 {
		t.Errorf("the second page is %+v, %v", second, err)
	}

	c := authenticated(t, v.Vault, authorized.SessionKey)
	if err := manager.DeleteSession(t.Context(), newest.ID); err != nil {
		t.Fatal(err)
	}
	_, err = c.ListTokens(t.Context(), vault.ListTokensParams{})
	wantError(t, "a session that was ended", err, vault.ErrUnauthenticated)
	wantError(t, "ending it again", manager.DeleteSession(t.Context(), newest.ID), vault.ErrNotFound)
	v.Clock.Advance(10 * time.Minute)
	page, err = manager.ListSessions(t.Context(), vault.ListSessionsParams{})
	if err != nil || page.Pagination.TotalItems != 0 {
		t.Errorf("sessions that are not alive are listed: %+v, %v", page, err)
	}
	wantError(t, "ending one that expired", manager.DeleteSession(t.Context(), oldest.ID), vault.ErrNotFound)

	_, err = v.Private.ListSessions(t.Context(), vault.ListSessionsParams{})
	wantError(t, "without session:read", err, vault.ErrForbidden)
	wantError(t, "without session:delete", v.Private.DeleteSession(t.Context(), oldest.ID), vault.ErrForbidden)
}

func TestMaxSessionLife(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxSessionLife: time.Hour})
	for name, c := range map[string]struct {
		life time.Duration
		ok   bool
	}{"within": {time.Hour, true}, "beyond": {time.Hour + time.Second, false}} {
		s := newSession(t, v)
		end := v.Clock.Now().Add(c.life)
		err := v.Private.AuthorizeSession(t.Context(), vault.Grant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: end})
		if c.ok && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !c.ok {
			wantFields(t, name, err, "expires_at")
		}
	}
	short := vaulttest.Open(t, ":memory:", &vault.Config{MaxSessionLife: time.Minute})
	if s := newSession(t, short); s.ExpiresAt.Sub(short.Clock.Now()) > time.Minute {
		t.Errorf("a session lives until %s", s.ExpiresAt)
	}
}

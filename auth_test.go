package vault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

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
		wantError(t, name, err, vault.ErrUnauthenticated)
		wantSilent(t, err, key)
		if c != nil {
			t.Errorf("%s: there is a client", name)
		}
	}
	_, elsewhere := vaulttest.New(t), vaulttest.New(t)
	_, err := v.Authenticate(t.Context(), elsewhere.PrivateKey)
	wantError(t, "a key of another vault", err, vault.ErrUnauthenticated)
	s, err := v.Public.CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Authenticate(t.Context(), s.Nonce)
	wantError(t, "a nonce", err, vault.ErrUnauthenticated)
	proxy, err := v.Tenant.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: "https://example.com"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Authenticate(t.Context(), proxy.Key)
	wantError(t, "a proxy's key", err, vault.ErrUnauthenticated)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// On the node that does it, a key dies at once, for clients at work too.
func TestRevocationCountsAtOnce(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error{
		"delete": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			return v.Tenant.DeleteApplication(t.Context(), id)
		},
		"regenerate": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			return second(v.Tenant.RegenerateKey(t.Context(), id))
		},
		"delete in Once": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			_, _, err := v.Tenant.Once(t.Context(), vault.OnceKey{Key: "k"}, func(ctx contextT, c *vault.Client) (vault.Answer, error) {
				return vault.Answer{}, c.DeleteApplication(ctx, id)
			})
			return err
		},
		"expiry": func(t *testing.T, v *vaulttest.Vault, id uuid.UUID) error {
			_, err := v.Tenant.PatchApplication(t.Context(), id, vault.JSON(`{"expires_at":"2026-01-01T12:00:01Z"}`))
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
			create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: "x"})
			if err := revoke(t, v, v.Private.ApplicationID()); err != nil {
				t.Fatal(err)
			}
			_, err := v.Authenticate(t.Context(), v.PrivateKey)
			wantError(t, "the key", err, vault.ErrUnauthenticated)
			_, err = v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "x"})
			wantError(t, "the client", err, vault.ErrUnauthenticated)
			wantError(t, "Check", v.Private.Check(t.Context(), "token:create"), vault.ErrUnauthenticated)
		})
	}
}

func TestRegeneratedKeyWorks(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app, err := v.Management.RegenerateKey(t.Context(), v.Private.ApplicationID())
	if err != nil {
		t.Fatal(err)
	}
	if app.Key == v.PrivateKey || !strings.HasPrefix(app.Key, "key_prv_") {
		t.Error("the new key is the old one, or of another kind")
	}
	create(t, authenticated(t, v.Vault, app.Key), vault.TokenParams{Type: vault.Generic, Data: "x"})
}

// A key that was revoked on one node stops working on the others within a
// second.
func TestRevocationReachesOtherNodes(t *testing.T) {
	t.Parallel()
	vaults, _ := nodes(t, 2)
	tenant := tenantOf(t, vaults[0])
	app, err := tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: []string{"token:create"}})
	if err != nil {
		t.Fatal(err)
	}
	there := authenticated(t, vaults[1], app.Key)
	create(t, there, vault.TokenParams{Type: vault.Generic, Data: "x"})
	if err := tenant.DeleteApplication(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	_, err = vaults[0].Authenticate(t.Context(), app.Key)
	wantError(t, "on the node that did it", err, vault.ErrUnauthenticated)
	eventually(t, 10*time.Second, "the other node still takes the key", func() bool {
		asked := time.Now()
		err := there.Check(t.Context(), "token:create")
		if err == nil && asked.Sub(revoked) > time.Second {
			t.Fatalf("the key works %s after it was revoked", asked.Sub(revoked))
		}
		return errors.Is(err, vault.ErrUnauthenticated)
	})
}

// When the database does not answer, nobody gets in.
func TestNobodyGetsInWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	app, err := v.Tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: everything})
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Public.CreateSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ down, key string }{{"Lookup", app.Key}, {"Lookup", s.SessionKey}, {"Records", s.SessionKey}} {
		store.before = func(call string, _ *storage.Change) error {
			if call == tt.down {
				return errDown
			}
			return nil
		}
		c, err := v.Authenticate(t.Context(), tt.key)
		if c != nil || !errors.Is(err, errDown) {
			t.Errorf("while %s fails: a client is there: %v; %v", tt.down, c != nil, err)
		}
	}
	store.before = nil
	authenticated(t, v.Vault, app.Key)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for name, tt := range map[string]struct {
		c          *vault.Client
		permission string
		want       error
	}{
		"held":               {v.Private, "token:read", nil},
		"held by a rule":     {private(t, v, rule(1, "/x/", vault.Redact, "token:read")), "token:read", nil},
		"not held":           {v.Public, "token:read", vault.ErrForbidden},
		"none needed":        {v.Public, "", nil},
		"unknown":            {v.Tenant, "token:see", vault.ErrForbidden},
		"the tenant":         {v.Tenant, "tenant:update", nil},
		"session:create":     {v.Public, vault.CreateSessions, nil},
		"session:create 2":   {v.Private, vault.CreateSessions, vault.ErrForbidden},
		"session:authorize":  {v.Private, vault.AuthorizeSessions, nil},
		"session:authorize2": {v.Public, vault.AuthorizeSessions, vault.ErrForbidden},
		"no such tenant":     {v.Vault.Tenant(uuid.New()), "token:read", vault.ErrNotFound},
	} {
		if err := tt.c.Check(t.Context(), tt.permission); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// The tenant itself may act as its applications; nobody else may.
func TestAs(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c, err := v.Tenant.As(t.Context(), v.Public.ApplicationID())
	if err != nil {
		t.Fatal(err)
	}
	tok := create(t, c, vault.TokenParams{Type: vault.Generic, Data: "x"})
	same(t, "creator", tok.CreatedBy, ptr(v.Public.ApplicationID()))
	_, err = c.GetToken(t.Context(), tok.ID)
	wantError(t, "beyond the application's rights", err, vault.ErrForbidden)
	_, err = v.Management.As(t.Context(), v.Private.ApplicationID())
	wantError(t, "by an application", err, vault.ErrForbidden)
	_, err = v.Tenant.As(t.Context(), uuid.New())
	wantError(t, "a missing application", err, vault.ErrNotFound)
	app, err := v.Tenant.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: everything, ExpiresAt: ptr(vaulttest.Start.Add(time.Second))})
	if err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(time.Second)
	_, err = v.Tenant.As(t.Context(), app.ID)
	wantError(t, "an expired application", err, vault.ErrUnauthenticated)
}

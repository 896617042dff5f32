package authority_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const issuer = "https://issuer.example"

// issuers verifies JWTs whose signature is the word good, and counts the checks.
type issuers struct {
	checks atomic.Int32
	down   atomic.Bool
}

func (*issuers) Issuers() []string { return []string{issuer} }

func (v *issuers) Verify(_ context.Context, jwt string) (vault.Claims, error) {
	v.checks.Add(1)
	if v.down.Load() {
		return nil, fmt.Errorf("the issuer is down: %w", vault.ErrUnavailable)
	}
	parts := strings.Split(jwt, ".")
	if parts[2] != "good" {
		return nil, errors.New("the signature is wrong")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(payload)))
	d.UseNumber()
	claims := vault.Claims{}
	return claims, d.Decode(&claims)
}

// jwt returns a JWT with a subject that ends at a time.
func jwt(iss, subject string, end time.Time, signature string) string {
	payload := fmt.Sprintf(`{"iss":%q,"aud":"vault","sub":%q,"exp":%d}`, iss, subject, end.Unix())
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + signature
}

func trusting(subject string) []vault.Identity {
	return []vault.Identity{{Issuer: issuer, Audience: "vault", Claims: map[string]any{"sub": subject}}}
}

// TestWorkloads has a test for each rule about callers with a JWT. Each runs on both
// databases.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	type world struct {
		*keyWorld
		issuers *issuers
		jwt     string
	}
	workload := func(t *testing.T, w *world, typ vault.ApplicationType, permissions ...vault.Permission) *vault.Application {
		t.Helper()
		return must.Get(w.owner.CreateApplication(t.Context(), vault.ApplicationParams{
			Name: "workload " + string(typ), Type: typ, Permissions: permissions, Identities: trusting("ci"), CreateKey: new(false)}))(t)
	}
	for name, test := range map[string]func(*testing.T, *world){
		"a JWT acts as its application": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			for _, node := range w.nodes {
				c := given.Authenticated(t, node, app.ID.String()+":"+w.jwt)
				tok := must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
				given.Same(t, "created by", tok.CreatedBy, app.ID)
				must.Match(t, "beyond its rights", must.Err(c.GetToken(t.Context(), tok.ID)), vault.ErrForbidden)
				page := must.Get(w.owner.ListLogs(t.Context(), vault.ListLogsParams{EntityID: tok.ID}))(t)
				given.Same(t, "the actor", page.Data[0].ActorID, app.ID)
				given.Same(t, "its name", page.Data[0].ActorName, "ci")
			}
		},
		"every refusal is the same": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			want := must.Err(w.nodes[0].Authenticate(t.Context(), "key_prv_unknown")).Error()
			end := w.clock.Now().Add(time.Hour)
			for what, key := range map[string]string{
				"wrong signature":      app.ID.String() + ":" + jwt(issuer, "ci", end, "bad"),
				"another subject":      app.ID.String() + ":" + jwt(issuer, "ci-evil", end, "good"),
				"another issuer":       app.ID.String() + ":" + jwt("https://evil.example", "ci", end, "good"),
				"another application":  w.app.ID.String() + ":" + w.jwt,
				"no application":       uuid.NewString() + ":" + w.jwt,
				"an id in other form":  "{" + app.ID.String() + "}:" + w.jwt,
				"no JWT":               app.ID.String() + ":",
				"too long":             app.ID.String() + ":" + w.jwt + strings.Repeat("A", 8<<10),
				"an upper-case colon?": app.ID.String() + "." + w.jwt,
			} {
				_, err := w.nodes[0].Authenticate(t.Context(), key)
				if !errors.Is(err, vault.ErrUnauthenticated) || err.Error() != want {
					t.Errorf("%s: %v", what, err)
				}
			}
		},
		"without an identity nothing is checked": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			end := w.clock.Now().Add(time.Hour)
			for _, key := range []string{w.app.ID.String() + ":" + w.jwt, uuid.NewString() + ":" + w.jwt, app.ID.String() + ":" + jwt("https://evil.example", "ci", end, "good")} {
				given.Same(t, "works", works(t, w.nodes[0], key), false)
			}
			given.Same(t, "checks", int(w.issuers.checks.Load()), 0)
		},
		"a verified JWT is remembered for five minutes": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			key := app.ID.String() + ":" + w.jwt
			for range 3 {
				given.Same(t, "works", works(t, w.nodes[0], key), true)
			}
			given.Same(t, "checks", int(w.issuers.checks.Load()), 1)
			w.clock.Advance(5 * time.Minute)
			given.Same(t, "works", works(t, w.nodes[0], key), true)
			given.Same(t, "checks after five minutes", int(w.issuers.checks.Load()), 2)
			w.issuers.down.Store(true)
			given.Same(t, "while the issuer is down", works(t, w.nodes[0], key), true)
			w.clock.Advance(5 * time.Minute)
			must.Match(t, "later", must.Err(w.nodes[0].Authenticate(t.Context(), key)), vault.ErrUnavailable)
			given.Same(t, "other keys", works(t, w.nodes[0], w.app.Key), true)
		},
		"never past its end": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			key := app.ID.String() + ":" + jwt(issuer, "ci", w.clock.Now().Add(time.Minute), "good")
			given.Same(t, "works", works(t, w.nodes[0], key), true)
			c := given.Authenticated(t, w.nodes[0], key)
			w.clock.Advance(time.Minute)
			given.Same(t, "within the skew", works(t, w.nodes[0], key), true)
			given.Same(t, "checks", int(w.issuers.checks.Load()), 2)
			w.clock.Advance(time.Minute)
			given.Same(t, "after it", works(t, w.nodes[0], key), false)
			must.Match(t, "a client", must.Err(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})), vault.ErrUnauthenticated)
		},
		"a removed identity is dead": func(t *testing.T, w *world) {
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			key := app.ID.String() + ":" + w.jwt
			for _, node := range w.nodes {
				given.Same(t, "before", works(t, node, key), true)
			}
			c := given.Authenticated(t, w.nodes[0], key)
			must.Get(w.owner.PatchApplication(t.Context(), app.ID, map[string]any{"identities": trusting("other")}))(t)
			given.Same(t, "at once on this node", works(t, w.nodes[0], key), false)
			given.Eventually(t, "dead on the other node", func() bool { return !works(t, w.nodes[1], key) })
			must.Match(t, "a client", must.Err(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})), vault.ErrUnauthenticated)
		},
		"what a JWT can turn into what lasts": func(t *testing.T, w *world) {
			ctx := t.Context()
			app := workload(t, w, vault.ApplicationManagement, "application:create", "application:read", "application:update")
			c := given.Authenticated(t, w.nodes[0], app.ID.String()+":"+w.jwt)
			p := vault.ApplicationParams{Name: "new", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}}
			for what, err := range map[string]error{
				"a key of its own":         must.Err(c.CreateApplicationKey(ctx, app.ID, vault.ApplicationKeyParams{})),
				"a key of another":         must.Err(c.CreateApplicationKey(ctx, w.app.ID, vault.ApplicationKeyParams{ExpiresAt: w.clock.Now().Add(time.Minute)})),
				"a regenerated key":        must.Err(c.RegenerateKey(ctx, app.ID)),
				"another regenerated key":  must.Err(c.RegenerateKey(ctx, w.app.ID)),
				"a new application":        must.Err(c.CreateApplication(ctx, p)),
				"an ensured application":   must.Err(c.EnsureApplication(ctx, p)),
				"an applied application":   must.Err(c.ApplyApplication(ctx, p)),
				"its identities, patched":  must.Err(c.PatchApplication(ctx, app.ID, map[string]any{"identities": trusting("thief")})),
				"its identities, removed":  must.Err(c.PatchApplication(ctx, app.ID, vault.JSON(`{"identities":null}`))),
				"its identities, replaced": must.Err(c.ReplaceApplication(ctx, app.ID, vault.ApplicationParams{Name: "a", Permissions: app.Permissions, Identities: trusting("thief")})),
			} {
				must.Match(t, what, err, vault.ErrForbidden)
			}
			p.CreateKey = new(false)
			must.Get(c.CreateApplication(ctx, p))(t)
			must.Get(c.PatchApplication(ctx, app.ID, vault.JSON(`{"name":"renamed"}`)))(t)
			ends := must.Get(w.owner.CreateApplicationKey(ctx, app.ID, vault.ApplicationKeyParams{ExpiresAt: w.clock.Now().Add(time.Hour)}))(t)
			err := must.Err(given.Authenticated(t, w.nodes[0], ends.Key).PatchApplication(ctx, app.ID, map[string]any{"identities": trusting("thief")}))
			must.Match(t, "its identities, by a key that ends", err, vault.ErrForbidden)
		},
		"a session that a JWT authorizes": func(t *testing.T, w *world) {
			ctx := t.Context()
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			c := given.Authenticated(t, w.nodes[0], app.ID.String()+":"+w.jwt)
			public := given.Authenticated(t, w.nodes[0], w.application(t, "public", vault.ApplicationPublic, "token:create").Key)
			s := must.Get(public.CreateSession(ctx))(t)
			grant := vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: w.clock.Now().Add(24*time.Hour + time.Second)}
			given.WantFields(t, "for more than a day", c.AuthorizeSession(ctx, grant), "expires_at")
			grant.ExpiresAt = w.clock.Now().Add(24 * time.Hour)
			must.Do(t, c.AuthorizeSession(ctx, grant))
			given.Same(t, "works", works(t, w.nodes[0], s.SessionKey), true)
			must.Get(w.owner.CreateApplicationKey(ctx, app.ID, vault.ApplicationKeyParams{}))(t)
			w.clock.Advance(2 * time.Hour) // the JWT has ended, the identity is there
			given.Same(t, "after the JWT", works(t, w.nodes[0], s.SessionKey), true)
			must.Get(w.owner.PatchApplication(ctx, app.ID, map[string]any{"identities": trusting("other")}))(t)
			given.Same(t, "without the identity", works(t, w.nodes[0], s.SessionKey), false)
		},
		"an identity that comes back is a new one": func(t *testing.T, w *world) {
			ctx := t.Context()
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			c := given.Authenticated(t, w.nodes[0], app.ID.String()+":"+w.jwt)
			s := must.Get(given.Authenticated(t, w.nodes[0], w.application(t, "public", vault.ApplicationPublic, "token:create").Key).CreateSession(ctx))(t)
			must.Do(t, c.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: w.clock.Now().Add(time.Hour)}))
			must.Get(w.owner.PatchApplication(ctx, app.ID, vault.JSON(`{"name":"renamed"}`)))(t)
			p := must.Get(w.owner.GetApplication(ctx, app.ID))(t).Params()
			must.Get(w.owner.ReplaceApplication(ctx, app.ID, p))(t)
			given.Same(t, "a session, when the identity stays", works(t, w.nodes[0], s.SessionKey), true)
			must.Get(w.owner.PatchApplication(ctx, app.ID, vault.JSON(`{"identities":null}`)))(t)
			given.Same(t, "a session without the identity", works(t, w.nodes[0], s.SessionKey), false)
			must.Get(w.owner.PatchApplication(ctx, app.ID, map[string]any{"identities": trusting("ci")}))(t)
			given.Same(t, "a session from before", works(t, w.nodes[0], s.SessionKey), false)
			given.Same(t, "the JWT", works(t, w.nodes[0], app.ID.String()+":"+w.jwt), true)
			given.Same(t, "checks, because the JWT is not remembered for the new identity", int(w.issuers.checks.Load()), 2)
		},
		"a stored key is not repeated to a JWT": func(t *testing.T, w *world) {
			ctx := t.Context()
			app := workload(t, w, vault.ApplicationManagement, "application:update")
			k := must.Get(w.owner.CreateApplicationKey(ctx, app.ID, vault.ApplicationKeyParams{}))(t)
			for _, key := range []string{k.Key, app.ID.String() + ":" + w.jwt} {
				_, _, err := given.Authenticated(t, w.nodes[0], key).Once(ctx, vault.IdempotencyKey{Scope: "keys", Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
					made, err := c.CreateApplicationKey(ctx, w.app.ID, vault.ApplicationKeyParams{})
					if err != nil {
						return vault.StoredResponse{}, err
					}
					return vault.StoredResponse{Status: 201, Body: []byte(made.Key)}, nil
				})
				must.Match(t, "by "+key[:7], err, map[bool]error{true: vault.ErrForbidden}[key != k.Key])
			}
		},
		"Explain compares identities": func(t *testing.T, w *world) {
			ctx, end := t.Context(), w.clock.Now().Add(time.Hour)
			app := workload(t, w, vault.ApplicationPrivate, "token:create")
			must.Get(w.owner.PatchApplication(ctx, app.ID, map[string]any{"identities": append(trusting("other"), trusting("ci")...)}))(t)
			for what, c := range map[string]struct {
				jwt, reason string
				matches     [2]bool
				allowed     bool
			}{
				"a good JWT":      {w.jwt, "Identity 2 of the application matches the JWT, which is valid.", [2]bool{false, true}, true},
				"another subject": {jwt(issuer, "evil", end, "good"), "No identity of the application matches the JWT.", [2]bool{}, false},
				"a bad signature": {jwt(issuer, "ci", end, "bad"), "The claims match, but the JWT is refused: the signature is wrong.", [2]bool{false, true}, false},
				"no JWT":          {"x", "This is not a JWT.", [2]bool{}, false},
			} {
				e := must.Get(w.owner.Explain(ctx, vault.ExplainParams{ApplicationID: app.ID, JWT: c.jwt}))(t)
				given.Same(t, what+", allowed", e.Allowed, c.allowed)
				given.Same(t, what+", reason", e.Reason, c.reason)
				given.Same(t, what+", matches", [2]bool{e.Identities[0].Matches, e.Identities[1].Matches}, c.matches)
				refused := must.Get(w.owner.Explain(ctx, vault.ExplainParams{ApplicationID: app.ID, JWT: c.jwt, Permission: "token:create", Containers: []string{"/"}}))(t)
				given.Same(t, what+", to create a token", refused.Allowed, c.allowed)
			}
			e := must.Get(w.owner.Explain(ctx, vault.ExplainParams{ApplicationID: app.ID, JWT: w.jwt}))(t)
			given.Same(t, "text", e.String(), "the JWT is allowed\nIdentity 2 of the application matches the JWT, which is valid.\n\nidentity 1 of "+issuer+": The claim sub has another value.\n\nidentity 2 of "+issuer+": matches\n")
			given.WantFields(t, "of a session", must.Err(w.owner.Explain(ctx, vault.ExplainParams{SessionID: app.ID, JWT: w.jwt, Permission: "token:create", Containers: []string{"/"}})), "jwt")
			given.WantFields(t, "a long JWT", must.Err(w.owner.Explain(ctx, vault.ExplainParams{ApplicationID: app.ID, JWT: strings.Repeat("x", 8<<10+1)})), "jwt")
			given.WantFields(t, "nothing", must.Err(w.owner.Explain(ctx, vault.ExplainParams{ApplicationID: app.ID})), "permission")
		},
		"identities are checked": func(t *testing.T, w *world) {
			p := vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}, Identities: trusting("ci")}
			given.WantFields(t, "public", must.Err(w.owner.CreateApplication(t.Context(), p)), "identities")
			p.Type = vault.ApplicationPrivate
			p.Identities[0].Issuer = issuer + "/"
			given.WantFields(t, "an unknown issuer", must.Err(w.owner.CreateApplication(t.Context(), p)), "identities[0].issuer")
		},
	} {
		for database, open := range keyWorlds {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				v := &issuers{}
				w := open(t, vault.Config{Identities: v})
				test(t, &world{w, v, jwt(issuer, "ci", w.clock.Now().Add(time.Hour), "good")})
			})
		}
	}
}

package authority_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// runWorld is a tenant with a reactor, a private application with an identity, and a
// client with its JWT, which ends after an hour.
type runWorld struct {
	*vaulttest.Vault
	app     *vault.Application
	reactor *vault.Reactor
	byJWT   *vault.Client
}

// newRunWorld makes a world whose reactor acts as the private application of the vault.
func newRunWorld(t *testing.T, run given.Runtime) *runWorld {
	t.Helper()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: run, Identities: &issuers{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	w := &runWorld{Vault: v}
	w.app = must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "workload", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use", "token:create"}, Identities: trusting("ci"), CreateKey: new(false)}))(t)
	w.reactor = must.Get(v.Owner.CreateReactor(t.Context(), vault.ReactorParams{
		Name: "r", Code: "code", Configuration: map[string]string{}, ApplicationID: v.Private.ApplicationID()}))(t)
	w.byJWT = given.Authenticated(t, v.Vault, w.app.ID.String()+":"+jwt(issuer, "ci", v.Clock.Now().Add(time.Hour), "good"))
	return w
}

// Code that runs for a caller with a JWT authorizes sessions as another application, but
// these do not outlive the sessions that the caller itself could authorize.
func TestSessionsOfCodeThatAWorkloadRuns(t *testing.T) {
	t.Parallel()
	authorize := func(ctx context.Context, in map[string]any, host script.Host) (any, error) {
		args := must.Get(json.Marshal(in["args"]))(t)
		_, err := host.Call(ctx, "sessions.authorize", args)
		return nil, err
	}
	w := newRunWorld(t, authorize)
	ctx, hook := t.Context(), given.NewReceiver(t)
	args := func(life time.Duration) vault.ReactParams {
		s := must.Get(w.Public.CreateSession(ctx))(t)
		return vault.ReactParams{Args: map[string]any{"nonce": s.Nonce, "permissions": []string{"token:create"}, "expires_at": w.Clock.Now().Add(life)}}
	}
	s := must.Get(w.Public.CreateSession(ctx))(t)
	must.Do(t, w.byJWT.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:use"}, ExpiresAt: w.Clock.Now().Add(time.Hour)}))
	for what, c := range map[string]struct {
		by      *vault.Client
		life    time.Duration
		refused bool
	}{
		"by a key, for a year":              {w.Private, 365 * 24 * time.Hour, false},
		"by a JWT, for a day":               {w.byJWT, 24 * time.Hour, false},
		"by a JWT, for longer":              {w.byJWT, 24*time.Hour + time.Second, true},
		"by a session of a JWT, for longer": {given.Authenticated(t, w.Vault.Vault, s.SessionKey), 25 * time.Hour, true},
	} {
		_, err := c.by.React(ctx, w.reactor.ID, args(c.life))
		given.Same(t, what, err != nil, c.refused)
	}
	p := args(25 * time.Hour)
	p.CallbackURL = hook.URL
	must.Get(w.byJWT.ReactAsync(ctx, w.reactor.ID, p))(t)
	must.Do(t, w.Work(ctx))
	given.Same(t, "the callbacks", statuses(t, hook.Bodies), []int{http.StatusBadRequest})
}

// statuses returns the statuses in callbacks: 0 for a result.
func statuses(t *testing.T, bodies [][]byte) (all []int) {
	t.Helper()
	for _, body := range bodies {
		var got struct{ Status int }
		must.Do(t, json.Unmarshal(body, &got))
		all = append(all, got.Status)
	}
	return all
}

// A queued run of a JWT ends with the identity, not with the JWT. So does a callback
// that waits.
func TestRunsOfWorkloadsEndWithTheIdentity(t *testing.T) {
	t.Parallel()
	echo := func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": in["args"]}, nil
	}
	identities := func(subjects ...string) func(*testing.T, *runWorld) {
		return func(t *testing.T, w *runWorld) {
			t.Helper()
			list := []vault.Identity{}
			for _, s := range subjects {
				list = append(list, trusting(s)...)
			}
			must.Get(w.Owner.PatchApplication(t.Context(), w.app.ID, map[string]any{"identities": list}))(t)
		}
	}
	for name, c := range map[string]struct {
		then   func(*testing.T, *runWorld)
		status int
	}{
		"nothing happened":       {func(*testing.T, *runWorld) {}, 0},
		"the JWT ended":          {func(_ *testing.T, w *runWorld) { w.Clock.Advance(2 * time.Hour) }, 0},
		"another identity came":  {identities("ci", "other"), 0},
		"the identity went":      {identities("other"), http.StatusUnauthorized},
		"it went and came again": {func(t *testing.T, w *runWorld) { identities()(t, w); identities("ci")(t, w) }, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hook := newRunWorld(t, echo), given.NewReceiver(t)
			p := vault.ReactParams{Args: map[string]string{"x": "y"}, CallbackURL: hook.URL}
			must.Get(w.byJWT.ReactAsync(t.Context(), w.reactor.ID, p))(t)
			hook.Answer(http.StatusInternalServerError)
			must.Do(t, w.Work(t.Context())) // the result waits
			must.Get(w.byJWT.ReactAsync(t.Context(), w.reactor.ID, p))(t)
			c.then(t, w)
			hook.Answer(http.StatusOK)
			before := hook.Count()
			for range 2 { // one more, for a withdrawn result
				w.Clock.Advance(10 * time.Second)
				must.Do(t, w.Work(t.Context()))
			}
			given.Same(t, "callbacks", statuses(t, hook.Bodies[before:]), []int{c.status, c.status})
		})
	}
}

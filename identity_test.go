package vault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// ways are the ways in which an application loses what it gave.
var ways = map[string]func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error{
	"deleted": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		return v.Owner.DeleteApplication(ctx, app)
	},
	"given a new key": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		_, err := v.Owner.RegenerateKey(ctx, app)
		return err
	},
	"expired": func(ctx context.Context, v *vaulttest.Vault, app uuid.UUID) error {
		_, err := v.Owner.PatchApplication(ctx, app, map[string]any{"expires_at": v.Clock.Now().Add(time.Second)})
		v.Clock.Advance(time.Minute)
		return err
	},
}

// newApp makes an application and returns it with its client.
func newApp(t *testing.T, v *vaulttest.Vault, p vault.ApplicationParams) (*vault.Application, *vault.Client) {
	t.Helper()
	app, err := v.Owner.CreateApplication(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return app, authenticated(t, v.Vault, app.Key)
}

// A session ends with the key that made it and with the key that authorized it,
// however long it was to live.
func TestSessionEndsWithItsMakers(t *testing.T) {
	t.Parallel()
	for name, lose := range ways {
		for who, creator := range map[string]bool{"creator": true, "authorizer": false} {
			t.Run(who+" "+name, func(t *testing.T) {
				t.Parallel()
				v := vaulttest.New(t)
				tok := create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
				public, pub := newApp(t, v, vault.ApplicationParams{Name: "pub", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
				private, prv := newApp(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
				s, err := pub.CreateSession(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				far := v.Clock.Now().AddDate(100, 0, 0)
				if err := prv.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:use"}, ExpiresAt: far}); err != nil {
					t.Fatal(err)
				}
				c := authenticated(t, v.Vault, s.SessionKey)
				if out, err := c.Detokenize(t.Context(), "{{"+tok.ID+"}}"); err != nil || string(out) != `"secret"` {
					t.Fatalf("%s, %v", out, err)
				}
				gone := private.ID
				if creator {
					gone = public.ID
				}
				if err := lose(t.Context(), v, gone); err != nil {
					t.Fatal(err)
				}
				_, err = c.Detokenize(t.Context(), "{{"+tok.ID+"}}")
				wantError(t, "a session whose "+who+" was "+name, err, vault.ErrUnauthenticated)
				_, err = v.Authenticate(t.Context(), s.SessionKey)
				wantError(t, "its key", err, vault.ErrUnauthenticated)
			})
		}
	}
}

// A session never has more than its authorizer could grant at that moment.
func TestSessionIsCutWithItsAuthorizer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, name := range []string{"a", "b"} {
		create(t, v.Owner.Client, vault.TokenParams{ID: "tok-" + name, Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/" + name + "/"}})
	}
	app, prv := newApp(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{rule(1, "/", vault.TransformReveal, "token:read", "token:use", "token:search")}})
	s := newSession(t, v)
	grant := vault.SessionGrant{Nonce: s.Nonce, Rules: []vault.AccessRule{rule(1, "/", vault.TransformReveal, "token:read", "token:search")}}
	if err := prv.AuthorizeSession(t.Context(), grant); err != nil {
		t.Fatal(err)
	}
	c := authenticated(t, v.Vault, s.SessionKey)
	cut := func(rules ...vault.AccessRule) {
		t.Helper()
		if _, err := v.Owner.ReplaceApplication(t.Context(), app.ID, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	wantData(t, "before", get(t, c, "tok-a").Data, `"secret"`)

	cut(rule(1, "/a/", vault.TransformMask, "token:read", "token:use", "token:search"))
	wantData(t, "masked for the authorizer", get(t, c, "tok-a").Data, `"XXcret"`)
	_, err := c.GetToken(t.Context(), "tok-b")
	wantError(t, "outside of the authorizer's containers", err, vault.ErrForbidden)
	got, total := list(t, c, vault.ListTokensParams{})
	if !slices.Equal(got, []string{"tok-a"}) || total != 1 {
		t.Errorf("the session lists %v of %d", got, total)
	}
	if got := search(t, c, "type:token"); !slices.Equal(got, []string{"tok-a"}) {
		t.Errorf("the session finds %v", got)
	}

	cut(rule(1, "/", vault.TransformReveal, "token:create"))
	_, err = c.GetToken(t.Context(), "tok-a")
	wantError(t, "without the authorizer's permission", err, vault.ErrForbidden)

	cut(rule(1, "/", vault.TransformReveal, "token:read", "token:use", "token:search"))
	wantData(t, "given back", get(t, c, "tok-b").Data, `"secret"`)
}

// A client from As has the rights that its application has at each operation.
func TestAsFollowsTheApplication(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	app, _ := newApp(t, v, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	c, err := v.Owner.As(t.Context(), app.ID)
	if err != nil {
		t.Fatal(err)
	}
	get(t, c, tok.ID)
	if _, err := v.Owner.RegenerateKey(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	get(t, c, tok.ID) // it has no key
	if _, err := v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions":["token:create"]}`)); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetToken(t.Context(), tok.ID)
	wantError(t, "without its permission", err, vault.ErrForbidden)
	if err := v.Owner.DeleteApplication(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetToken(t.Context(), tok.ID)
	wantError(t, "without its application", err, vault.ErrUnauthenticated)
}

// callback is the error in a callback.
type callback struct {
	Title  string
	Status int
	Raw    json.RawMessage
}

func callbackOf(t *testing.T, hook *receiver) (c callback) {
	t.Helper()
	if hook.count() == 0 {
		t.Fatal("there was no callback")
	}
	if err := json.Unmarshal(hook.bodies[hook.count()-1], &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A queued run whose caller is gone reads no token: its callback is a 401.
func TestQueuedRunEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
				t.Error("the code runs")
				return map[string]any{"raw": in["args"]}, nil
			})
			hook := newReceiver(t)
			tok := create(t, w.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
			app, c := newApp(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
			if _, err := c.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ " + tok.ID + " }}"}, CallbackURL: hook.URL}); err != nil {
				t.Fatal(err)
			}
			if err := lose(t.Context(), w.Vault, app.ID); err != nil {
				t.Fatal(err)
			}
			if err := w.Work(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := callbackOf(t, hook); got.Status != http.StatusUnauthorized || got.Raw != nil {
				t.Errorf("the callback is %+v", got)
			}
			if ops := operations(t, w.Vault, tok.ID); slices.Contains(ops, "use") {
				t.Errorf("the token was used: %v", ops)
			}
		})
	}
}

// A queued run has the rights of when it runs, and never more than it had when
// it was queued.
func TestQueuedRunIsCutWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then, now string // containers
		status    int
	}{
		"kept":    {"/a/", "/a/", 0},
		"cut":     {"/a/", "/b/", http.StatusForbidden},
		"widened": {"/b/", "/", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(ctx context.Context, in map[string]any, _ script.Host) (any, error) {
				return map[string]any{"raw": in["args"]}, nil
			})
			hook := newReceiver(t)
			create(t, w.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/a/"}})
			params := func(container string) vault.ApplicationParams {
				return vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{rule(1, container, vault.TransformReveal, "token:use")}}
			}
			// The expressions are checked when the run is queued, so the token is moved after that.
			app, caller := newApp(t, w.Vault, params("/a/"))
			if c.then != "/a/" {
				update(t, w.Owner.Client, "tok", `{"containers":["/b/"]}`)
				if _, err := w.Owner.ReplaceApplication(t.Context(), app.ID, params(c.then)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := caller.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ tok }}"}, CallbackURL: hook.URL}); err != nil {
				t.Fatal(err)
			}
			update(t, w.Owner.Client, "tok", `{"containers":["/a/"]}`)
			if _, err := w.Owner.ReplaceApplication(t.Context(), app.ID, params(c.now)); err != nil {
				t.Fatal(err)
			}
			if err := w.Work(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := callbackOf(t, hook); got.Status != c.status || (got.Raw == nil) != (c.status != 0) {
				t.Errorf("the callback is %+v, want status %d", got, c.status)
			}
		})
	}
}

// A result that waits for its delivery is not delivered when its caller is gone.
func TestResultIsWithdrawnWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
				return map[string]any{"raw": in["args"]}, nil
			})
			hook := newReceiver(t)
			hook.answer(http.StatusServiceUnavailable)
			tok := create(t, w.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret-4242"})
			app, c := newApp(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
			if _, err := c.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ " + tok.ID + " }}"}, CallbackURL: hook.URL}); err != nil {
				t.Fatal(err)
			}
			if err := w.Work(t.Context()); err != nil {
				t.Fatal(err)
			}
			if hook.count() != 1 || !bytes.Contains(hook.bodies[0], []byte("secret-4242")) {
				t.Fatalf("%d callbacks before", hook.count())
			}
			if err := lose(t.Context(), w.Vault, app.ID); err != nil {
				t.Fatal(err)
			}
			hook.answer(http.StatusOK)
			w.Clock.Advance(time.Hour)
			if err := w.Work(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := callbackOf(t, hook); got.Status != http.StatusUnauthorized || bytes.Contains(hook.bodies[hook.count()-1], []byte("secret-4242")) {
				t.Errorf("the callback is %+v", got)
			}
		})
	}
}

// A result that is sent again is judged as a replay is: when a token that it was
// made of is gone or changed, or rights were cut, the callback says so instead.
func TestResultIsWithdrawnWithItsTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then   func(ctx context.Context, w *reactWorld, app uuid.UUID) error
		status int // of the error; 0 for the result
	}{
		"nothing happened": {func(context.Context, *reactWorld, uuid.UUID) error { return nil }, 0},
		"the token deleted": {func(ctx context.Context, w *reactWorld, _ uuid.UUID) error {
			return w.Owner.DeleteToken(ctx, "card")
		}, http.StatusConflict},
		"the number replaced": {func(ctx context.Context, w *reactWorld, _ uuid.UUID) error {
			_, err := w.Owner.PatchToken(ctx, "card", vault.JSON(`{"data":{"number":"`+mastercard+`"}}`))
			return err
		}, http.StatusConflict},
		"the cvc's hour is over": {func(_ context.Context, w *reactWorld, _ uuid.UUID) error {
			w.Clock.Advance(time.Hour)
			return nil
		}, http.StatusConflict},
		"the caller's rules cut": {func(ctx context.Context, w *reactWorld, app uuid.UUID) error {
			_, err := w.Owner.PatchApplication(ctx, app, vault.JSON(`{"rules":[{"priority":1,"container":"/","transform":"mask","permissions":["token:use"]}]}`))
			return err
		}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
				return map[string]any{"raw": in["args"]}, nil
			})
			hook := newReceiver(t)
			hook.answer(http.StatusServiceUnavailable)
			create(t, w.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
			app, caller := newApp(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate,
				Rules: []vault.AccessRule{rule(1, "/", vault.TransformReveal, "token:use")}})
			if _, err := caller.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ card }}"}, CallbackURL: hook.URL}); err != nil {
				t.Fatal(err)
			}
			work := func() {
				if err := w.Work(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			work()
			if hook.count() != 1 || !bytes.Contains(hook.bodies[0], []byte(visa)) {
				t.Fatalf("%d callbacks before", hook.count())
			}
			if err := c.then(t.Context(), w, app.ID); err != nil {
				t.Fatal(err)
			}
			hook.answer(http.StatusOK)
			w.Clock.Advance(10 * time.Second)
			work()
			got, last := callbackOf(t, hook), hook.bodies[hook.count()-1]
			if hook.count() != 2 || got.Status != c.status || bytes.Contains(last, []byte(visa)) != (c.status == 0) {
				t.Errorf("%d callbacks, the last is %+v", hook.count(), got)
			}
			if c.status != 0 && got.Title != "The stored answer was withdrawn." {
				t.Errorf("the title is %q", got.Title)
			}
		})
	}
}

// The first callback follows the run at once and is not judged, because a run may
// delete the tokens that it used.
func TestFirstCallbackFollowsTheRun(t *testing.T) {
	t.Parallel()
	var w *reactWorld
	w = newReactWorld(t, func(ctx context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": in["args"]}, w.Owner.DeleteToken(ctx, "card")
	})
	hook := newReceiver(t)
	create(t, w.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: visa})
	if _, err := w.Owner.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ card }}"}, CallbackURL: hook.URL}); err != nil {
		t.Fatal(err)
	}
	if err := w.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := callbackOf(t, hook); hook.count() != 1 || got.Status != 0 || got.Raw == nil {
		t.Errorf("%d callbacks, the last is %+v", hook.count(), got)
	}
}

// An application that holds more than its changer could grant is out of reach.
func TestApplicationsAreChangedByTheirEquals(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	strong, _ := newApp(t, v, vault.ApplicationParams{Name: "strong", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:update", "log:read"}})
	plain, _ := newApp(t, v, vault.ApplicationParams{Name: "plain", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	_, weak := newApp(t, v, vault.ApplicationParams{Name: "weak", Type: vault.ApplicationManagement,
		Permissions: []vault.Permission{"application:create", "application:read", "application:update", "application:delete"}})
	for what, do := range map[string]func(uuid.UUID) error{
		"rename": func(id uuid.UUID) error {
			_, err := weak.PatchApplication(t.Context(), id, vault.JSON(`{"name":"mine"}`))
			return err
		},
		"replace": func(id uuid.UUID) error {
			_, err := weak.ReplaceApplication(t.Context(), id, vault.ApplicationParams{Name: "x", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:read"}})
			return err
		},
		"regenerate": func(id uuid.UUID) error {
			_, err := weak.RegenerateKey(t.Context(), id)
			return err
		},
		"delete": func(id uuid.UUID) error { return weak.DeleteApplication(t.Context(), id) },
	} {
		wantError(t, what, do(strong.ID), vault.ErrForbidden)
	}
	if _, err := weak.PatchApplication(t.Context(), plain.ID, vault.JSON(`{"name":"renamed"}`)); err != nil {
		t.Errorf("an application that holds no more than its changer could grant: %v", err)
	}
	if err := weak.DeleteApplication(t.Context(), plain.ID); err != nil {
		t.Errorf("its deletion: %v", err)
	}
}

// A deleted application reads as absent in what refers to it, and is in the way
// of no later patch.
func TestDeletedApplicationIsAbsent(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": map[string]any{"client": in["application"]}}, nil
	})
	app, _ := newApp(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
	ref := &vault.ApplicationRef{ID: app.ID}
	r, err := w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}, Application: ref})
	if err != nil || r.Application == nil {
		t.Fatalf("%v, %v", r, err)
	}
	x, err := w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/", Application: ref})
	if err != nil || x.ApplicationID == (uuid.UUID{}) {
		t.Fatalf("%v, %v", x, err)
	}
	if err := w.Owner.DeleteApplication(t.Context(), app.ID); err != nil {
		t.Fatal(err)
	}
	absent := func(what string, r *vault.Reactor, x *vault.Proxy, err error) {
		t.Helper()
		if err != nil || r != nil && r.Application != nil || x != nil && x.ApplicationID != (uuid.UUID{}) {
			t.Errorf("%s: the application is there, or %v", what, err)
		}
	}
	r, err = w.Management.GetReactor(t.Context(), r.ID)
	absent("get", r, nil, err)
	x, err = w.Management.GetProxy(t.Context(), x.ID)
	absent("get", nil, x, err)
	reactors, err := w.Management.ListReactors(t.Context(), vault.ListReactorsParams{IDs: []uuid.UUID{r.ID}})
	absent("list", &reactors.Data[0], nil, err)
	proxies, err := w.Management.ListProxies(t.Context(), vault.ListProxiesParams{})
	absent("list", nil, &proxies.Data[0], err)
	r, err = w.Management.PatchReactor(t.Context(), r.ID, vault.JSON(`{"name":"renamed"}`))
	absent("patch", r, nil, err)
	x, err = w.Management.PatchProxy(t.Context(), x.ID, vault.JSON(`{"name":"renamed"}`))
	absent("patch", nil, x, err)
	_, err = w.Management.PatchReactor(t.Context(), r.ID, vault.JSON(`{"application":{"id":"`+app.ID.String()+`"}}`))
	wantFields(t, "a patch that names it", err, "application.id")
	out, err := w.Private.React(t.Context(), r.ID, vault.ReactParams{})
	if err != nil || string(out.Raw) != `{"client":false}` {
		t.Errorf("the code runs with %s, %v", out.Raw, err)
	}
}

// The embedding program may act for one of its users, as the tenant or with a
// key.
func TestUserActor(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	user := uuid.New()
	for name, c := range map[string]*vault.Client{"tenant": v.Owner.AsUser(user.String()).Client, "application": v.Private.AsUser(user.String())} {
		tok := create(t, c, vault.TokenParams{ID: name, Type: vault.TypeGeneric, Data: "x"})
		same(t, name+": creator", tok.CreatedBy, user)
		get(t, c, name)
		for _, e := range entries(t, v, vault.ListLogsParams{EntityID: name}) {
			if e.ActorID != user || e.ActorType != "user" {
				t.Errorf("%s: actor %v, a %s", name, e.ActorID, e.ActorType)
			}
		}
	}
	_, err := v.Public.AsUser(user.String()).GetToken(t.Context(), "tenant")
	wantError(t, "a user of an application without the right", err, vault.ErrForbidden)
	create(t, v.Owner.Client, vault.TokenParams{ID: "by-tenant", Type: vault.TypeGeneric, Data: "x"})
	if e := entries(t, v, vault.ListLogsParams{EntityID: "by-tenant"})[0]; e.ActorID != (uuid.UUID{}) || e.ActorType != "" {
		t.Errorf("the tenant itself is the actor %v, a %s", e.ActorID, e.ActorType)
	}
}

// A user has the same id each time, one that depends on the tenant, and the log
// says what the program calls it.
func TestUserBySubject(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	other, elsewhere := v.NewTenant(t, "Other")
	id := uuid.New()
	long := strings.Repeat("ü", 300)
	for n, c := range []struct {
		subject, name string
		id            uuid.UUID
	}{
		{"auth0|jane", "auth0|jane", uuid.NewSHA1(v.Acme.ID, []byte("auth0|jane"))},
		{id.String(), id.String(), id},
		{strings.ToUpper(id.String()), strings.ToUpper(id.String()), id},
		{"{" + id.String() + "}", "{" + id.String() + "}", uuid.NewSHA1(v.Acme.ID, []byte("{"+id.String()+"}"))},
		{long, long[:400], uuid.NewSHA1(v.Acme.ID, []byte(long))},
		{"a\nb\x00\xff", "a\uFFFDb\uFFFD\uFFFD", uuid.NewSHA1(v.Acme.ID, []byte("a\nb\x00\xff"))},
	} {
		token := fmt.Sprintf("token-%d", n)
		tok := create(t, v.Private.AsUser(c.subject), vault.TokenParams{ID: token, Type: vault.TypeGeneric, Data: "x"})
		same(t, c.name+": creator", tok.CreatedBy, c.id)
		get(t, v.Private.AsUser(c.subject), token)
		for _, e := range entries(t, v, vault.ListLogsParams{EntityID: token}) {
			if e.ActorID != c.id || e.ActorName != c.name || e.ActorType != vault.ActorUser {
				t.Errorf("%q: actor %v %q, a %s", c.subject, e.ActorID, e.ActorName, e.ActorType)
			}
		}
	}
	tok := create(t, elsewhere.AsUser("auth0|jane").Client, generic)
	same(t, "the id in another tenant", tok.CreatedBy, uuid.NewSHA1(other.ID, []byte("auth0|jane")))
	if e := entries(t, v, vault.ListLogsParams{EntityType: "application"})[0]; e.ActorName != "" {
		t.Errorf("one that is no user is called %q", e.ActorName)
	}
}

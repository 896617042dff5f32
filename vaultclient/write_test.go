package vaultclient_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// If the response to a patch has no body, the client reads the result.
func TestPatchReadsTheResultItself(t *testing.T) {
	t.Parallel()
	f := newFront(t, func(_ int, w http.ResponseWriter, r *http.Request, v http.Handler) {
		r.Header.Del("Prefer")
		v.ServeHTTP(w, r)
	})
	made := must.Get(f.Management.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	got, err := f.client(t, f.ManagementKey, vaultclient.Options{}).PatchApplication(t.Context(), made.ID, vault.JSON(`{"name":"b"}`))
	if err != nil || got.Name != "b" || got.ID != made.ID {
		t.Errorf("%+v, %v", got, err)
	}
}

// shown reports whether a call returned an entity.
func shown[T any](x *T, err error) (bool, error) { return x != nil, err }

// A key that may change an entity but not read it can distinguish a change
// that took effect from a change that was rejected.
func TestPatchWithoutReadPermission(t *testing.T) {
	t.Parallel()
	f := frontOf(t, scripted(t), pass)
	ctx, rename := t.Context(), vault.JSON(`{"name":"renamed"}`)
	app := must.Get(f.Management.CreateApplication(ctx, vault.ApplicationParams{Name: "a", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	reactor := must.Get(f.Management.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: code, Configuration: map[string]string{}}))(t)
	proxy := must.Get(f.Management.CreateProxy(ctx, vault.ProxyParams{Name: "p", DestinationURL: "https://destination.example"}))(t)
	for kind, c := range map[string]struct {
		patch func(*vaultclient.Client) (shown bool, err error)
		name  func() (string, error)
	}{
		"application": {
			func(c *vaultclient.Client) (bool, error) { return shown(c.PatchApplication(ctx, app.ID, rename)) },
			func() (string, error) { x, err := f.Management.GetApplication(ctx, app.ID); return x.Name, err },
		},
		"reactor": {
			func(c *vaultclient.Client) (bool, error) { return shown(c.PatchReactor(ctx, reactor.ID, rename)) },
			func() (string, error) { x, err := f.Management.GetReactor(ctx, reactor.ID); return x.Name, err },
		},
		"proxy": {
			func(c *vaultclient.Client) (bool, error) { return shown(c.PatchProxy(ctx, proxy.ID, rename)) },
			func() (string, error) { x, err := f.Management.GetProxy(ctx, proxy.ID); return x.Name, err },
		},
	} {
		for _, permission := range []string{":read", ":update"} {
			made := permission == ":update"
			key := must.Get(f.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "k", Type: vault.ApplicationManagement, Permissions: []vault.Permission{vault.Permission(kind + permission)}}))(t).Key
			shown, err := c.patch(f.client(t, key, vaultclient.Options{}))
			var e *vaultclient.Error
			if shown || !errors.Is(err, vault.ErrForbidden) || !errors.As(err, &e) || errors.Is(err, vaultclient.ErrUnseen) != made {
				t.Errorf("%s%s: shown %v, error %v", kind, permission, shown, err)
			}
			if name := must.Get(c.name())(t); (name == "renamed") != made {
				t.Errorf("%s%s: the name is %s", kind, permission, name)
			}
		}
	}
}

// A call without a response body does not succeed just because a server in
// between sends a page.
func TestForeignPageIsNotSuccess(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*vaultclient.Client) error{
		"DeleteToken":       func(c *vaultclient.Client) error { return c.DeleteToken(t.Context(), "tok") },
		"DeleteApplication": func(c *vaultclient.Client) error { return c.DeleteApplication(t.Context(), uuid.New()) },
		"DeleteReactor":     func(c *vaultclient.Client) error { return c.DeleteReactor(t.Context(), uuid.New()) },
		"DeleteProxy":       func(c *vaultclient.Client) error { return c.DeleteProxy(t.Context(), uuid.New()) },
		"AuthorizeSession": func(c *vaultclient.Client) error {
			return c.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: "n"})
		},
		"PatchProxy": func(c *vaultclient.Client) error {
			return must.Err(c.PatchProxy(t.Context(), uuid.New(), vault.JSON("{}")))
		},
		"React, later": func(c *vaultclient.Client) error {
			return must.Err(c.ReactAsync(t.Context(), uuid.New(), vault.ReactParams{CallbackURL: "https://callback.example/"}))
		},
		"React": func(c *vaultclient.Client) error {
			return must.Err(c.React(t.Context(), uuid.New(), vault.ReactParams{}))
		},
	}
	for name, call := range calls {
		for _, status := range []int{200, 201, 202, 204} {
			f := newFront(t, answer(status))
			if err := call(f.client(t, "key", vaultclient.Options{})); !errors.Is(err, vaultclient.ErrAnswer) || f.count() != 1 {
				t.Errorf("%s, %d without a trace id: %d requests, error %v", name, status, f.count(), err)
			}
		}
	}
	for name, status := range map[string]int{"DeleteToken": 200, "AuthorizeSession": 204, "React": 202, "React, later": 202} {
		f := newFront(t, answer(status, "SVC-TRACE-ID", "t"))
		if err := calls[name](f.client(t, "key", vaultclient.Options{})); !errors.Is(err, vaultclient.ErrAnswer) {
			t.Errorf("%s, %d: error %v", name, status, err)
		}
	}
}

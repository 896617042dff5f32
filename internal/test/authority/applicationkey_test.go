package authority_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// keyWorld is a tenant with an application, on two nodes of one database.
type keyWorld struct {
	nodes [2]*vault.Vault
	clock *vaulttest.Clock
	owner *vault.Owner // on the first node
	app   *vault.Application
}

// keyWorlds makes a world on each database.
var keyWorlds = map[string]func(t *testing.T, cfg vault.Config) *keyWorld{
	"SQLite": func(t *testing.T, cfg vault.Config) *keyWorld {
		path := filepath.Join(t.TempDir(), "vault.db")
		return newKeyWorld(t, cfg, func() vault.Storage { return given.SQLite(t, path) })
	},
	"PostgreSQL": func(t *testing.T, cfg vault.Config) *keyWorld {
		address := pgtest.URL(t)
		return newKeyWorld(t, cfg, func() vault.Storage { return must.Get(postgres.Open(context.WithoutCancel(t.Context()), address))(t) })
	},
}

func newKeyWorld(t *testing.T, cfg vault.Config, store func() vault.Storage) *keyWorld {
	t.Helper()
	w, key := &keyWorld{clock: vaulttest.NewClock(vaulttest.Start)}, vault.NewKey()
	cfg.Now = w.clock.Now
	for i := range w.nodes {
		w.nodes[i] = given.Open(t, store(), key, cfg)
	}
	w.owner = w.nodes[0].Tenant(must.Get(w.nodes[0].CreateTenant(t.Context(), "Acme"))(t).ID)
	w.app = w.application(t, "app", vault.ApplicationPrivate, "token:create", "token:use")
	return w
}

func (w *keyWorld) application(t *testing.T, name string, typ vault.ApplicationType, permissions ...vault.Permission) *vault.Application {
	t.Helper()
	return must.Get(w.owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: name, Type: typ, Permissions: permissions}))(t)
}

// key creates another key.
func (w *keyWorld) key(t *testing.T, end time.Time) *vault.ApplicationKey {
	t.Helper()
	return must.Get(w.owner.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{ExpiresAt: end}))(t)
}

// works reports whether a key works on a node.
func works(t *testing.T, node *vault.Vault, key string) bool {
	t.Helper()
	_, err := node.Authenticate(t.Context(), key)
	if err != nil && !errors.Is(err, vault.ErrUnauthenticated) {
		t.Error(err)
	}
	return err == nil
}

func (w *keyWorld) list(t *testing.T) []vault.ApplicationKey {
	t.Helper()
	return must.Get(w.owner.ListApplicationKeys(t.Context(), w.app.ID))(t)
}

// TestApplicationKeys has a test for each rule about several keys of an application.
// Each runs on both databases.
func TestApplicationKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *keyWorld){
		"the keys work beside each other": func(t *testing.T, w *keyWorld) {
			w.clock.Advance(time.Minute)
			k := w.key(t, time.Time{})
			want := &vault.ApplicationKey{ID: k.ID, Key: k.Key, CreatedAt: vaulttest.Start.Add(time.Minute), CreatedBy: w.owner.TenantID()}
			if diff := cmp.Diff(want, k); diff != "" || !strings.HasPrefix(k.Key, "key_prv_") {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			for _, node := range w.nodes {
				given.Same(t, "the old key works", works(t, node, w.app.Key), true)
				given.Same(t, "the new key works", works(t, node, k.Key), true)
			}
		},
		"a list is oldest first, without texts": func(t *testing.T, w *keyWorld) {
			w.clock.Advance(time.Minute)
			k := w.key(t, time.Time{})
			keys := w.list(t)
			given.Same(t, "keys", len(keys), 2)
			given.Same(t, "the newest", keys[1].ID, k.ID)
			given.Same(t, "the first key was made with the application", keys[0].CreatedAt, vaulttest.Start)
			given.Same(t, "texts", keys[0].Key+keys[1].Key, "")
			one := must.Get(w.owner.GetApplicationKey(t.Context(), w.app.ID, k.ID))(t)
			given.Same(t, "one", *one, keys[1])
		},
		"a deleted key dies, the others go on": func(t *testing.T, w *keyWorld) {
			k := w.key(t, time.Time{})
			for _, node := range w.nodes { // both have read the keys
				given.Same(t, "before", works(t, node, w.app.Key) && works(t, node, k.Key), true)
			}
			first := w.list(t)[0].ID
			if first == k.ID {
				first = w.list(t)[1].ID
			}
			must.Do(t, w.owner.DeleteApplicationKey(t.Context(), w.app.ID, first))
			gone := time.Now()
			given.Same(t, "at once on this node", works(t, w.nodes[0], w.app.Key), false)
			given.Eventually(t, "the key is dead on the other node", func() bool { return !works(t, w.nodes[1], w.app.Key) })
			if took := time.Since(gone); took > 30*time.Second {
				t.Errorf("after %s", took)
			}
			for _, node := range w.nodes {
				given.Same(t, "the other key", works(t, node, k.Key), true)
			}
			must.Match(t, "again", w.owner.DeleteApplicationKey(t.Context(), w.app.ID, first), vault.ErrNotFound)
			must.Match(t, "read", must.Err(w.owner.GetApplicationKey(t.Context(), w.app.ID, first)), vault.ErrNotFound)
		},
		"an expired key is gone": func(t *testing.T, w *keyWorld) {
			k := w.key(t, w.clock.Now().Add(time.Hour))
			given.Same(t, "before", works(t, w.nodes[1], k.Key), true)
			w.clock.Advance(time.Hour)
			for _, node := range w.nodes {
				given.Same(t, "after", works(t, node, k.Key), false)
			}
			given.Same(t, "keys", len(w.list(t)), 1)
			must.Match(t, "deleted", w.owner.DeleteApplicationKey(t.Context(), w.app.ID, k.ID), vault.ErrNotFound)
			given.WantFields(t, "in the past", must.Err(w.owner.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{ExpiresAt: w.clock.Now()})), "expires_at")
		},
		"at most three at once": func(t *testing.T, w *keyWorld) {
			var all sync.WaitGroup
			var mu sync.Mutex
			made, refused := 0, 0
			for i := range 8 {
				all.Go(func() {
					_, err := w.nodes[i%2].Tenant(w.owner.TenantID()).CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{ExpiresAt: w.clock.Now().Add(time.Hour)})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						made++
					} else if refused++; !errors.Is(err, vault.ErrConflict) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			given.Same(t, "made", made, 2)
			given.Same(t, "refused", refused, 6)
			given.Same(t, "keys", len(w.list(t)), 3)
			w.clock.Advance(time.Hour) // expired keys make room
			w.key(t, time.Time{})
			given.Same(t, "keys", len(w.list(t)), 2)
		},
		"regenerate ends all": func(t *testing.T, w *keyWorld) {
			k := w.key(t, time.Time{})
			app := must.Get(w.owner.RegenerateKey(t.Context(), w.app.ID))(t)
			for key, want := range map[string]bool{w.app.Key: false, k.Key: false, app.Key: true} {
				given.Same(t, "works", works(t, w.nodes[0], key), want)
			}
			given.Same(t, "keys", len(w.list(t)), 1)
		},
		"a key for the own application ends with the key that made it": func(t *testing.T, w *keyWorld) {
			w.app = w.application(t, "manager", vault.ApplicationManagement, "application:update")
			other := w.application(t, "other", vault.ApplicationPrivate, "token:create")
			end := w.clock.Now().Add(time.Hour)
			k := w.key(t, end)
			c := given.Authenticated(t, w.nodes[0], k.Key)
			for _, asked := range []time.Time{{}, end.Add(time.Hour), end, end.Add(-time.Minute)} {
				got := must.Get(c.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{ExpiresAt: asked}))(t)
				want := end
				if !asked.IsZero() && asked.Before(end) {
					want = asked
				}
				given.Same(t, "the end", got.ExpiresAt, want)
				given.Same(t, "the maker", got.CreatedBy, w.app.ID)
				must.Do(t, w.owner.DeleteApplicationKey(t.Context(), w.app.ID, got.ID))
			}
			theirs := must.Get(c.CreateApplicationKey(t.Context(), other.ID, vault.ApplicationKeyParams{}))(t)
			given.Same(t, "of another application", theirs.ExpiresAt, time.Time{})
			app := must.Get(c.RegenerateKey(t.Context(), w.app.ID))(t)
			w.clock.Advance(time.Hour)
			given.Same(t, "a regenerated key", works(t, w.nodes[0], app.Key), false)
		},
		"the rights are those of regenerate": func(t *testing.T, w *keyWorld) {
			logs := w.application(t, "logs", vault.ApplicationManagement, "log:read")
			c := given.Authenticated(t, w.nodes[0], w.application(t, "manager", vault.ApplicationManagement, "application:update").Key)
			must.Match(t, "to list", must.Err(c.ListApplicationKeys(t.Context(), w.app.ID)), vault.ErrForbidden)
			must.Match(t, "beyond its rights", must.Err(c.CreateApplicationKey(t.Context(), logs.ID, vault.ApplicationKeyParams{})), vault.ErrForbidden)
			k := must.Get(c.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{}))(t)
			must.Do(t, c.DeleteApplicationKey(t.Context(), w.app.ID, k.ID))
			key := must.Get(w.owner.ListApplicationKeys(t.Context(), logs.ID))(t)[0].ID
			must.Match(t, "to delete beyond its rights", c.DeleteApplicationKey(t.Context(), logs.ID, key), vault.ErrForbidden)
			must.Match(t, "under another application", w.owner.DeleteApplicationKey(t.Context(), w.app.ID, key), vault.ErrNotFound)
			private := given.Authenticated(t, w.nodes[0], w.app.Key)
			must.Match(t, "without the permission", must.Err(private.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{})), vault.ErrForbidden)
		},
		"the log names the keys": func(t *testing.T, w *keyWorld) {
			manager := w.application(t, "manager", vault.ApplicationManagement, "application:update")
			used := must.Get(w.owner.ListApplicationKeys(t.Context(), manager.ID))(t)[0].ID.String()
			c := given.Authenticated(t, w.nodes[0], manager.Key)
			k := must.Get(c.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{}))(t)
			must.Do(t, c.DeleteApplicationKey(t.Context(), w.app.ID, k.ID))
			page := must.Get(w.owner.ListLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationKey, EntityID: w.app.ID.String()}))(t)
			var got []string
			for _, e := range page.Data {
				got = append(got, e.EntityType+" "+e.Message)
			}
			slices.Sort(got)
			given.Same(t, "entries", got, []string{
				"application Application key " + k.ID.String() + " created with key " + used,
				"application Application key " + k.ID.String() + " deleted with key " + used,
			})
		},
		"the last use": func(t *testing.T, w *keyWorld) {
			w.clock.Advance(time.Minute)
			k := w.key(t, time.Time{})
			given.Same(t, "never used", w.list(t)[1].LastUsedAt, time.Time{})
			used := w.clock.Now()
			given.Same(t, "works", works(t, w.nodes[1], k.Key), true)
			there := w.nodes[1].Tenant(w.owner.TenantID())
			given.Same(t, "on its node", must.Get(there.ListApplicationKeys(t.Context(), w.app.ID))(t)[1].LastUsedAt, used)
			must.Get(w.nodes[1].Sweep(t.Context()))(t)
			given.Same(t, "on the other node", w.list(t)[1].LastUsedAt, used)
			app := must.Get(w.owner.GetApplication(t.Context(), w.app.ID))(t)
			w.clock.Advance(59 * time.Minute)
			given.Same(t, "works", works(t, w.nodes[0], k.Key), true)
			must.Get(w.nodes[0].Sweep(t.Context()))(t)
			given.Same(t, "within the hour", w.list(t)[1].LastUsedAt, used)
			w.clock.Advance(time.Minute)
			given.Eventually(t, "the next hour", func() bool { // the key is read again after a second
				return works(t, w.nodes[0], k.Key) && w.list(t)[1].LastUsedAt.Equal(w.clock.Now())
			})
			must.Do(t, w.nodes[0].Close())
			given.Same(t, "after the end of the node", must.Get(there.ListApplicationKeys(t.Context(), w.app.ID))(t)[1].LastUsedAt, w.clock.Now())
			w.owner = there
			after := must.Get(w.owner.GetApplication(t.Context(), w.app.ID))(t)
			given.SameApplication(t, "the application", after, app)
		},
		"an application without a key": func(t *testing.T, w *keyWorld) {
			p := vault.ApplicationParams{Name: "keyless", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}, CreateKey: new(false)}
			app := must.Get(w.owner.CreateApplication(t.Context(), p))(t)
			given.Same(t, "key", app.Key, "")
			w.app = app
			given.Same(t, "keys", len(w.list(t)), 0)
			given.Same(t, "the first key works", works(t, w.nodes[0], w.key(t, time.Time{}).Key), true)
			given.WantFields(t, "a change", must.Err(w.owner.ReplaceApplication(t.Context(), app.ID, p)), "create_key")
			given.WantFields(t, "a patch", must.Err(w.owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"create_key":true}`))), "create_key")
			p.Permissions = []vault.Permission{"token:use"}
			applied := must.Get(w.owner.ApplyApplication(t.Context(), p))(t)
			given.Same(t, "applied", applied.Changed, true)
			given.Same(t, "keys after it", len(w.list(t)), 1)
		},
		"the keys of a deleted application are gone": func(t *testing.T, w *keyWorld) {
			k := w.key(t, time.Time{})
			must.Do(t, w.owner.DeleteApplication(t.Context(), w.app.ID))
			given.Same(t, "works", works(t, w.nodes[0], k.Key) || works(t, w.nodes[0], w.app.Key), false)
			must.Match(t, "list", must.Err(w.owner.ListApplicationKeys(t.Context(), w.app.ID)), vault.ErrNotFound)
		},
		"sessions end with their key alone": func(t *testing.T, w *keyWorld) {
			public := w.application(t, "public", vault.ApplicationPublic, "token:create")
			grant := func(key string) *vault.Client {
				s := must.Get(given.Authenticated(t, w.nodes[0], public.Key).CreateSession(t.Context()))(t)
				must.Do(t, given.Authenticated(t, w.nodes[0], key).AuthorizeSession(t.Context(), vault.SessionGrant{
					Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: w.clock.Now().Add(24 * time.Hour)}))
				return given.Authenticated(t, w.nodes[0], s.SessionKey)
			}
			k, short := w.key(t, time.Time{}), w.key(t, w.clock.Now().Add(time.Hour))
			one, two, three := grant(w.app.Key), grant(k.Key), grant(short.Key)
			live := func(what string, want ...bool) {
				t.Helper()
				for i, c := range []*vault.Client{one, two, three} {
					_, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
					given.Same(t, what, err == nil, want[i])
				}
			}
			live("before", true, true, true)
			w.clock.Advance(time.Hour)
			live("a key has expired", true, true, false)
			must.Do(t, w.owner.DeleteApplicationKey(t.Context(), w.app.ID, k.ID))
			live("a key was deleted", true, false, false)
			given.Same(t, "sessions", len(must.Get(w.owner.ListSessions(t.Context(), vault.PageParams{}))(t).Data), 1)
			must.Get(w.owner.RegenerateKey(t.Context(), w.app.ID))(t)
			live("all were replaced", false, false, false)
		},
	} {
		for database, open := range keyWorlds {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				test(t, open(t, vault.Config{}))
			})
		}
	}
}

// All keys of an application share idempotency keys, so that a call can be repeated
// with the next key. But the response with a new key is not repeated to a caller whose
// own key ends, unless that caller has made it.
func TestIdempotencyKeysOfKeysThatEnd(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app, lasting := given.NewApplication(t, v, vault.ApplicationParams{Name: "manager", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:update"}})
	other, _ := given.NewApplication(t, v, vault.ApplicationParams{Name: "other", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
	ends := must.Get(v.Owner.CreateApplicationKey(t.Context(), app.ID, vault.ApplicationKeyParams{ExpiresAt: v.Clock.Now().Add(time.Hour)}))(t)
	second := must.Get(v.Owner.CreateApplicationKey(t.Context(), app.ID, vault.ApplicationKeyParams{}))(t)
	short := given.Authenticated(t, v.Vault, ends.Key)
	once := func(c *vault.Client, key string, do func(context.Context, *vault.Client) error) (bool, error) {
		_, replayed, err := c.Once(t.Context(), vault.IdempotencyKey{Scope: "keys", Key: key}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			return vault.StoredResponse{Status: 201}, do(ctx, c)
		})
		return replayed, err
	}
	nothing := func(context.Context, *vault.Client) error { return nil }
	makesKey := func(ctx context.Context, c *vault.Client) error {
		return must.Err(c.CreateApplicationKey(ctx, other.ID, vault.ApplicationKeyParams{}))
	}
	for _, c := range []struct {
		what     string
		by       *vault.Client
		key      string
		do       func(context.Context, *vault.Client) error
		replayed bool
		err      error
	}{
		{"without a key", lasting, "a", nothing, false, nil},
		{"without a key, with a key that ends", short, "a", nothing, true, nil},
		{"with a key", lasting, "b", makesKey, false, nil},
		{"with a key, with a key that ends", short, "b", makesKey, false, vault.ErrForbidden},
		{"with a key, with another key that lasts", given.Authenticated(t, v.Vault, second.Key), "b", makesKey, true, nil},
		{"with a key of a key that ends", short, "c", makesKey, false, nil},
		{"with a key of a key that ends, with it again", short, "c", makesKey, true, nil},
	} {
		replayed, err := once(c.by, c.key, c.do)
		must.Match(t, c.what, err, c.err)
		given.Same(t, c.what, replayed, c.replayed)
	}
}

package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// writer is one of the callers in the child process.
type writer struct {
	v       *vault.Vault
	c       *vault.Client // the tenant
	public  *vault.Client // creates sessions
	reactor uuid.UUID     // runs later
	shop    *sql.DB       // an application with its orders in the same database
}

func newWriter(ctx context.Context, v *vault.Vault, shop *sql.DB, tenant uuid.UUID) (*writer, error) {
	w := &writer{v: v, shop: shop, c: v.Tenant(tenant).Client}
	app, err := w.c.CreateApplication(ctx, vault.ApplicationParams{Name: "Shop", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
	if err != nil {
		return nil, err
	}
	if w.public, err = v.Authenticate(ctx, app.Key); err != nil {
		return nil, err
	}
	r, err := w.c.CreateReactor(ctx, vault.ReactorParams{Name: "Later", Code: "module.exports = () => ({})", Configuration: map[string]string{}})
	if err != nil {
		return nil, err
	}
	w.reactor = r.ID
	return w, nil
}

// writeForever does all kinds of writes in turn, beginning with one of them.
func (w *writer) writeForever(ctx context.Context, first int) error {
	kinds := []func(context.Context, int) error{
		w.create, w.read, w.update, w.tokenize, w.delete, w.once, w.lease, w.session, w.regenerate, w.administer, w.react, w.order,
	}
	for n := first; ; n++ {
		if err := kinds[n%len(kinds)](ctx, n); err != nil {
			return err
		}
	}
}

// said prints an acknowledged operation. It prints nothing if err is not nil.
func said(err error, format string, args ...any) error {
	if err == nil {
		fmt.Printf(format+"\n", args...)
	}
	return err
}

func (w *writer) newToken(ctx context.Context, n int) (string, error) {
	tok, err := w.c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]int{"n": n}, Metadata: map[string]string{"n": fmt.Sprint(n)}})
	if err != nil {
		return "", err
	}
	return tok.ID, said(nil, "create %s", tok.ID)
}

func (w *writer) create(ctx context.Context, n int) error {
	return must.Err(w.newToken(ctx, n))
}

func (w *writer) read(ctx context.Context, n int) error {
	id, err := w.newToken(ctx, n)
	if err != nil {
		return err
	}
	_, err = w.c.GetToken(ctx, id)
	return said(err, "read %s", id)
}

func (w *writer) update(ctx context.Context, n int) error {
	id, err := w.newToken(ctx, n)
	if err != nil {
		return err
	}
	_, err = w.c.PatchToken(ctx, id, vault.JSON(`{"data":{"changed":true}}`))
	return said(err, "update %s", id)
}

func (w *writer) delete(ctx context.Context, n int) error {
	id, err := w.newToken(ctx, n)
	if err != nil {
		return err
	}
	return said(w.c.DeleteToken(ctx, id), "delete %s", id)
}

func (w *writer) tokenize(ctx context.Context, n int) error {
	out, err := w.c.Tokenize(ctx, []any{"a", "b", n})
	if err != nil {
		return err
	}
	var ids []string
	return said(out.Decode(&ids), "create %s", strings.Join(ids, " "))
}

// onceKey returns an idempotency key for POST /tokens.
func onceKey(key string, lease time.Duration) vault.IdempotencyKey {
	return vault.IdempotencyKey{Scope: "POST /tokens", Key: key, Lease: lease}
}

func (w *writer) once(ctx context.Context, _ int) error { return w.createOnce(ctx, "once", 0) }
func (w *writer) lease(ctx context.Context, _ int) error {
	return w.createOnce(ctx, "lease", time.Hour)
}

func (w *writer) createOnce(ctx context.Context, word string, lease time.Duration) error {
	key := uuid.NewString()
	answer, _, err := w.c.Once(ctx, onceKey(key, lease), func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: key})
		if err != nil {
			return vault.StoredResponse{}, err
		}
		return vault.StoredResponse{Status: 201, Body: []byte(tok.ID)}, nil
	})
	return said(err, "%s %s %s", word, key, answer.Body)
}

func (w *writer) session(ctx context.Context, _ int) error {
	s, err := w.public.CreateSession(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("session %s\n", s.SessionKey)
	later := time.Now().Add(time.Hour)
	err = w.c.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: later})
	return said(err, "authorize %s", s.SessionKey)
}

func (w *writer) regenerate(ctx context.Context, _ int) error {
	app, err := w.c.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	if err != nil {
		return err
	}
	fmt.Printf("application %s\n", app.ID)
	again, err := w.c.RegenerateKey(ctx, app.ID)
	if err != nil {
		return err
	}
	return said(nil, "regenerate %s %s %s", app.ID, app.Key, again.Key)
}

func (w *writer) administer(ctx context.Context, n int) error {
	name := fmt.Sprintf("name-%d", n)
	x, err := w.c.CreateProxy(ctx, vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/"})
	if err != nil {
		return err
	}
	_, err = w.c.PatchProxy(ctx, x.ID, vault.JSON(`{"name":"`+name+`"}`))
	return said(err, "proxy %s %s", x.ID, name)
}

func (w *writer) react(ctx context.Context, n int) error {
	_, err := w.c.ReactAsync(ctx, w.reactor, vault.ReactParams{Args: map[string]int{"n": n}, CallbackURL: "https://example.com/"})
	return said(err, "react %s", w.reactor)
}

// aftermath is the state of the database after the child was killed.
type aftermath struct {
	store  vault.Storage
	v      *vault.Vault
	c      *vault.Client
	tokens map[string]vault.Token
	orders map[string]bool // by the id of the card's token
	logged map[string]int  // count by operation and the entity's id or type
	done   map[string]int  // count by line and by the line's first word
}

// effects check what an acknowledged operation did. The key is the first word
// of the operation's line; names are its other words. The functions return the
// problem, or "".
var effects = map[string]func(t *testing.T, a *aftermath, names []string) string{
	"create": func(_ *testing.T, a *aftermath, ids []string) string {
		for _, id := range ids {
			if problem := a.token("create", id); problem != "" {
				return problem
			}
		}
		return ""
	},
	"order": func(_ *testing.T, a *aftermath, names []string) string { return a.ordered(names[0]) },
	"read":  func(_ *testing.T, a *aftermath, names []string) string { return a.token("read", names[0]) },
	"update": func(_ *testing.T, a *aftermath, names []string) string {
		if data := a.tokens[names[0]].Data; !strings.Contains(data.String(), "changed") {
			return "not changed"
		}
		return a.token("update", names[0])
	},
	"delete": func(_ *testing.T, a *aftermath, names []string) string {
		if _, there := a.tokens[names[0]]; there {
			return "still there"
		}
		return a.entry("delete", names[0])
	},
	"once":  func(t *testing.T, a *aftermath, names []string) string { return a.replayed(t, 0, names) },
	"lease": func(t *testing.T, a *aftermath, names []string) string { return a.replayed(t, time.Hour, names) },
	"session": func(_ *testing.T, a *aftermath, _ []string) string {
		return a.entries("create session", a.done["session"])
	},
	"authorize": func(t *testing.T, a *aftermath, names []string) string {
		c, err := a.v.Authenticate(t.Context(), names[0])
		if err != nil || c.HasPermission(t.Context(), "token:create") != nil {
			return fmt.Sprintf("the session has lost its permissions (%v)", err)
		}
		return a.entries("authorize session", a.done["authorize"])
	},
	"application": func(t *testing.T, a *aftermath, names []string) string {
		if _, err := a.c.GetApplication(t.Context(), uuid.MustParse(names[0])); err != nil {
			return err.Error()
		}
		return a.entry("create", names[0])
	},
	"regenerate": func(t *testing.T, a *aftermath, names []string) string {
		if _, err := a.v.Authenticate(t.Context(), names[1]); !errors.Is(err, vault.ErrUnauthenticated) {
			return "the old key still works"
		}
		if _, err := a.v.Authenticate(t.Context(), names[2]); err != nil {
			return "the new key does not work"
		}
		return a.entry("update", names[0])
	},
	"proxy": func(t *testing.T, a *aftermath, names []string) string {
		x, err := a.c.GetProxy(t.Context(), uuid.MustParse(names[0]))
		if err != nil || x.Name != names[1] {
			return fmt.Sprintf("not in its last state (%v)", err)
		}
		return a.entry("create", names[0]) + a.entry("update", names[0])
	},
	"react": func(t *testing.T, a *aftermath, names []string) string {
		jobs, err := a.store.SealedRows(t.Context(), storage.SealedFilter{Tenant: storage.ID(a.c.TenantID()), Kind: storage.SealedJobs, Limit: 10_000})
		if err != nil || len(jobs) < a.done["react"] {
			return fmt.Sprintf("only %d jobs (%v)", len(jobs), err)
		}
		return a.entries("react "+names[0], a.done["react "+names[0]])
	},
}

func (a *aftermath) entry(operation, id string) string { return a.entries(operation+" "+id, 1) }

// entries checks that the log has at least this many entries. More is possible:
// an operation may be written without its caller learning of it.
func (a *aftermath) entries(what string, atLeast int) string {
	if got := a.logged[what]; got < atLeast {
		return fmt.Sprintf("in the log %d times, want at least %d", got, atLeast)
	}
	return ""
}

// token checks that a token exists or was deleted, and that it has its log
// entry.
func (a *aftermath) token(operation, id string) string {
	if _, there := a.tokens[id]; !there && a.logged["delete "+id] == 0 {
		return "lost"
	}
	return a.entry(operation, id)
}

// replayed checks that an idempotency key returns its stored response, and that
// the token in that response exists.
func (a *aftermath) replayed(t *testing.T, lease time.Duration, names []string) string {
	t.Helper()
	answer, replayed, err := a.c.Once(t.Context(), onceKey(names[0], lease), func(context.Context, *vault.Client) (vault.StoredResponse, error) {
		return vault.StoredResponse{}, errors.New("the request ran again")
	})
	if err != nil || !replayed || string(answer.Body) != names[1] {
		return fmt.Sprintf("the response is not the stored one (%v)", err)
	}
	return a.token("create", names[1])
}

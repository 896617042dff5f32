package vault_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Values that are valid for their types.
const (
	visa       = "4242424242424242"
	mastercard = "5555555555554444"
	routing    = "110000000"
)

// everything holds all permissions on tokens.
var everything = []vault.Permission{"token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"}

// rule returns an access rule on a container.
func rule(priority int, container string, transform vault.Transform, permissions ...vault.Permission) vault.AccessRule {
	return vault.AccessRule{Priority: priority, Container: container, Transform: transform, Permissions: permissions}
}

// private returns a client of a new private application that has only these rules.
func private(t testing.TB, v *vaulttest.Vault, rules ...vault.AccessRule) *vault.Client {
	t.Helper()
	c, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, rules)
	return c
}

// revealing returns a client that sees all data in plaintext.
func revealing(t testing.TB, v *vaulttest.Vault) *vault.Client {
	t.Helper()
	return private(t, v, rule(1, "/", vault.TransformReveal, everything...))
}

// holding returns a client of a new private application with plain permissions.
func holding(t testing.TB, v *vaulttest.Vault, permissions ...vault.Permission) *vault.Client {
	t.Helper()
	return application(t, v, vault.ApplicationParams{Name: "Plain", Type: vault.ApplicationPrivate, Permissions: permissions})
}

// application returns a client of a new application.
func application(t testing.TB, v *vaulttest.Vault, p vault.ApplicationParams) *vault.Client {
	t.Helper()
	app := must.Get(v.Owner.CreateApplication(t.Context(), p))(t)
	return authenticated(t, v.Vault, app.Key)
}

func authenticated(t testing.TB, v *vault.Vault, key string) *vault.Client {
	t.Helper()
	return must.Get(v.Authenticate(t.Context(), key))(t)
}

func create(t testing.TB, c *vault.Client, p vault.TokenParams) *vault.Token {
	t.Helper()
	return must.Get(c.CreateToken(t.Context(), p))(t)
}

// createJSON creates a token from the JSON form of its parameters.
func createJSON(t testing.TB, c *vault.Client, body string) (*vault.Token, error) {
	t.Helper()
	var p vault.TokenParams
	if err := p.UnmarshalJSON([]byte(body)); err != nil {
		return nil, err
	}
	return c.CreateToken(t.Context(), p)
}

func update(t testing.TB, c *vault.Client, id, patch string) *vault.Token {
	t.Helper()
	tok, err := c.PatchToken(t.Context(), id, vault.JSON(patch))
	if err != nil {
		t.Fatalf("update token with %s: %v", patch, err)
	}
	return tok
}

func get(t testing.TB, c *vault.Client, id string) *vault.Token {
	t.Helper()
	return must.Get(c.GetToken(t.Context(), id))(t)
}

// wantData compares the JSON of a value, byte for byte.
func wantData(t testing.TB, what string, got vault.JSON, want string) {
	t.Helper()
	same(t, what, string(got), want)
}

// wantError checks that an error matches kind. A kind of nil means no error.
func wantError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error %v, want %v", what, err, kind)
	}
}

// wantAllowed checks that a call succeeded if it is allowed, and else that it was
// forbidden.
func wantAllowed(t testing.TB, what string, err error, allowed bool) {
	t.Helper()
	if allowed {
		wantError(t, what, err, nil)
		return
	}
	wantError(t, what, err, vault.ErrForbidden)
}

// wantFields checks for an InvalidError about exactly these fields.
func wantFields(t testing.TB, what string, err error, paths ...string) {
	t.Helper()
	var bad *vault.InvalidError
	if !errors.As(err, &bad) {
		t.Errorf("%s: %v, want an InvalidError about %q", what, err, paths)
		return
	}
	got := slices.Sorted(maps.Keys(bad.Fields))
	slices.Sort(paths)
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Errorf("%s: fields (-want +got):\n%s\n%v", what, diff, err)
	}
}

// wantSilent checks that an error quotes none of the values.
func wantSilent(t testing.TB, err error, values ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, v := range values {
		if strings.Contains(err.Error(), v) {
			t.Errorf("the error reveals a value: %v", err)
		}
	}
}

// ids returns the ids of a page in order.
func ids(page *vault.Page[vault.Token]) []string {
	out := make([]string, len(page.Data))
	for i := range page.Data {
		out[i] = page.Data[i].ID
	}
	return out
}

// list returns the ids that a client finds in a list, and the total.
func list(t testing.TB, c *vault.Client, p vault.ListTokensParams) ([]string, int) {
	t.Helper()
	page := must.Get(c.ListTokens(t.Context(), p))(t)
	return ids(page), page.Pagination.TotalItems
}

// operations returns the operations in the log entries of an entity, oldest first.
func operations(t testing.TB, v *vaulttest.Vault, entityID string) []string {
	t.Helper()
	var out []string
	for _, e := range entries(t, v, vault.ListLogsParams{EntityID: entityID}) {
		out = append(out, string(e.Operation))
	}
	return out
}

// entries returns log entries, oldest first.
func entries(t testing.TB, v *vaulttest.Vault, p vault.ListLogsParams) []vault.LogEntry {
	t.Helper()
	p.Size = 100
	page := must.Get(v.Owner.ListLogs(t.Context(), p))(t)
	slices.Reverse(page.Data)
	return page.Data
}

// session opens a session and authorizes it.
func session(t testing.TB, v *vaulttest.Vault, g vault.SessionGrant) *vault.Client {
	t.Helper()
	s := must.Get(v.Public.CreateSession(t.Context()))(t)
	g.Nonce = s.Nonce
	must.Do(t, v.Owner.AuthorizeSession(t.Context(), g))
	return authenticated(t, v.Vault, s.SessionKey)
}

func ptr[T any](v T) *T { return &v }

// nodes opens two vaults on one database, with one clock and one key.
func nodes(t testing.TB) ([]*vault.Vault, *vaulttest.Clock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vault.db")
	key, clock := vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	out := make([]*vault.Vault, 2)
	for i := range out {
		out[i] = openVault(t, sqliteAt(t, path), key, vault.Config{Now: clock.Now})
	}
	return out, clock
}

// sqliteAt opens a SQLite database, which the vault closes.
func sqliteAt(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	return must.Get(sqlite.Open(context.WithoutCancel(t.Context()), path))(t)
}

// openVault opens a vault until the test ends. It works in the background only if cfg
// has an interval for it.
func openVault(t testing.TB, store vault.Storage, key vault.AEAD, cfg vault.Config) *vault.Vault {
	t.Helper()
	cfg.SweepEvery, cfg.WorkEvery = stdcmp.Or(cfg.SweepEvery, -1), stdcmp.Or(cfg.WorkEvery, -1)
	v := must.Get(vault.Open(t.Context(), store, key, &cfg))(t)
	t.Cleanup(func() { _ = v.Close() })
	if gate, ok := store.(interface{ Use(core.Caller) }); ok {
		gate.Use(core.CallerOf(v.Tenant(uuid.UUID{})))
	}
	return v
}

// tenantOf adds a tenant and returns the client that acts as it.
func tenantOf(t testing.TB, v *vault.Vault) *vault.Client {
	t.Helper()
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	return v.Tenant(tenant.ID).Client
}

// spy wraps the database of a vault. It can refuse calls, and shows what is stored.
type spy struct {
	storage.Storage
	before func(call string, change *storage.Change) error
	listed func(tokens int)
}

// spied returns a vault on a spied database in memory.
func spied(t testing.TB) (*vaulttest.Vault, *spy) {
	t.Helper()
	return spiedWith(t, nil)
}

func spiedWith(t testing.TB, cfg *vault.Config) (*vaulttest.Vault, *spy) {
	t.Helper()
	s := &spy{Storage: sqliteAt(t, ":memory:")}
	return vaulttest.OpenStorage(t, s, cfg), s
}

func (s *spy) ask(call string, change *storage.Change) error {
	if s.before == nil {
		return nil
	}
	return s.before(call, change)
}

func (s *spy) Write(ctx context.Context, ch *storage.Change) error {
	if err := s.ask("Write", ch); err != nil {
		return err
	}
	return s.Storage.Write(ctx, ch)
}

func (s *spy) Sweep(ctx context.Context, now time.Time, limit int) (bool, error) {
	if err := s.ask("Sweep", nil); err != nil {
		return false, err
	}
	return s.Storage.Sweep(ctx, now, limit)
}

func (s *spy) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	if err := s.ask("Lookup", nil); err != nil {
		return storage.Record{}, err
	}
	return s.Storage.Lookup(ctx, key)
}

func (s *spy) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if err := s.ask("Records", nil); err != nil {
		return nil, err
	}
	return s.Storage.Records(ctx, tenant, kind, ids)
}

func (s *spy) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	if err := s.ask("Tokens", nil); err != nil {
		return nil, err
	}
	return s.Storage.Tokens(ctx, tenant, ids)
}

func (s *spy) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	rows, total, err := s.Storage.ListTokens(ctx, f)
	if s.listed != nil {
		s.listed(len(rows))
	}
	return rows, total, err
}

// rows returns the stored rows of tokens, including expired ones.
func (s *spy) rows(t testing.TB, tenant uuid.UUID, ids ...string) []storage.Token {
	t.Helper()
	return must.Get(s.Storage.Tokens(t.Context(), storage.ID(tenant), ids))(t)
}

// eventually waits until a condition holds. It waits for as long as the test may
// run.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: not before the test ended", what)
		case <-tick.C:
		}
	}
}

// same fails the test unless two values are equal.
func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// errDown is the error of a database that does not respond.
var errDown = fmt.Errorf("the database does not answer")

type contextT = context.Context

// field returns a text field of a JSON object, at a dotted path.
func field(t testing.TB, doc vault.JSON, path string) string {
	t.Helper()
	var v any
	if doc == nil {
		return ""
	}
	must.Do(t, doc.Decode(&v))
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	s, _ := v.(string)
	return s
}

// skewed is a database whose clock differs from this machine's.
type skewed struct {
	storage.Storage
	ahead time.Duration
}

func (s skewed) ClockAhead(context.Context) (time.Duration, error) { return s.ahead, nil }

func TestSkewedClockDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead time.Duration
		now   func() time.Time
		keeps bool
	}{
		"right":                    {ahead: 20 * time.Second},
		"ahead":                    {ahead: time.Hour, keeps: true},
		"behind":                   {ahead: -time.Hour, keeps: true},
		"a clock of the program's": {ahead: time.Hour, now: time.Now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
			past := openVault(t, sqliteAt(t, path), key, vault.Config{Now: vaulttest.NewClock(time.Now().Add(-2 * time.Hour)).Now})
			tenant := must.Get(past.CreateTenant(t.Context(), "Acme"))(t)
			token := vault.TokenParams{ID: "expired-token", Type: vault.TypeGeneric, Data: "x", ExpiresAt: time.Now().Add(-time.Hour)}
			create(t, past.Tenant(tenant.ID).Client, token)

			var log strings.Builder
			cfg := vault.Config{Now: test.now, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			v := openVault(t, skewed{sqliteAt(t, path), test.ahead}, key, cfg)
			same(t, "a warning in "+log.String(), strings.Contains(log.String(), "clock"), test.keeps)
			if got := v.ClockAhead(); test.now == nil && got != test.ahead {
				t.Errorf("ClockAhead is %v, want %v", got, test.ahead)
			}
			swept, err := v.Sweep(t.Context())
			if errors.Is(err, vault.ErrUnavailable) != test.keeps || (swept.Tokens == 0) != test.keeps {
				t.Errorf("swept %+v, %v", swept, err)
			}
			token.ExpiresAt = time.Time{}
			if _, err := v.Tenant(tenant.ID).CreateToken(t.Context(), token); errors.Is(err, vault.ErrUnavailable) != test.keeps {
				t.Errorf("a create in the place of the expired token: %v", err)
			}
		})
	}
}

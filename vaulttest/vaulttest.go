// Package vaulttest provides a vault for a test: in memory, with a clock that
// the test moves, a tenant, and an application of each type.
//
//	v := vaulttest.New(t)
//	tok, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
//	v.Clock.Advance(time.Hour)
//
// For programs that commit their own rows together with tokens, v.DB is a
// [database/sql] pool on the same database. [Postgres] does the same in a new
// schema of a PostgreSQL server.
//
// The vault needs no setup, opens in a few milliseconds, and closes when the
// test ends. Tests that use it can run in parallel, because they share
// nothing. On SQLite [vault.Vault.RotateDataKeys] does not wait, and may run
// concurrently with other calls. On PostgreSQL it takes as long as in production,
// about 12 seconds.
//
// Tests of reactors and proxies set a runtime and allow connections to this
// machine. Tests of HTTP put the vault behind a handler:
//
//	v := vaulttest.Open(t, ":memory:", &vault.Config{
//		Runtime: jsruntime.New(nil),
//		Egress:  vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
//	})
//	srv := httptest.NewServer(httpserver.Handler(v.Vault, nil))
//	defer srv.Close()
//
// [NoLeaks] checks that a program keeps values out of its logs, responses and
// tables.
package vaulttest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// Start is the initial time of the clock of a new vault.
var Start = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// Vault is a vault for one test.
type Vault struct {
	*vault.Vault

	// Clock is the vault's clock. It stands still until the test moves it.
	Clock *Clock
	// Acme is the first tenant.
	Acme *vault.Tenant
	// Owner acts as Acme itself, as an embedding program does.
	Owner *vault.Owner

	// DB is a connection pool on the same database. A program under test can
	// use it for its own tables, and for transactions with
	// [vault.Client.InTx]. It is nil after OpenStorage on a storage that is
	// not SQLite.
	DB *sql.DB
	// SchemaURL is the address of the vault's schema, for a program that connects
	// to PostgreSQL itself. It is empty on SQLite and after OpenStorage.
	SchemaURL string

	// Public, Private and Management act as applications of Acme with all
	// permissions of their type. The keys are their API keys.
	Public, Private, Management          *vault.Client
	PublicKey, PrivateKey, ManagementKey string
}

// New opens a vault in memory. It fails the test on error.
func New(t testing.TB) *Vault {
	t.Helper()
	return Open(t, ":memory:", nil)
}

// Postgres opens a vault in a new schema of a PostgreSQL database, whose URL
// starts with postgres://. The schema is dropped when the test ends, so tests
// share nothing and can run in parallel. The role in the URL must be allowed to
// create schemas.
func Postgres(t testing.TB, url string) *Vault {
	t.Helper()
	return Open(t, url, nil)
}

// Open opens a vault with a configuration, which may be nil. The database is
// SQLite if it is named by a path, or a new schema as in [Postgres] if it is
// named by a URL.
//
// Open sets Now, SweepEvery and WorkEvery, so that nothing runs in the
// background. The test calls [vault.Vault.Sweep] and [vault.Vault.Work] to
// sweep or to run jobs. Evidence, if set, runs in the background only if the
// test sets its Every.
func Open(t testing.TB, path string, cfg *vault.Config) *Vault {
	t.Helper()
	if strings.HasPrefix(path, "postgres://") || strings.HasPrefix(path, "postgresql://") {
		return openSchema(t, path, cfg)
	}
	store, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatalf("vaulttest: %v", err)
	}
	return OpenStorage(t, store, cfg)
}

// openSchema opens a vault in a new schema.
func openSchema(t testing.TB, server string, cfg *vault.Config) *Vault {
	t.Helper()
	ctx := context.Background()
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal("vaulttest: the URL of the PostgreSQL server cannot be read") // the error would show a password
	}
	schema := "vaulttest_" + strings.ToLower(rand.Text())
	settings := address.Query()
	settings.Set("search_path", schema)
	address.RawQuery = settings.Encode()
	db, err := sql.Open("postgres", address.String())
	if err != nil {
		t.Fatalf("vaulttest: %v", err)
	}
	t.Cleanup(func() {
		_, err := db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		if err = errors.Join(err, db.Close()); err != nil {
			t.Errorf("vaulttest: dropping the schema: %v", err)
		}
	})
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		t.Fatalf("vaulttest: creating a schema: %v", err)
	}
	store, err := postgres.Open(ctx, address.String())
	if err != nil {
		t.Fatalf("vaulttest: %v", err)
	}
	v := OpenStorage(t, store, cfg)
	v.DB, v.SchemaURL = db, address.String()
	return v
}

// Key returns the master key of all vaults of this package. It is always the
// same, so that a test can open a database that an earlier run created. It
// protects nothing.
func Key() *vault.Key {
	raw := sha256.Sum256([]byte("the master key of package vaulttest"))
	key, err := vault.ParseKey(seal.KeyText(raw[:]))
	if err != nil {
		panic(err) // unreachable: the text is valid
	}
	return key
}

// OpenStorage is Open on any storage. The storage may hold a vault of an
// earlier run; see [Key]. If it is not SQLite, a key rotation takes as long as
// in production.
func OpenStorage(t testing.TB, store vault.Storage, cfg *vault.Config) *Vault {
	t.Helper()
	var c vault.Config
	if cfg != nil {
		c = *cfg
	}
	clock := NewClock(Start)
	c.Now, c.SweepEvery, c.WorkEvery = clock.Now, -1, -1
	if c.Evidence != nil && c.Evidence.Every == 0 {
		quiet := *c.Evidence
		quiet.Every = -1
		c.Evidence = &quiet
	}
	shared, isSQLite := store.(*sqlite.Store)
	if isSQLite {
		store = &gated{Store: shared}
	}
	opened, err := vault.Open(context.Background(), store, Key(), &c)
	if err != nil {
		t.Fatalf("vaulttest: %v", err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Errorf("vaulttest: close: %v", err)
		}
	})
	if gate, ok := store.(interface{ Use(core.Caller) }); ok {
		gate.Use(core.CallerOf(opened.Tenant(uuid.UUID{})))
	}
	v := &Vault{Vault: opened, Clock: clock}
	if isSQLite {
		db, err := shared.OpenDB()
		if err != nil {
			t.Fatalf("vaulttest: %v", err)
		}
		v.DB = db
		t.Cleanup(func() { _ = db.Close() }) // before the vault is closed
	}
	v.Acme, v.Owner = v.NewTenant(t, "Acme")
	v.Public, v.PublicKey = v.NewApplication(t, v.Owner, vault.ApplicationPublic, nil)
	v.Private, v.PrivateKey = v.NewApplication(t, v.Owner, vault.ApplicationPrivate, nil)
	v.Management, v.ManagementKey = v.NewApplication(t, v.Owner, vault.ApplicationManagement, nil)
	return v
}

// gated is a SQLite database on which key rotations do not wait.
type gated struct {
	*sqlite.Store
	keygate.Gate
}

// Write implements [storage.Writer].
func (g *gated) Write(ctx context.Context, ch *storage.Change) error {
	return g.Gate.Write(ctx, g.Store, ch)
}

// NewTenant adds a tenant and returns it with a client that acts as it.
func (v *Vault) NewTenant(t testing.TB, name string) (*vault.Tenant, *vault.Owner) {
	t.Helper()
	tenant, err := v.CreateTenant(context.Background(), name)
	if err != nil {
		t.Fatalf("vaulttest: create tenant: %v", err)
	}
	return tenant, v.Vault.Tenant(tenant.ID)
}

// NewApplication adds an application. It returns a client that acts as the
// application, and its API key. Without rules the application has all
// permissions of its type; otherwise it has only the rules.
func (v *Vault) NewApplication(t testing.TB, tenant *vault.Owner, typ vault.ApplicationType, rules []vault.AccessRule) (*vault.Client, string) {
	t.Helper()
	ctx := context.Background()
	p := vault.ApplicationParams{Name: "Test " + string(typ), Type: typ, Rules: rules}
	if len(rules) == 0 {
		p.Permissions = vault.AllPermissions(typ)
	}
	app, err := tenant.CreateApplication(ctx, p)
	if err != nil {
		t.Fatalf("vaulttest: create application: %v", err)
	}
	c, err := v.Authenticate(ctx, app.Key)
	if err != nil {
		t.Fatalf("vaulttest: authenticate: %v", err)
	}
	return c, app.Key
}

// Clock is a clock that moves only when Advance is called.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the current time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

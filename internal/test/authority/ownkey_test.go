package authority_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// owned is a database on which tenants have their own keys.
type owned struct {
	path   string
	gate   keygate.Gate
	master vault.AEAD
	change func(*vault.Config)   // may be nil
	keys   map[string]*remoteKey // by URI
	clock  *vaulttest.Clock
	writes atomic.Int64 // that are left before all fail; negative for no limit
	ended  atomic.Value // message of the entry of a deleted tenant
	store  storage.Storage
}

const ownURI = "test://customer/key?password=hunter2"

func newOwned(t *testing.T) *owned {
	t.Helper()
	o := &owned{path: filepath.Join(t.TempDir(), "vault.db"), master: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start)}
	o.keys = map[string]*remoteKey{ownURI: {AEAD: vault.NewKey()}, "test://other": {AEAD: vault.NewKey()}}
	o.writes.Store(-1)
	return o
}

// killed is a storage that a process has until it is killed.
type killed struct {
	given.Gated
	o *owned
}

func (k *killed) Write(ctx context.Context, ch *storage.Change) error {
	if k.o.writes.Load() == 0 {
		return errKilled
	}
	if k.o.writes.Load() > 0 {
		k.o.writes.Add(-1)
	}
	for i := range ch.Logs {
		if ch.Logs[i].EntityType == "tenant" && ch.Logs[i].Operation == "delete" {
			k.o.ended.Store(ch.Logs[i].Message)
		}
	}
	return k.Gated.Write(ctx, ch)
}

var errKilled = errors.New("killed")

// node opens a vault on the database.
func (o *owned) node(t *testing.T) *vault.Vault {
	t.Helper()
	o.store = &killed{given.Gated{Store: given.SQLite(t, o.path), Gate: &o.gate}, o}
	cfg := vault.Config{
		Now: o.clock.Now, KeyAge: 20 * time.Millisecond, KeyGrace: time.Hour, Evidence: &vault.EvidenceConfig{Every: -1},
		OpenKey: func(_ context.Context, uri string) (vault.AEAD, error) {
			if o.keys[uri] == nil {
				return nil, errors.New("no such key")
			}
			return o.keys[uri], nil
		},
	}
	if o.change != nil {
		o.change(&cfg)
	}
	return given.Open(t, o.store, o.master, cfg)
}

// ring returns the bytes of the stored ring of a tenant.
func (o *owned) ring(t *testing.T, tenant uuid.UUID) []byte {
	t.Helper()
	recs, err := o.store.Records(t.Context(), storage.ID(tenant), keyring.KindRing, []storage.ID{storage.ID(tenant)})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d rings, %v", len(recs), err)
	}
	return recs[0].Body
}

// opens reports whether a ring with the master key alone opens a token of a tenant.
func (o *owned) opens(t *testing.T, tenant uuid.UUID, wrapped []byte) bool {
	t.Helper()
	ring, err := seal.Unwrap(given.RootOf(t, o.store, o.master), tenant, wrapped)
	if err != nil && !errors.Is(err, seal.ErrOwnKey) {
		t.Fatal(err)
	}
	rows, _, err := o.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: storage.ID(tenant), Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d tokens, %v", len(rows), err)
	}
	var parts seal.Parts
	location := seal.TokenLocation(&rows[0], &parts)
	location.Tenant = tenant
	_, err = ring.Open(&location, rows[0].KeyVersion, rows[0].Body)
	return err == nil
}

func reads(t *testing.T, v *vault.Vault, tenant uuid.UUID, id string) error {
	t.Helper()
	tok, err := v.Tenant(tenant).GetToken(t.Context(), id)
	if err == nil && string(tok.Data) != `"secret"` {
		err = fmt.Errorf("the token has other data")
	}
	return err
}

var errDenied = fmt.Errorf("kms: the key is disabled: %w", vault.ErrKeyDenied)

// When a customer disables the key of a tenant, this tenant's data is out of reach on
// every node, including a node that starts now. Its identities, its log and its
// evidence still work, and other tenants do too.
func TestTenantKeyIsTakenAway(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	nodes := []*vault.Vault{o.node(t), o.node(t)}
	tenant, other := given.TenantOf(t, nodes[0]).TenantID(), given.TenantOf(t, nodes[0]).TenantID()
	tok := given.Create(t, nodes[0].Tenant(tenant).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	before := must.Get(nodes[0].Tenant(tenant).CreateApplication(t.Context(), vault.ApplicationParams{Name: "before", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"tenant:read", "log:read"}}))(t)
	must.Get(nodes[0].Checkpoint(t.Context()))(t)
	backup := o.ring(t, tenant)
	must.Do(t, nodes[0].SetTenantKey(t.Context(), tenant, ownURI))
	after := must.Get(nodes[1].Tenant(tenant).CreateApplication(t.Context(), vault.ApplicationParams{Name: "after", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"tenant:read", "log:read"}}))(t)
	must.Get(nodes[0].Checkpoint(t.Context()))(t)
	for _, wrapped := range [][]byte{backup, o.ring(t, tenant)} {
		if o.opens(t, tenant, wrapped) {
			t.Error("the master key alone opens a token")
		}
	}
	for _, v := range nodes {
		must.Do(t, reads(t, v, tenant, tok.ID))
	}
	self, err := nodes[1].Tenant(tenant).GetTenant(t.Context())
	if err != nil || self.Key == nil || self.Key.State != vault.TenantKeyOK || strings.Contains(self.Key.URI, "hunter2") || self.WebhookSecret == "" {
		t.Errorf("the tenant: %+v, %v", self, err)
	}

	o.clock.Advance(time.Minute)
	o.keys[ownURI].set(errDenied)
	nodes = append(nodes, o.node(t))
	for _, v := range nodes {
		given.Eventually(t, "calls fail", func() bool { return errors.Is(reads(t, v, tenant, tok.ID), vault.ErrKeyDenied) })
		must.Match(t, "the other tenant", must.Err(v.Tenant(other).ListTokens(t.Context(), vault.ListTokensParams{})), nil)
		for _, key := range []string{before.Key, after.Key} {
			c := must.Get(v.Authenticate(t.Context(), key))(t)
			self, err := c.GetTenant(t.Context())
			if err != nil || self.Key == nil || self.Key.State != vault.TenantKeyDenied || self.WebhookSecret != "" {
				t.Errorf("the tenant: %+v, %v", self, err)
			}
			must.Match(t, "the log", must.Err(c.ListLogs(t.Context(), vault.ListLogsParams{})), nil)
			must.Match(t, "evidence", c.ExportEvidence(t.Context(), new(strings.Builder)), nil)
		}
		must.Match(t, "the list of tenants", must.Err(v.ListTenants(t.Context(), vault.PageParams{})), nil)
		must.Match(t, "the sweep", must.Err(v.Sweep(t.Context())), nil)
	}
	must.Match(t, "removing a denied key", nodes[0].SetTenantKey(t.Context(), tenant, ""), vault.ErrKeyDenied)

	o.clock.Advance(time.Minute)
	o.keys[ownURI].set(nil)
	for _, v := range nodes {
		given.Eventually(t, "calls succeed", func() bool { return reads(t, v, tenant, tok.ID) == nil })
	}
	since := vaulttest.Start.Add(time.Minute).Format(time.RFC3339)
	want := []string{"Key set", "Key denied", "Key available again; unavailable since " + since}
	given.Eventually(t, "the return is in the log", func() bool { return len(keyEntries(t, nodes[1], tenant)) == len(want) })
	given.Same(t, "messages", keyEntries(t, nodes[1], tenant), want)
	given.Same(t, "messages of the other tenant", keyEntries(t, nodes[1], other), []string{})
	must.Do(t, nodes[1].SetTenantKey(t.Context(), tenant, ""))
	if err := reads(t, nodes[0], tenant, tok.ID); err != nil || !o.opens(t, tenant, o.ring(t, tenant)) {
		t.Errorf("after the removal: %v", err)
	}
	must.Get(nodes[0].Checkpoint(t.Context()))(t)
	given.Intact(t, "verification")(nodes[0].VerifyLogs(t.Context(), nil))
}

// A process that is killed at any write of a change of keys leaves a tenant that opens
// with its key, and without it only as long as a new key is not complete. The next call
// completes the work.
func TestChangesOfKeysAreKilled(t *testing.T) {
	t.Parallel()
	set := func(uri string) func(*testing.T, *vault.Vault, uuid.UUID) error {
		return func(t *testing.T, v *vault.Vault, tenant uuid.UUID) error {
			return v.SetTenantKey(t.Context(), tenant, uri)
		}
	}
	rewrap := func(t *testing.T, v *vault.Vault, _ uuid.UUID) error { return v.RewrapDataKeys(t.Context()) }
	for name, c := range map[string]struct {
		do       func(*testing.T, *vault.Vault, uuid.UUID) error
		from, to string // the tenant's keys before and afterwards
		master   bool   // the master key changes
		denied   bool   // while the tenant's key is denied
		entries  []string
	}{
		"set":    {do: set(ownURI), to: ownURI, entries: []string{"Key set"}},
		"change": {do: set("test://other"), from: ownURI, to: "test://other", entries: []string{"Key set", "Key set"}},
		"remove": {do: set(""), from: ownURI, entries: []string{"Key set", "Key removed"}},
		"rotate": {do: func(t *testing.T, v *vault.Vault, tenant uuid.UUID) error {
			return v.RotateDataKeys(t.Context(), tenant, nil)
		}, from: ownURI, to: ownURI, entries: []string{"Key set"}},
		"rewrap":              {do: rewrap, from: ownURI, to: ownURI, master: true, entries: []string{"Key set"}},
		"rewrap while denied": {do: rewrap, from: ownURI, to: ownURI, master: true, denied: true, entries: []string{"Key set", "Key denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, done := int64(0), false; !done; n++ {
				o := newOwned(t)
				v := o.node(t)
				tenant := given.TenantOf(t, v).TenantID()
				tok := given.Create(t, v.Tenant(tenant).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
				must.Do(t, v.SetTenantKey(t.Context(), tenant, c.from))
				if c.master {
					v.Close()
					o.master = vault.JoinKeys(vault.NewKey(), o.master)
					v = o.node(t)
				}
				o.clock.Advance(time.Second)
				if c.denied {
					o.keys[ownURI].set(errDenied)
					given.Eventually(t, "calls fail", func() bool { return errors.Is(reads(t, v, tenant, tok.ID), vault.ErrKeyDenied) })
					given.Eventually(t, "the denial is in the log", func() bool { return len(keyEntries(t, v, tenant)) == 2 })
				}
				o.writes.Store(n)
				err := c.do(t, v, tenant)
				o.writes.Store(-1)
				if done = err == nil; !done && !errors.Is(err, errKilled) {
					t.Fatalf("write %d: %v", n, err)
				}
				fresh := o.node(t)
				for _, when := range []string{"after the kill", "after the next call"} {
					if err := reads(t, fresh, tenant, tok.ID); errors.Is(err, vault.ErrKeyDenied) != c.denied || err != nil && !c.denied {
						t.Errorf("%s, killed at write %d: %v", when, n, err)
					}
					alone := o.opens(t, tenant, o.ring(t, tenant))
					if must := c.from == c.to || when != "after the kill"; must && alone != (c.to == "") {
						t.Errorf("%s, killed at write %d: the master key alone opens the tenant: %v", when, n, alone)
					}
					must.Match(t, fmt.Sprint("killed at write ", n, ": the next call"), c.do(t, fresh, tenant), nil)
				}
				given.Same(t, "messages", keyEntries(t, fresh, tenant), c.entries)
				if o.keys[ownURI].set(nil); c.denied {
					given.Eventually(t, "calls succeed", func() bool { return reads(t, fresh, tenant, tok.ID) == nil })
				}
				v.Close()
				fresh.Close()
			}
		})
	}
}

// While the key of a tenant is denied, the program can erase tokens by id, change the
// master key, and delete the tenant. The entries say that rows were not opened.
func TestDeniedTenantIsErasedAndDeleted(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	v := o.node(t)
	tenant := given.TenantOf(t, v).TenantID()
	c := v.Tenant(tenant)
	gone := given.Create(t, c.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	kept := given.Create(t, c.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	app := must.Get(c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"tenant:read"}}))(t)
	must.Do(t, v.SetTenantKey(t.Context(), tenant, ownURI))
	o.clock.Advance(time.Minute)
	o.keys[ownURI].set(errDenied)
	given.Eventually(t, "calls fail", func() bool { return errors.Is(reads(t, v, tenant, kept.ID), vault.ErrKeyDenied) })

	_, err := c.EraseTokens(t.Context(), vault.EraseParams{Query: "id:" + gone.ID, Reason: "case 1"})
	must.Match(t, "an erasure by a search", err, vault.ErrKeyDenied)
	_, err = c.Masked().EraseTokens(t.Context(), vault.EraseParams{IDs: []string{gone.ID}, Reason: "case 1"})
	must.Match(t, "an erasure by others", err, vault.ErrKeyDenied)
	done := must.Get(c.EraseTokens(t.Context(), vault.EraseParams{IDs: []string{gone.ID, "unknown"}, Reason: "case 1"}))(t)
	given.Same(t, "erasure", done.Count, 1)
	page, err := c.ListLogs(t.Context(), vault.ListLogsParams{EntityID: gone.ID, Operation: vault.OperationDelete})
	if err != nil || len(page.Data) != 1 || page.Data[0].Message != "Token erased (unopened)" {
		t.Errorf("the entry: %+v, %v", page, err)
	}
	must.Match(t, "rewrap", v.RewrapDataKeys(t.Context()), nil)
	must.Match(t, "sweep", must.Err(v.Sweep(t.Context())), nil)
	o.keys[ownURI].set(nil)
	given.Eventually(t, "calls succeed", func() bool { return reads(t, v, tenant, kept.ID) == nil })
	must.Match(t, "the erased token", reads(t, v, tenant, gone.ID), vault.ErrNotFound)
	must.Match(t, "sweep", must.Err(v.Sweep(t.Context())), nil)
	must.Match(t, "rotation", v.RotateDataKeys(t.Context(), tenant, nil), nil)
	must.Match(t, "the application", must.Err(v.Authenticate(t.Context(), app.Key)), nil)
	must.Get(v.Checkpoint(t.Context()))(t)
	o.clock.Advance(time.Minute)
	o.keys[ownURI].set(errDenied)
	given.Eventually(t, "calls fail", func() bool { return errors.Is(reads(t, v, tenant, kept.ID), vault.ErrKeyDenied) })
	must.Do(t, v.DeleteTenant(t.Context(), tenant))
	must.Match(t, "the deleted tenant", reads(t, v, tenant, kept.ID), vault.ErrNotFound)
	given.Same(t, "the entry of the deleted tenant", o.ended.Load(), any("Tenant deleted (unopened)"))
	given.Intact(t, "verification")(v.VerifyLogs(t.Context(), nil))
}

//go:build !race

package tampering

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A lasting storage stays open when its vault is closed, so that a node can restart
// on a database in memory. Rotations of keys do not wait.
type (
	lastingSQLite struct {
		*sqlite.Store
		keygate.Gate
	}
	lastingPostgres struct {
		*postgres.Store
		keygate.Gate
	}
)

func (s *lastingSQLite) Close() error   { return nil }
func (s *lastingPostgres) Close() error { return nil }

func (s *lastingSQLite) Write(ctx context.Context, ch *storage.Change) error {
	return s.Gate.Write(ctx, s.Store, ch)
}

func (s *lastingPostgres) Write(ctx context.Context, ch *storage.Change) error {
	return s.Gate.Write(ctx, s.Store, ch)
}

// memoryAnchor keeps notes in memory.
type memoryAnchor struct {
	mu    sync.Mutex
	notes [][]byte
}

func (a *memoryAnchor) Latest(context.Context) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.notes) == 0 {
		return nil, nil
	}
	return a.notes[len(a.notes)-1], nil
}

func (a *memoryAnchor) Put(_ context.Context, msg []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, bytes.Clone(msg))
	return nil
}

// moment is the state of a database at a time, and what auditors kept of it.
type moment struct {
	rows map[string]*logRow // of all tables, by key
	uses map[string]string  // what callers got
	kept map[uuid.UUID]kept
	// leaves are the lines of the bundles, by tenant and entry.
	leaves map[uuid.UUID]map[uuid.UUID]string
}

// world is a database with an earlier and a later moment, both genuine.
type world struct {
	*attacked
	anchor *memoryAnchor
	notes  [][]byte // in the anchor at b
	a, b   moment
	living []uuid.UUID // tenants at b that existed at a
	young  uuid.UUID   // a tenant that did not exist at a
	gone   uuid.UUID   // a tenant that was deleted between a and b
	cutoff int64       // older entries have expired at b, in Unix milliseconds
	audits []audit     // some bundles of mixtures
	all    []string    // the tables
	narrow bool        // only tables of the log and records have changed since the reset
	used   things
	public map[uuid.UUID]string // keys of public applications, by tenant
	owned  uuid.UUID            // a tenant with its own key
}

// everything holds all permissions on tokens.
var everything = []vault.Permission{"token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"}

// worlds runs a test on a world in each database.
func worlds(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		store := must.Get(sqlite.Open(context.WithoutCancel(t.Context()), ":memory:"))(t)
		t.Cleanup(func() { _ = store.Close() })
		db := must.Get(store.OpenDB())(t)
		lasting := &lastingSQLite{Store: store}
		test(newWorld(t, db, func() vault.Storage { return lasting }, &lasting.Gate, false))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		address := pgtest.Alone(t)
		store := must.Get(postgres.Open(context.WithoutCancel(t.Context()), address))(t)
		t.Cleanup(func() { _ = store.Close() })
		db := must.Get(sql.Open("postgres", address))(t)
		lasting := &lastingPostgres{Store: store}
		test(newWorld(t, db, func() vault.Storage { return lasting }, &lasting.Gate, true))
	})
}

func newWorld(t *testing.T, db *sql.DB, open func() vault.Storage, gate *keygate.Gate, pg bool) *world {
	t.Helper()
	t.Cleanup(func() { _ = db.Close() })
	master, own := &deniable{AEAD: vault.NewKey()}, &deniable{AEAD: vault.NewKey()}
	w := &world{
		anchor: &memoryAnchor{}, public: map[uuid.UUID]string{}, used: things{keys: map[string]string{}, sessions: map[string]string{}, ids: map[string][]uuid.UUID{}},
		attacked: &attacked{
			T: t, open: open, gate: gate, key: master, clock: vaulttest.NewClock(vaulttest.Start), db: db, pg: pg, retain: 24 * time.Hour,
		},
	}
	w.anchors = []vault.Anchor{w.anchor}
	w.config = func(c *vault.Config) {
		c.OpenKey = func(context.Context, string) (vault.AEAD, error) { return own, nil }
		c.KeyAge, c.Runtime = -1, nothing{}
	}
	w.build(master, own)
	w.covers()
	return w
}

// build lives through both moments.
func (w *world) build(master, own *deniable) {
	w.Helper()
	configure := w.config
	sinks := func(c *vault.Config) {
		configure(c)
		c.Sinks = []vault.Sink{{Name: "sink", Sender: vault.LogWriter(io.Discard)}}
	}
	w.config = func(c *vault.Config) { // evidence is turned on late
		sinks(c)
		c.Evidence = nil
	}
	w.node(nil)
	w.all = w.tables()
	acme := w.inhabit("Acme")
	w.config = sinks
	w.node(nil)
	acme = w.v.Tenant(acme.TenantID())
	early, globex, gone := w.inhabit("Early"), w.inhabit("Globex"), w.inhabit("Gone")
	w.owned, w.gone = globex.TenantID(), gone.TenantID()
	must.Do(w, w.v.SetTenantKey(w.Context(), w.owned, "test://first"))
	must.Get(w.v.ForwardCA(w.Context()))(w)
	w.fillBlock(acme)
	w.restore()
	w.outages(master, own)
	acme, globex, gone = w.v.Tenant(acme.TenantID()), w.v.Tenant(w.owned), w.v.Tenant(w.gone)
	must.Do(w, w.v.DeleteTenant(w.Context(), early.TenantID()))
	w.clock.Advance(20 * time.Hour)
	for _, o := range []*vault.Owner{acme, globex, gone} {
		w.work(o)
	}
	w.settle(acme)
	w.settle(globex)
	must.Do(w, w.v.SendLogs(w.Context()))
	w.checkpoints(3)
	w.a = w.moment(acme, globex, gone)

	w.clock.Advance(time.Hour)
	for _, o := range []*vault.Owner{acme, globex} {
		w.change(o)
	}
	next := &deniable{AEAD: vault.NewKey()}
	w.key = vault.JoinKeys(next, master)
	w.node(nil)
	must.Do(w, w.v.RewrapDataKeys(w.Context()))
	acme = w.v.Tenant(acme.TenantID())
	must.Do(w, w.v.RotateDataKeys(w.Context(), acme.TenantID(), nil))
	must.Do(w, w.v.SetTenantKey(w.Context(), w.owned, "test://second"))
	must.Get(w.v.RotateForwardCA(w.Context(), nil))(w)
	must.Get(acme.EraseTokens(w.Context(), vault.EraseParams{Query: `metadata.owner:"jane"`, Reason: "case 7"}))(w)
	must.Do(w, w.v.DeleteTenant(w.Context(), w.gone))
	must.Get(w.v.RotateEvidenceKey(w.Context()))(w)
	w.outages(next, own)
	acme, globex = w.v.Tenant(acme.TenantID()), w.v.Tenant(w.owned)
	young := w.inhabit("Young")
	w.young = young.TenantID()
	w.checkpoints(2)
	w.clock.Advance(9 * time.Hour)
	must.Get(w.v.Sweep(w.Context()))(w)
	w.cutoff = vaulttest.Start.Add(6 * time.Hour).UnixMilli()
	for _, o := range []*vault.Owner{acme, globex, young} {
		w.work(o)
	}
	w.settle(acme)
	w.settle(young)
	must.Do(w, w.v.SendLogs(w.Context()))
	w.checkpoints(2)
	w.mustVerifyExpired()
	w.b = w.moment(acme, globex, young)
	w.config = configure
	w.notes = slices.Clone(w.anchor.notes)
	w.living = []uuid.UUID{acme.TenantID(), globex.TenantID()}
	w.look()
}

// inhabit adds a tenant with applications, reactors and proxies.
func (w *world) inhabit(name string) *vault.Owner {
	w.Helper()
	o := w.v.Tenant(must.Get(w.v.CreateTenant(w.Context(), name))(w).ID)
	for i := range 4 {
		w.used.remember(must.Get(o.CreateApplication(w.Context(), vault.ApplicationParams{Name: fmt.Sprint("app-", i), Type: vault.ApplicationPrivate, Permissions: everything}))(w))
	}
	for i := range 2 {
		reactor := must.Get(o.CreateReactor(w.Context(), vault.ReactorParams{Name: fmt.Sprint("reactor-", i), Code: "module.exports = async (req) => ({raw: 1})", Configuration: map[string]string{"a": "1"}}))(w)
		proxy := must.Get(o.CreateProxy(w.Context(), vault.ProxyParams{Name: fmt.Sprint("proxy-", i), DestinationURL: "https://example.com"}))(w)
		w.used.ids["reactor"], w.used.ids["proxy"] = append(w.used.ids["reactor"], reactor.ID), append(w.used.ids["proxy"], proxy.ID)
	}
	public := must.Get(o.CreateApplication(w.Context(), vault.ApplicationParams{Name: "public", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(w)
	w.public[o.TenantID()] = public.Key
	w.used.remember(public)
	w.used.tenants = append(w.used.tenants, o.TenantID())
	w.settle(o)
	w.work(o)
	return o
}

// fillBlock writes more entries than a block of the tree has, about tokens that expire:
// few rows are left, because every mixture reads them all.
func (w *world) fillBlock(o *vault.Owner) {
	w.Helper()
	brief := vault.TokenParams{Type: vault.TypeGeneric, Data: "brief", ExpiresAt: w.clock.Now().Add(time.Minute)}
	must.Get(o.Tokenize(w.Context(), slices.Repeat([]vault.TokenParams{brief}, 140)))(w)
	w.checkpoints(1)
	if swept := must.Get(w.v.Sweep(w.Context()))(w); swept.Tokens != 140 {
		w.Fatalf("%d tokens have expired", swept.Tokens)
	}
}

// work creates and reads tokens.
func (w *world) work(o *vault.Owner) {
	w.Helper()
	for range 2 {
		c := o.AsUser("jane").From("192.0.2.7")
		tok := create(w, c.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"owner": "jane"}})
		get(w, o.Client, tok.ID)
	}
}

// change updates, regenerates and deletes what a tenant has.
func (w *world) change(o *vault.Owner) {
	w.Helper()
	ctx := w.Context()
	sessions := must.Get(o.ListSessions(ctx, vault.PageParams{}))(w)
	must.Do(w, o.DeleteSession(ctx, sessions.Data[0].ID))
	apps := must.Get(o.ListApplications(ctx, vault.ListApplicationsParams{}))(w)
	public := must.Get(o.RegenerateKey(ctx, apps.Data[0].ID))(w) // the newest
	w.used.remember(public)
	w.public[o.TenantID()] = public.Key
	must.Get(o.PatchApplication(ctx, apps.Data[1].ID, vault.JSON(`{"permissions":["token:read"]}`)))(w)
	must.Do(w, o.DeleteApplication(ctx, apps.Data[2].ID))
	reactors := must.Get(o.ListReactors(ctx, vault.ListParams{}))(w)
	must.Get(o.PatchReactor(ctx, reactors.Data[0].ID, vault.JSON(`{"name":"changed"}`)))(w)
	must.Do(w, o.DeleteReactor(ctx, reactors.Data[1].ID))
	proxies := must.Get(o.ListProxies(ctx, vault.ListParams{}))(w)
	must.Get(o.PatchProxy(ctx, proxies.Data[0].ID, vault.JSON(`{"name":"changed"}`)))(w)
	must.Do(w, o.DeleteProxy(ctx, proxies.Data[1].ID))
	must.Get(o.PatchTenant(ctx, vault.JSON(`{"name":"Changed `+o.TenantID().String()+`"}`)))(w)
}

// checkpoints signs notes, with an entry before each.
func (w *world) checkpoints(n int) {
	w.Helper()
	for range n {
		w.clock.Advance(time.Minute)
		page := must.Get(w.v.ListTenants(w.Context(), vault.PageParams{}))(w)
		for i := range page.Data {
			create(w, w.v.Tenant(page.Data[i].ID).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "y"})
		}
		must.Get(w.v.Checkpoint(w.Context()))(w)
	}
}

// moment returns the present state.
func (w *world) moment(owners ...*vault.Owner) moment {
	w.Helper()
	m := moment{kept: map[uuid.UUID]kept{}, leaves: map[uuid.UUID]map[uuid.UUID]string{}}
	for _, o := range owners {
		is := bundle(w, o)
		m.leaves[o.TenantID()] = leavesOf(is)
		m.kept[o.TenantID()] = w.keep(o)
		if k := m.kept[o.TenantID()]; !offline(is, k.key, nil) || len(m.leaves[o.TenantID()]) == 0 {
			w.Fatal("the bundle of a genuine log does not verify")
		}
	}
	settled(w, w.v)
	w.anchorHas(w.v)
	m.rows = w.covered()
	return m
}

// anchorHas waits until the anchor has the newest note.
func (w *world) anchorHas(v *vault.Vault) {
	w.Helper()
	eventually(w, "the anchor has the newest note", func() bool {
		s, err := v.EvidenceStatus()
		latest, _ := w.anchor.Latest(w.Context())
		return err == nil && bytes.Equal(latest, s.Note)
	})
}

// leavesOf returns the lines of a bundle about entries that exist, without their
// places.
func leavesOf(bundle []byte) map[uuid.UUID]string {
	all := map[uuid.UUID]string{}
	for line := range bytes.Lines(bundle) {
		var leaf map[string]json.RawMessage
		var id uuid.UUID
		if json.Unmarshal(line, &leaf) != nil || leaf["entry"] == nil || json.Unmarshal(leaf["id"], &id) != nil {
			continue
		}
		mac := cmp.Or(string(leaf["mac"]), "<no mac>")
		all[id] = fmt.Sprintf("%s %s %s %s", leaf["n"], leaf["kind"], mac, leaf["entry"])
	}
	return all
}

// covered returns all rows of all tables.
func (w *world) covered() map[string]*logRow {
	w.Helper()
	all := map[string]*logRow{}
	for _, table := range w.all {
		if w.narrow && table != "vault_records" && logKeys[table] == nil {
			continue
		}
		for _, r := range w.rows(table, "") {
			all[r.key()] = r
		}
	}
	return all
}

// key returns a text that identifies the row.
func (r *logRow) key() string {
	text := r.table
	for _, name := range r.keys {
		text += fmt.Sprintf(" %x", r.value(name))
	}
	return text
}

func (r *logRow) value(name string) any { return r.values[slices.Index(r.names, name)] }

// tenant returns the tenant of the row; zero for the vault's own rows.
func (r *logRow) tenant() (id uuid.UUID) {
	if i := slices.Index(r.names, "tenant_id"); i >= 0 {
		b, _ := r.values[i].([]byte) // an attacker may have removed it
		copy(id[:], b)
	}
	return id
}

// kind returns the kind of a record.
func (r *logRow) kind() string {
	if r.table != "vault_records" {
		return ""
	}
	return fmt.Sprintf("%s", r.value("kind"))
}

func (r *logRow) equal(other *logRow) bool {
	return slices.EqualFunc(r.values, other.values, sameValue)
}

func sameValue(a, b any) bool {
	x, ok := a.([]byte)
	if y, also := b.([]byte); ok || also {
		return ok == also && bytes.Equal(x, y)
	}
	return a == b
}

// reset brings the database and the anchor back to the later moment.
func (w *world) reset() {
	w.Helper()
	w.anchor = &memoryAnchor{notes: slices.Clone(w.notes)}
	w.anchors = []vault.Anchor{w.anchor}
	w.become(w.b.rows)
}

// become gives the database other rows.
func (w *world) become(rows map[string]*logRow) {
	w.Helper()
	var old, now []*logRow
	is := w.covered()
	for key, r := range is {
		if was, ok := rows[key]; !ok || !was.equal(r) {
			old = append(old, r)
		}
	}
	for key, r := range rows {
		if has, ok := is[key]; (!ok || !has.equal(r)) && (!w.narrow || r.table == "vault_records" || logKeys[r.table] != nil) {
			now = append(now, r)
		}
	}
	if !w.replace(old, now) {
		w.Fatal("the database cannot be reset")
	}
}

// start opens a node on the database.
func (w *world) start() (*vault.Vault, error) {
	clock := vaulttest.NewClock(w.clock.Now().Add(time.Second))
	cfg := vault.Config{
		Now: clock.Now, SweepEvery: -1, WorkEvery: -1, LogRetention: w.retain, Logger: slog.New(slog.DiscardHandler),
		Evidence: &vault.EvidenceConfig{Every: -1, Anchors: w.anchors},
	}
	w.config(&cfg)
	v, err := vault.Open(context.WithoutCancel(w.Context()), w.open(), w.key, &cfg)
	if err == nil {
		unpaced(v)
		w.gate.Use(core.CallerOf(v.Tenant(uuid.UUID{}).Client))
	}
	return v, err
}

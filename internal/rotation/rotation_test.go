package rotation_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// hooked calls a function before a read that every scan of a rotation makes, after
// tokens are listed, and before tokens are inserted or updated. Rotations on it do
// not wait.
type hooked struct {
	storage.Storage
	*keygate.Gate
	lists, listed, sealed, inserts, updates func()
}

// onMemory returns a hooked storage in memory.
func onMemory(t *testing.T) *hooked {
	t.Helper()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	return &hooked{Storage: store, Gate: &keygate.Gate{}}
}

// open opens a vault with a tenant.
func open(t *testing.T, store *hooked, cfg vault.Config) (*vault.Vault, *vault.Client) {
	t.Helper()
	cfg.SweepEvery, cfg.WorkEvery = -1, -1
	v := must.Get(vault.Open(t.Context(), store, vault.NewKey(), &cfg))(t)
	t.Cleanup(func() { v.Close() })
	store.Use(core.CallerOf(v.Tenant(uuid.UUID{})))
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	return v, v.Tenant(tenant.ID).Client
}

func (h *hooked) Write(ctx context.Context, ch *storage.Change) error {
	if h.inserts != nil && len(ch.InsertTokens) > 0 {
		h.inserts()
	}
	if h.updates != nil && len(ch.UpdateTokens) > 0 {
		h.updates()
	}
	return h.Gate.Write(ctx, h.Storage, ch)
}

func (h *hooked) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	if h.lists != nil {
		h.lists()
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if h.listed != nil {
		defer h.listed()
	}
	return h.Storage.ListTokens(ctx, f)
}

func (h *hooked) SealedRows(ctx context.Context, f storage.SealedFilter) ([]storage.Sealed, error) {
	if h.sealed != nil {
		h.sealed()
	}
	return h.Storage.SealedRows(ctx, f)
}

// A rotation that other rotations have overtaken does not destroy the key
// that they have just retired.
func TestRotationDestroysOnlyItsOwnKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := onMemory(t)
	v, c := open(t, h, vault.Config{})
	tok := must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(t)

	var scans atomic.Int32
	h.sealed = func() {
		if scans.Add(1) != 4 { // the last read before the first rotation destroys the key
			return
		}
		must.Match(t, "the rotation that joins in", v.RotateDataKeys(ctx, c.TenantID(), nil), nil)
		cut, cancel := context.WithCancel(ctx)
		h.lists = cancel
		err := v.RotateDataKeys(cut, c.TenantID(), nil)
		must.Match(t, "the next rotation, interrupted before its first row", err, context.Canceled)
		h.lists = nil
	}
	must.Do(t, v.RotateDataKeys(ctx, c.TenantID(), nil))
	must.Fail(c.GetToken(ctx, tok.ID))(t, "the token during the rotation", nil)
	must.Match(t, "continuing the interrupted rotation", v.RotateDataKeys(ctx, c.TenantID(), nil), nil)
	must.Fail(c.GetToken(ctx, tok.ID))(t, "the token after it", nil)
}

// A write that a rotation overtakes is sealed again, even if the rotation
// does not wait.
func TestRotationOvertakesAWrite(t *testing.T) {
	t.Parallel()
	h := onMemory(t)
	v, c := open(t, h, vault.Config{})
	var once sync.Once
	h.inserts = func() {
		once.Do(func() {
			if err := v.RotateDataKeys(t.Context(), c.TenantID(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	must.Get(c.CreateToken(t.Context(), vault.TokenParams{ID: "late", Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Same(t, "data of the token", `"x"`, string(must.Get(c.GetToken(t.Context(), "late"))(t).Data))
}

// A rotation skips a token that was deleted after it was read, although another token
// has its duplicate key by then.
func TestRotationSkipsADeletedDuplicate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := &hooked{Storage: model.New().Open(), Gate: &keygate.Gate{}} // it looks at duplicates before revisions
	v, c := open(t, h, vault.Config{})
	create := func() *vault.Token {
		yes := true
		return must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "same", DeduplicateToken: &yes}))(t)
	}
	tok := create()
	h.updates = sync.OnceFunc(func() {
		must.Do(t, c.DeleteToken(ctx, tok.ID))
		tok = create()
	})
	must.Do(t, v.RotateDataKeys(ctx, c.TenantID(), nil))
	must.Same(t, "data of the other token", `"same"`, string(must.Get(c.GetToken(ctx, tok.ID))(t).Data))
}

// A rotation that was paused after it had read rows continues when other rotations
// have destroyed the keys of these rows.
func TestRotationIsOvertakenByOthers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := onMemory(t)
	v, c := open(t, h, vault.Config{})
	tok := must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(t)
	other := atomic.Bool{}
	h.listed = func() {
		if other.CompareAndSwap(false, true) {
			must.Do(t, v.RotateDataKeys(ctx, c.TenantID(), nil))
		}
	}
	must.Do(t, v.RotateDataKeys(ctx, c.TenantID(), nil))
	must.Same(t, "data of the token", `"secret"`, string(must.Get(c.GetToken(ctx, tok.ID))(t).Data))
}

// Rows that are too large to be resealed together are resealed in smaller
// batches.
func TestRotationOfLargeRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, c := open(t, onMemory(t), vault.Config{MaxPageBytes: 5000})
	for range 10 {
		must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("x", 2000)}))(t)
		must.Get(c.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: strings.Repeat("/", 2000), Configuration: map[string]string{}}))(t)
	}
	last := 0
	err := v.RotateDataKeys(ctx, c.TenantID(), &vault.RotateOptions{Progress: func(done, _ int) {
		if done-last > 2 {
			t.Errorf("%d rows of 2 kB in one batch", done-last)
		}
		last = done
	}})
	must.Do(t, err)
	if last < 20 {
		t.Errorf("%d rows were sealed again", last)
	}
}

// batch is the number of rows that a rotation reseals in one change.
const batch = 200

// rotatingNodes returns two vaults on one database whose rotations do not
// wait.
func rotatingNodes(t *testing.T) (nodes [2]*vault.Vault, store *hooked, key *vault.Key, c *vault.Client) {
	t.Helper()
	path, gate := filepath.Join(t.TempDir(), "vault.db"), &keygate.Gate{}
	key = vault.NewKey()
	for i := range nodes {
		opened, err := sqlite.Open(t.Context(), path)
		must.Do(t, err)
		store = &hooked{Storage: opened, Gate: gate}
		if nodes[i], err = vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1}); err != nil {
			t.Fatal(err)
		}
		gate.Use(core.CallerOf(nodes[i].Tenant(uuid.UUID{})))
		t.Cleanup(func() { nodes[i].Close() })
	}
	tenant := must.Get(nodes[0].CreateTenant(t.Context(), "Acme"))(t)
	c = nodes[0].Tenant(tenant.ID).Client
	for range batch + 50 { // more than one batch
		must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(t)
	}
	return nodes, store, key, c
}

// Concurrent rotations of one tenant on two nodes do not disturb each other.
func TestRotationsOnTwoNodes(t *testing.T) {
	t.Parallel()
	nodes, store, key, c := rotatingNodes(t)
	for range 3 {
		var wg sync.WaitGroup
		for _, v := range nodes {
			wg.Go(func() {
				must.Match(t, "rotate", v.RotateDataKeys(t.Context(), c.TenantID(), nil), nil)
			})
		}
		wg.Wait()
	}
	own := storage.ID(c.TenantID())
	root := must.Get(keyring.OpenRoot(t.Context(), keyring.RootConfig{Store: store, Master: key, Now: time.Now}))(t)
	rings, err := store.Records(t.Context(), own, keyring.KindRing, []storage.ID{own})
	if err != nil || len(rings) != 1 {
		t.Fatalf("%d rings (%v)", len(rings), err)
	}
	ring := must.Get(seal.Unwrap(root, own, rings[0].Body))(t)
	if version := ring.Version(); version < 4 || version > 7 || ring.Retired() {
		t.Errorf("six rotations, in three pairs, left key %d, with one retired: %v", version, ring.Retired())
	}
	for _, v := range nodes {
		n := 0
		for _, err := range v.Tenant(c.TenantID()).AllTokens(t.Context(), vault.ListTokensParams{}) {
			must.Do(t, err)
			n++
		}
		must.Same(t, "tokens that can be read", batch+50, n)
	}
}

// A tenant can be deleted during any step of a rotation.
func TestTenantIsDeletedDuringARotation(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(*hooked, func()){
		"before the tokens": func(h *hooked, f func()) { h.lists = f },
		"after them":        func(h *hooked, f func()) { h.sealed = f },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, store, _, c := rotatingNodes(t)
			var once sync.Once
			hook(store, func() {
				once.Do(func() {
					must.Match(t, "delete", nodes[0].DeleteTenant(t.Context(), c.TenantID()), nil)
				})
			})
			must.Match(t, "rotate", nodes[1].RotateDataKeys(t.Context(), c.TenantID(), nil), vault.ErrNotFound)
			store.lists, store.sealed = nil, nil
			rows, _, err := store.ListTokens(t.Context(), storage.TokenFilter{Tenant: storage.ID(c.TenantID()), Limit: 10})
			if err != nil || len(rows) != 0 {
				t.Errorf("%d tokens are left (%v)", len(rows), err)
			}
			recs, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Tenant: storage.ID(c.TenantID()), Limit: 10})
			if err != nil || len(recs) != 0 {
				t.Errorf("%d records are left, a ring perhaps (%v)", len(recs), err)
			}
		})
	}
}

package vault_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// rotating is a tenant whose keys are replaced while two nodes serve it.
type rotating struct {
	key    *vault.Key
	store  storage.Storage
	vaults [2]*vault.Vault
	clock  *vaulttest.Clock
	id     uuid.UUID
	c      *vault.Client
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vault.db")
	r := &rotating{key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start)}
	for i := range r.vaults {
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		r.store, r.vaults[i] = store, openVault(t, store, r.key, r.clock)
	}
	r.c = tenantOf(t, r.vaults[0])
	r.id = r.c.TenantID()
	return r
}

// ring returns the tenant's keys as they are stored.
func (r *rotating) ring(t *testing.T) *seal.Ring {
	t.Helper()
	recs, err := r.store.Records(t.Context(), storage.ID(r.id), "ring", []storage.ID{storage.ID(r.id)})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d rings (%v)", len(recs), err)
	}
	ring, err := seal.Unwrap(r.key, r.id, recs[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// below counts the rows that are sealed under a key older than version.
func (r *rotating) below(t *testing.T, version int) int {
	t.Helper()
	tenant := storage.ID(r.id)
	_, n, err := r.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant, Where: storage.KeyBelow(version), Limit: 1, Count: true})
	if err != nil {
		t.Fatal(err)
	}
	recs, _, err := r.store.ListRecords(t.Context(), storage.RecordFilter{Tenant: tenant, KeyBelow: version, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if rec.Kind != "ring" { // wrapped under the master key
			n++
		}
	}
	claims, err := r.store.SealedUnder(t.Context(), tenant, storage.SealedClaims, version, 100)
	if err != nil {
		t.Fatal(err)
	}
	return n + len(claims)
}

// Keys are replaced while readers and writers on two nodes go on, after a
// rotation that was cut off, and the old key is destroyed.
func TestRotateKeysWhileTheVaultServes(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	tokens := map[string]string{}
	for i := range 250 { // more than one batch
		tok := create(t, r.c, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.Generic, Data: i, SearchIndexes: []string{"index"}})
		tokens[tok.ID] = tok.Fingerprint
	}
	create(t, r.c, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}})
	app, err := r.c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: everything})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int32
	onceKey := vault.OnceKey{Key: "before"}
	if _, _, err := r.c.Once(t.Context(), onceKey, creating(&runs, generic)); err != nil {
		t.Fatal(err)
	}
	same(t, "version at first", r.ring(t).Version(), 1)

	// The first attempt is cut off after its first batch.
	cut, cancel := context.WithCancel(t.Context())
	err = r.vaults[0].RotateKeys(cut, r.id, &vault.RotateOptions{Progress: func(int) { cancel() }})
	wantError(t, "a rotation that is cut off", err, context.Canceled)
	same(t, "version after the cut", r.ring(t).Version(), 2)
	if !r.ring(t).Retired() || r.below(t, 2) == 0 {
		t.Error("the cut came too late to prove anything")
	}
	get(t, r.c, "tok0")

	// The second goes on where it stopped, while everybody is at work.
	r.clock.Advance(time.Minute)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n, v := range r.vaults {
		c := v.Tenant(r.id)
		wg.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				id := fmt.Sprintf("tok%d", i%250)
				wantData(t, "data", get(t, c, id).Data, fmt.Sprint(i%250))
				update(t, c, id, `{"metadata":{"k":"v"}}`)
				create(t, c, vault.TokenParams{ID: fmt.Sprintf("new-%d-%d", n, i), Type: vault.Generic, Data: "new"})
				if _, err := v.Authenticate(t.Context(), app.Key); err != nil {
					t.Errorf("authenticate: %v", err)
				}
			}
		})
	}
	var done []int
	began := time.Now()
	err = r.vaults[1].RotateKeys(t.Context(), r.id, &vault.RotateOptions{Progress: func(n int) { done = append(done, n) }})
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 10*time.Second {
		t.Errorf("the old key was destroyed after %s, while nodes may use it for ten", took)
	}
	if len(done) == 0 || done[len(done)-1] < 50 {
		t.Errorf("progress is %v", done)
	}

	ring := r.ring(t)
	same(t, "version", ring.Version(), 2) // no third key for the second attempt
	same(t, "a retired key is left", ring.Retired(), false)
	same(t, "rows under the old key", r.below(t, 2), 0)
	place := seal.Place{}
	if _, err := ring.Open(&place, 1, []byte("anything")); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("the old key is still there: %v", err)
	}
	for _, v := range r.vaults {
		c := v.Tenant(r.id)
		for id, fingerprint := range tokens {
			same(t, "fingerprint of "+id, get(t, c, id).Fingerprint, fingerprint)
		}
		wantData(t, "card", get(t, c, "card").Data, `{"number":"4242424242424242","cvc":"987"}`)
		page, err := c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:index"})
		if err != nil || page.Pagination.TotalItems != 250 {
			t.Errorf("search finds %d tokens (%v)", page.Pagination.TotalItems, err)
		}
		if _, replayed, err := c.Once(t.Context(), onceKey, creating(&runs, generic)); err != nil || !replayed {
			t.Errorf("an answer from before: replayed %v, %v", replayed, err)
		}
		authenticated(t, v, app.Key)
	}
	page, err := r.c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, e := range page.Data {
		messages = append(messages, e.Message)
	}
	same(t, "log", messages, []string{"Data keys before 2 destroyed", "Data key 2 made primary", "Data key 2 made pending", "Tenant created"})
}

func TestRotateKeysOfAMissingTenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	wantError(t, "rotate", v.RotateKeys(t.Context(), uuid.New(), nil), vault.ErrNotFound)
}

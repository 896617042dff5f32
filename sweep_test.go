package vault_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A sweep deletes what has expired and nothing else, in all tenants.
func TestSweepDeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	soon := ptr(vaulttest.Start.Add(30 * time.Minute))
	const chunk = 250 // more than one change holds
	for i := range chunk {
		create(t, v.Tenant, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.Generic, Data: i, ExpiresAt: soon})
	}
	create(t, other, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}, ExpiresAt: soon})
	create(t, other, vault.TokenParams{ID: "kept", Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}})
	session(t, v, vault.Grant{Permissions: everything})
	same(t, "nothing is due", sweep(t, v.Vault), vault.Swept{})
	v.Clock.Advance(30 * time.Minute)
	same(t, "after half an hour", sweep(t, v.Vault), vault.Swept{Tokens: chunk + 1, Sessions: 1})
	v.Clock.Advance(30 * time.Minute)
	same(t, "after an hour", sweep(t, v.Vault), vault.Swept{CVCs: 1})
	same(t, "again", sweep(t, v.Vault), vault.Swept{})
	found, _ := list(t, other, vault.ListTokensParams{})
	same(t, "what is left", found, []string{"kept"})
	same(t, "log of an expired token", operations(t, v, "tok7"), []string{"create", "expire"})
	page, err := other.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "kept", PageParams: vault.PageParams{Size: 5}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "message about a cvc", page.Data[1].Message, "Card cvc expired") // before the read of the list
	get(t, v.Private, create(t, v.Private, generic).ID)                      // the applications are still there
}

func sweep(t testing.TB, v *vault.Vault) vault.Swept {
	t.Helper()
	swept, err := v.Sweep(t.Context())
	if err != nil {
		t.Fatalf("sweep: %v", err)
	}
	return swept
}

// Idempotency records are deleted after 24 hours.
func TestSweepDeletesIdempotencyRecords(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	var key storage.Key
	store.before = func(call string, ch *storage.Change) error {
		if call == "Write" && ch.Claim != nil {
			key = ch.Claim.Key
		}
		return nil
	}
	var runs atomic.Int32
	if _, _, err := v.Private.Once(t.Context(), vault.OnceKey{Key: "abc"}, creating(&runs, generic)); err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(24*time.Hour - time.Microsecond)
	sweep(t, v.Vault)
	if _, err := store.Claim(t.Context(), storage.ID(v.Acme.ID), key); err != nil {
		t.Errorf("before 24 hours: %v", err)
	}
	v.Clock.Advance(time.Microsecond)
	sweep(t, v.Vault)
	_, err := store.Claim(t.Context(), storage.ID(v.Acme.ID), key)
	wantError(t, "after 24 hours", err, storage.ErrNotFound)
}

// Several nodes may sweep at once, while tokens are patched.
func TestConcurrentSweeps(t *testing.T) {
	t.Parallel()
	vaults, clock := nodes(t, 2)
	tenant := tenantOf(t, vaults[0])
	for i := range 100 {
		create(t, tenant, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.Generic, Data: i, ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))})
		create(t, tenant, vault.TokenParams{ID: fmt.Sprintf("card%d", i), Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}})
	}
	clock.Advance(time.Hour)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { sweep(t, vaults[i%2]) })
	}
	wg.Go(func() {
		for i := range 20 {
			update(t, tenant, fmt.Sprintf("card%d", i), `{"metadata":{"k":"v"}}`)
		}
	})
	wg.Wait()
	same(t, "what is left to sweep", sweep(t, vaults[0]), vault.Swept{})
	_, total := list(t, tenant, vault.ListTokensParams{})
	same(t, "tokens", total, 100)
	page, err := tenant.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "tok7"})
	if err != nil || page.Pagination.TotalItems != 2 {
		t.Errorf("the log has %d entries of an expired token (%v), want 2", page.Pagination.TotalItems, err)
	}
}

// A vault sweeps by itself.
func TestVaultSweepsByItself(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	clock := vaulttest.NewClock(vaulttest.Start)
	v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Now: clock.Now, SweepEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant := tenantOf(t, v)
	tok := create(t, tenant, vault.TokenParams{Type: vault.Generic, Data: "x", ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))})
	clock.Advance(time.Hour)
	eventually(t, 20*time.Second, "the row is deleted", func() bool {
		rows, err := store.Tokens(t.Context(), storage.ID(tenant.TenantID()), []string{tok.ID})
		return err == nil && len(rows) == 0
	})
}

// A sweep that fails says so, and the next one goes on.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "x", ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))})
	v.Clock.Advance(time.Hour)
	store.before = func(string, *storage.Change) error { return errDown }
	_, err := v.Sweep(t.Context())
	wantError(t, "while the database is down", err, errDown)
	store.before = nil
	same(t, "when it is back", sweep(t, v.Vault), vault.Swept{Tokens: 1})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Sweep(cancelled); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
}

// What fails for one row keeps neither other rows nor old pages.
func TestSweepGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "x", ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))})
	v.Clock.Advance(time.Hour)
	var swept bool
	store.before = func(method string, c *storage.Change) error {
		swept = swept || method == "Sweep"
		if c != nil && len(c.DeleteTokens) > 0 {
			return errDown
		}
		return nil
	}
	_, err := v.Sweep(t.Context())
	wantError(t, "a token that cannot be deleted", err, errDown)
	if !swept {
		t.Error("the storage was not swept")
	}
}

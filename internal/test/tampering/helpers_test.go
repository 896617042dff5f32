//go:build !race

// Package tampering changes the database of a vault behind its back, and tests that
// the vault, its verifiers and its sweep notice. The tests are about what is stored
// and not about goroutines, and the race detector would make them ten times slower,
// so they run without it.
//
// The tests name ten cases, which an earlier version did not find:
//
//  1. A tenant's tree begins again. (TestMixtures)
//  2. An invented entry has no mac. (TestMixtures)
//  3. An invented entry hides an older row. (TestMixtures)
//  4. The evidence is removed. (TestMixtures)
//  5. The sweep attests an altered row. (TestSweepOpensWhatItDeletes)
//  6. A deleted tenant comes back. (TestDeletedTenantsStayDeleted)
//  7. Callers make the vault sign. (TestCallersDoNotMakeTheVaultSign)
//  8. Retention looks like tampering, or hides it. (TestVerificationBesideWork,
//     TestForgedEntriesDoNotExpire)
//  9. Verification stops signing. (TestVerificationDoesNotStopSigning)
//  10. A proof reads the whole log. (TestProofsAreLogarithmic)
package tampering

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/notary"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

const visa = "4242424242424242"

// unpaced removes the limit on the notes that a vault signs per second, so that
// tests do not wait.
func unpaced(v *vault.Vault) {
	core.CallerOf(v.Tenant(uuid.UUID{}).Client).Vault.Ledger.(*notary.Keeper).SetPace(0)
}

func create(t testing.TB, c *vault.Client, p vault.TokenParams) *vault.Token {
	t.Helper()
	return must.Get(c.CreateToken(t.Context(), p))(t)
}

func get(t testing.TB, c *vault.Client, id string) {
	t.Helper()
	must.Get(c.GetToken(t.Context(), id))(t)
}

// aText is a token with an id.
func aText(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}
}

// tenantOf adds a tenant and returns the client that acts as it.
func tenantOf(t testing.TB, v *vault.Vault) *vault.Client {
	t.Helper()
	return v.Tenant(must.Get(v.CreateTenant(t.Context(), "Acme"))(t).ID).Client
}

// onDisk opens a SQLite database, which the vault closes.
func onDisk(t testing.TB, path string) vault.Storage {
	t.Helper()
	return must.Get(sqlite.Open(context.WithoutCancel(t.Context()), path))(t)
}

func sweep(t testing.TB, v *vault.Vault) vault.Swept {
	t.Helper()
	return must.Get(v.Sweep(t.Context()))(t)
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

// alarms is an observer that records the names of alarms.
type alarms struct {
	mu    sync.Mutex
	names []string
}

func (a *alarms) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.names = append(a.names, e.Name)
	}
	return ctx, func(error) {}
}

// take returns the alarms since the last call.
func (a *alarms) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}

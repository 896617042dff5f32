//go:build long

package faults

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestKills kills a process under load 1,000 times on each backend, with evidence. After
// each kill, everything that was acknowledged must be there, the log must have an entry
// for each change and a change for each entry, and the evidence must verify.
//
//	go test -tags long -run 'TestKills/sqlite' -timeout 0 ./internal/test/faults -args -long.state DIR
func TestKills(t *testing.T) {
	onEach(t, backends, func(t *testing.T, name, _ string) {
		tally := long.Resume(t, "kills-"+name)
		for tally.Counts["kills"] < long.Goal(1000) && !t.Failed() {
			killsOn(t, backends[name](t), tally)
		}
		t.Log(tally)
	})
}

// killsPerDatabase bounds the kills on a database, because everything on it is compared
// after each.
const killsPerDatabase = 10

// killsOn kills processes on a database.
func killsOn(t *testing.T, dsn string, tally *long.Tally) {
	t.Helper()
	key, tenant := vault.NewKey(), uuid.UUID{}
	func() {
		store := must.Get(openStore(t.Context(), dsn))(t)
		v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}}))(t)
		defer v.Close()
		tenant = must.Get(v.CreateTenant(t.Context(), "Acme"))(t).ID
	}()
	var done []string
	for range killsPerDatabase {
		lines := runAndKill(t, dsn, key, tenant, 30+rand.IntN(250), childLedger+"=1")
		done = append(done, lines...)
		verify(t, dsn, key, tenant, done)
		entries := verifyEvidence(t, dsn, key)
		if t.Failed() {
			return
		}
		tally.Add("kills", 1)
		tally.Add("operations", len(lines))
		tally.Add("leaves compared", int(entries))
		tally.Save()
		if tally.Counts["kills"] >= long.Goal(1000) {
			return
		}
	}
}

// verifyEvidence compares the log with the trees, and returns how many leaves it has
// compared.
func verifyEvidence(t *testing.T, dsn string, key *vault.Key) int64 {
	t.Helper()
	store := must.Get(openStore(t.Context(), dsn))(t)
	v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}}))(t)
	defer v.Close()
	must.Get(v.Checkpoint(t.Context()))(t)
	report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
	if !report.OK() || len(report.Findings) > 0 {
		t.Errorf("the evidence does not verify: %v", report.Findings)
	}
	return report.Entries
}

//go:build !race

package tampering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// Case 7: however many callers ask, a vault signs about one note per second.
func TestCallersDoNotMakeTheVaultSign(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		v := must.Get(vault.Open(a.Context(), a.open(), a.key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}}))(a)
		defer v.Close()
		notes := func() int { return len(a.rows("vault_log_checkpoints", "")) }
		before, began := notes(), time.Now()
		o := v.Tenant(a.owners[0].TenantID())
		var callers sync.WaitGroup
		for i := range 50 {
			create(a, o.Client, aText(fmt.Sprint("token-", i)))
			callers.Go(func() {
				must.Match(a, "LogCheckpoint", must.Err(o.LogCheckpoint(a.Context())), nil)
			})
		}
		callers.Wait()
		if signed, most := notes()-before, int(time.Since(began)/time.Second)+2; signed > most {
			a.Errorf("%d notes are signed, want at most %d", signed, most)
		}
	})
}

// Case 8: an entry that would have expired must still be an entry that the vault
// wrote.
func TestForgedEntriesDoNotExpire(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.retain = 24 * time.Hour
		a.node(nil)
		a.hourly(1)
		old := a.clock.Now()
		a.clock.Advance(48 * time.Hour)
		create(a, a.owners[0].Client, aText("secret"))
		must.Do(a, sweepLogs(a, a.v))
		a.mustVerifyExpired()
		row := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0]
		for name, values := range map[string]map[string]any{
			"old": {}, "old, but not its time": {"created_at": a.clock.Now().UnixMicro()}, "old, with a mac": {"mac": []byte("0123456789abcdef")},
		} {
			invented := a.invent(row, old, values)
			a.put(invented)
			a.Log(name)
			report := must.Get(a.v.VerifyLogs(a.Context(), nil))(a)
			if !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
				return f.EntryID == invented.entry() && f.Verdict == evidence.Forged && f.Tenant == a.owners[0].TenantID()
			}) {
				a.Errorf("the entry is not found: %+v", report.Findings)
			}
			a.change(a.owners[0], "DELETE FROM vault_logs WHERE id = ? AND tenant_id = ?", binary(invented.entry()))
		}
	})
}

// invent returns a copy of an entry under another id, at the end of the log.
func (a *attacked) invent(r *logRow, at time.Time, values map[string]any) *logRow {
	a.Helper()
	column, text := "seq", `SELECT max(seq) + 1 FROM vault_logs`
	if a.pg {
		column, text = "xid", `SELECT txid_current()`
	}
	var last int64
	must.Do(a, a.db.QueryRowContext(a.Context(), text).Scan(&last))
	all := map[string]any{"id": binary(idAt(at)), "created_at": at.UnixMicro(), "mac": nil, column: last}
	maps.Copy(all, values)
	return r.set(all)
}

// firstLeaves reports whether a query is for the first block of a tree that has
// more. An append does not read it.
func firstLeaves(query any) bool {
	q, ok := query.(storage.TreeQuery)
	return ok && q.From == 0 && q.To > 0
}

// Case 9: entries are sequenced and notes are signed while a verification waits for a
// read, whichever read it is.
func TestVerificationDoesNotStopSigning(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.hourly(2)
		a.mustVerify()
		w := a.watched()
		for n := int64(1); a.signsBeside(w, n) && !a.Failed(); n++ {
		}
	})
}

// signsBeside holds the n-th read of first leaves of a verification, and waits for a
// note over a new entry. It reports whether there was such a read.
func (a *attacked) signsBeside(w *watched, n int64) bool {
	a.Helper()
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	reached := w.atRead(n, firstLeaves, func() {
		close(held)
		<-release
	})
	go func() {
		defer close(ended)
		if report, err := a.v.VerifyLogs(context.WithValue(a.Context(), marked{}, true), nil); err != nil || !report.OK() {
			a.Errorf("%v, %+v", err, report)
		}
	}()
	select {
	case <-ended:
	case <-held:
		before := a.evidence()
		create(a, a.owners[0].Client, aText(fmt.Sprint("meanwhile-", n)))
		eventually(a, "a note covers the entry", func() bool {
			must.Get(a.v.Checkpoint(a.Context()))(a)
			s := must.Get(a.v.EvidenceStatus())(a)
			return s.Size > before && s.Pending == 0
		})
	}
	close(release)
	<-ended
	return reached()
}

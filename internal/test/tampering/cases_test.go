//go:build !race

package tampering

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The tests name ten cases, which an earlier version did not find:
//
//  1. A tenant's tree begins again. (TestCases)
//  2. An invented entry has no mac. (TestCases)
//  3. An invented entry hides an older row. (TestCases)
//  4. The evidence is removed. (TestCases)
//  5. The sweep attests an altered row. (TestSweepOpensWhatItDeletes)
//  6. A deleted tenant comes back. (TestDeletedTenantsStayDeleted)
//  7. Callers make the vault sign. (TestCallersDoNotMakeTheVaultSign)
//  8. Retention looks like tampering, or hides it. (TestVerificationBesideWork,
//     TestForgedEntriesDoNotExpire)
//  9. Verification stops signing. (TestVerificationDoesNotStopSigning)
//  10. A proof reads the whole log. (TestProofsAreLogarithmic)

// restarts are the moments at which an attacker may change the database.
var restarts = map[string]func(a *attacked, tamper func()) error{
	"running": func(_ *attacked, tamper func()) error {
		tamper()
		return nil
	},
	"restarted later": func(a *attacked, tamper func()) error {
		tamper()
		return a.reopen(nil)
	},
	"stopped": func(a *attacked, tamper func()) error {
		_ = a.v.Close()
		tamper()
		return a.reopen(nil)
	},
}

// tampering is a change of the database, and what verifiers must say about it.
type tampering struct {
	do        func()
	entry     uuid.UUID        // which a finding in place names, if not zero
	row       string           // which a finding in place names, if not empty
	verdict   evidence.Verdict // of that finding
	bundle    bool             // the tenant's bundle must not verify, in Go and in Python
	vouched   uuid.UUID        // an entry for which nothing may vouch
	suspended bool             // nothing is signed or anchored until it is accepted
}

// cases are changes of the first tenant's log. The names begin with the number of
// the case.
var cases = map[string]func(*attacked) tampering{
	"1, a tree begins again without an entry": func(a *attacked) tampering {
		return beginAgain(a, `DELETE FROM vault_logs WHERE id = ? AND tenant_id = ?`)
	},
	"1, a tree begins again with another name": func(a *attacked) tampering {
		return beginAgain(a, `UPDATE vault_logs SET actor_name = 'john' WHERE id = ? AND tenant_id = ?`)
	},
	"2, an invented entry":              func(a *attacked) tampering { return inventEntry(a, 0) },
	"2, an invented entry of last year": func(a *attacked) tampering { return inventEntry(a, 300*24*time.Hour) },
	"3, a deleted application": func(a *attacked) tampering {
		return hideRollback(a, (*vault.Owner).DeleteApplication, map[string]any{"message": "Application created (revision 0)"})
	},
	"3, a deleted application, with a copied mac": func(a *attacked) tampering {
		return hideRollback(a, (*vault.Owner).DeleteApplication, nil)
	},
	"3, a regenerated key": func(a *attacked) tampering {
		return hideRollback(a, regenerate, map[string]any{"message": "Application created (revision 0)"})
	},
	"3, a regenerated key, with a copied mac": func(a *attacked) tampering { return hideRollback(a, regenerate, nil) },
	"4, no evidence and no key":               func(a *attacked) tampering { return removeEvidence(a, "evidence") },
	"4, no evidence":                          func(a *attacked) tampering { return removeEvidence(a, "none") },
}

// TestCases changes a database with an anchor at each moment, goes on with ordinary
// calls, and asks every verifier.
func TestCases(t *testing.T) {
	t.Parallel()
	for name, prepare := range cases {
		for moment, at := range restarts {
			t.Run(name+"/"+moment, func(t *testing.T) {
				t.Parallel()
				attack(t, func(a *attacked) { a.tampered(prepare, at) })
			})
		}
	}
}

func (a *attacked) tampered(prepare func(*attacked) tampering, at func(*attacked, func()) error) {
	a.Helper()
	path := filepath.Join(a.TempDir(), "notes")
	a.anchors = []vault.Anchor{vault.AnchorFile(path)}
	a.node(nil)
	a.Cleanup(func() { _ = a.v.Close() }) // before the folder is removed
	create(a, a.owners[0].AsUser("jane").Client, aText("secret"))
	create(a, a.owners[1].Client, aText("other"))
	is := prepare(a)
	a.mustVerify()
	k := a.keep(a.owners[0])
	a.anchored(path)
	var before []byte
	if err := at(a, func() {
		before = must.Get(os.ReadFile(path))(a)
		is.do()
	}); err != nil {
		return // the vault does not even open
	}
	a.calls(a.owners[0])
	a.wantFound(&is)
	a.wantAudited(k, &is)
	if is.suspended {
		a.wantSuspended(path, before)
	} else if !offline(bundle(a, a.owners[1]), k.key, k.vault) {
		a.Error("the bundle of another tenant does not verify")
	}
}

// anchored waits until an anchor has the newest note.
func (a *attacked) anchored(path string) {
	a.Helper()
	s := must.Get(a.v.EvidenceStatus())(a)
	eventually(a, "the anchor has the note", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Contains(text, s.Note)
	})
}

// calls are a few ordinary operations, which add to the log.
func (a *attacked) calls(o *vault.Owner) {
	a.Helper()
	create(a, o.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	_, _ = o.GetToken(a.Context(), "none")
	_, _ = a.v.Checkpoint(a.Context()) // it may refuse to sign
	a.clock.Advance(time.Minute)
	_, _ = a.v.Checkpoint(a.Context())
}

// wantFound fails the test unless verification in place finds the change, and
// raises an alarm.
func (a *attacked) wantFound(is *tampering) {
	a.Helper()
	if inPlace(a, a.v) == "" {
		a.Error("verification in place does not find it")
	}
	if s, err := a.v.EvidenceStatus(); err != nil || len(s.Alarms) == 0 {
		a.Errorf("there is no alarm (%v)", err)
	}
	if is.entry == (uuid.UUID{}) && is.row == "" {
		return
	}
	a.wantNamed(is.verdict, is.entry, is.row)
}

// wantNamed fails the test unless a finding in place names an entry or a row of the
// first tenant.
func (a *attacked) wantNamed(verdict evidence.Verdict, entry uuid.UUID, row string) {
	a.Helper()
	report := must.Get(a.v.VerifyLogs(a.Context(), nil))(a)
	if !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
		named := row != "" && f.Row == row || row == "" && f.EntryID == entry
		return named && f.Verdict == verdict && f.Tenant == a.owners[0].TenantID()
	}) {
		a.Errorf("no finding is %s %s %s: %+v", verdict, entry, row, report.Findings)
	}
}

// wantAudited fails the test unless the bundle says what it must say offline, with
// each note that an auditor may have kept.
func (a *attacked) wantAudited(k kept, is *tampering) {
	a.Helper()
	text := bundle(a, a.owners[0])
	var audits []audit
	for name, since := range map[string][]byte{"no note": nil, "a note of the vault": k.vault, "a note of the tenant": k.tenant} {
		audits = append(audits, audit{name, k.key, text, since})
	}
	wantAgreement(a, audits)
	for i := range audits {
		if ok := audits[i].goStatus() == "0"; ok == is.bundle {
			a.Errorf("with %s, the bundle verifies: %t", audits[i].what, ok)
		}
	}
	if is.vouched == (uuid.UUID{}) {
		return
	}
	if proof, err := a.owners[0].LogProof(a.Context(), is.vouched); err == nil {
		a.Errorf("the entry has a proof: %s", proof)
	}
	if bytes.Contains(text, []byte(is.vouched.String())) {
		a.Error("the bundle has the entry")
	}
}

// wantSuspended fails the test if a vault signs, or writes to the anchor, before a
// person accepts the change. A restart does not help.
func (a *attacked) wantSuspended(path string, before []byte) {
	a.Helper()
	for range 2 {
		if s, err := a.v.EvidenceStatus(); err != nil || s.Suspended == "" {
			a.Errorf("the vault signs: %+v, %v", s, err)
		}
		if after := must.Get(os.ReadFile(path))(a); !bytes.Equal(before, after) {
			a.Errorf("the anchor was written to: %q", bytes.TrimPrefix(after, before))
		}
		if err := a.reopen(nil); err != nil {
			return
		}
		a.calls(a.owners[0])
	}
	must.Do(a, a.v.AcceptRestore(a.Context(), "the evidence was removed"))
	if s, err := a.v.EvidenceStatus(); err != nil || s.Suspended != "" {
		a.Errorf("after it was accepted: %+v, %v", s, err)
	}
}

// beginAgain changes an entry and deletes the tenant's tree.
func beginAgain(a *attacked, text string) tampering {
	entry := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0].entry()
	return tampering{bundle: true, do: func() {
		a.change(a.owners[0], text, binary(entry))
		for _, table := range []string{"vault_log_trees", "vault_log_leaves", "vault_log_nodes"} {
			a.change(a.owners[0], "DELETE FROM "+table+" WHERE tenant_id = ?")
		}
	}}
}

// inventEntry adds an entry without a mac.
func inventEntry(a *attacked, age time.Duration) tampering {
	is := a.invent(a.rows("vault_logs", "WHERE entity_id = 'secret'")[0], a.clock.Now().Add(-age), map[string]any{"message": "Token invented"})
	return tampering{entry: is.entry(), vouched: is.entry(), verdict: evidence.Forged, do: func() { a.put(is) }}
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

func regenerate(o *vault.Owner, ctx context.Context, id uuid.UUID) error { //nolint:revive // like a method of Owner
	_, err := o.RegenerateKey(ctx, id)
	return err
}

// hideRollback puts the row of an application back, with an entry that explains it.
// Without values, the entry is a copy of the one about the creation, with its mac.
func hideRollback(a *attacked, change func(*vault.Owner, context.Context, uuid.UUID) error, values map[string]any) tampering {
	o := a.owners[0]
	app := must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{
		Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"},
	}))(a)
	created := a.rows("vault_logs", "WHERE entity_id = ?", app.ID.String())[0]
	restore := a.putBack(o, "vault_records", "vault_lookups")
	must.Do(a, change(o, a.Context(), app.ID))
	if values == nil {
		values = map[string]any{"mac": created.value("mac")}
	}
	return tampering{row: "application " + app.ID.String(), verdict: evidence.Altered, do: func() {
		restore()
		a.put(a.invent(created, a.clock.Now(), values))
	}}
}

// removeEvidence removes the trees, an entry, and records of a kind.
func removeEvidence(a *attacked, kind string) tampering {
	return tampering{bundle: true, suspended: true, do: func() {
		a.exec("DELETE FROM vault_records WHERE kind = '" + kind + "'")
		for table := range logKeys {
			if strings.HasPrefix(table, "vault_log_") {
				a.exec("DELETE FROM " + table)
			}
		}
		a.exec("DELETE FROM vault_logs WHERE entity_id = 'secret'")
	}}
}

package vault_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
)

// unpaced removes the limit on the notes that a vault signs per second, so that
// tests do not wait.
func unpaced(v *vault.Vault) { vault.SetNotePace(v, 0) }

// anchored runs a test on both databases, with an anchor in a file.
func anchored(t *testing.T, test func(a *attacked, anchor string)) {
	t.Helper()
	attack(t, func(a *attacked) {
		anchor := filepath.Join(a.TempDir(), "notes")
		a.anchors = []vault.Anchor{vault.AnchorFile(anchor)}
		a.node(nil)
		a.Cleanup(func() { _ = a.v.Close() }) // before the folder is removed
		a.live(15)
		test(a, anchor)
	})
}

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

// atEachMoment runs a test for each of these moments. The test gets a function
// that changes the database then.
func atEachMoment(t *testing.T, test func(a *attacked, anchor string, at func(tamper func()) error)) {
	t.Helper()
	for name, at := range restarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			anchored(t, func(a *attacked, anchor string) {
				test(a, anchor, func(tamper func()) error { return at(a, tamper) })
			})
		})
	}
}

// kept is what an auditor has from before the tampering.
type kept struct {
	key           string
	vault, tenant []byte // signed notes
}

// keep returns what an auditor of a tenant has now.
func (a *attacked) keep(o *vault.Owner) kept {
	a.Helper()
	note, err := a.v.Checkpoint(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	key, err := a.v.EvidenceKey()
	if err != nil {
		a.Fatal(err)
	}
	rows := a.rows("vault_logs", "WHERE tenant_id = ? ORDER BY id", binary(o.TenantID()))
	proof, err := o.LogProof(a.Context(), rows[len(rows)-1].entry())
	if err != nil {
		a.Fatal(err)
	}
	_, tenant, ok := bytes.Cut(proof, []byte("\n\n"))
	if !ok {
		a.Fatalf("a proof without a note: %s", proof)
	}
	return kept{key, note, tenant}
}

func binary(id uuid.UUID) []byte { return id[:] }

// calls are a few ordinary operations, which add to the log.
func (a *attacked) calls(o *vault.Owner) {
	a.Helper()
	for i := range 2 {
		id := fmt.Sprintf("after-%d-%d", i, a.clock.Now().Unix())
		if _, err := o.CreateToken(a.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}); err != nil {
			a.Fatalf("an ordinary call: %v", err)
		}
	}
	_, _ = o.GetToken(a.Context(), "none")
	_, _ = a.v.Checkpoint(a.Context()) // it may refuse to sign
	a.clock.Advance(time.Minute)
	_, _ = a.v.Checkpoint(a.Context())
}

// inPlace reports what the vault itself has found, or an empty text.
func inPlace(t testing.TB, v *vault.Vault) string {
	t.Helper()
	report, err := v.VerifyLogs(t.Context(), nil)
	if err != nil {
		return err.Error()
	}
	s, err := v.EvidenceStatus()
	if err != nil {
		return err.Error()
	}
	if !report.OK() {
		return fmt.Sprint(report.Findings)
	}
	return s.Suspended
}

// bundle returns the exported evidence of a tenant, or nil if the export fails.
func bundle(t testing.TB, o *vault.Owner) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := o.ExportEvidence(t.Context(), &out); err != nil {
		return nil
	}
	return out.Bytes()
}

// offline reports whether a bundle verifies.
func offline(bundle []byte, key string, since []byte) bool {
	report, err := evidence.Verify(bytes.NewReader(bundle), key, since)
	return bundle != nil && err == nil && report.OK()
}

// python reports whether a bundle verifies according to verify.py.
func python(t testing.TB, bundle []byte, key string, since []byte) bool {
	t.Helper()
	dir := t.TempDir()
	args := []string{"examples/evidence/verify.py", filepath.Join(dir, "bundle"), key}
	if since != nil {
		args = append(args, filepath.Join(dir, "note"))
	}
	for name, text := range map[string][]byte{"bundle": bundle, "note": since} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "python3", args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("verify.py needs python3: %v", err)
	}
	if code := exit; err != nil && code.ExitCode() != 5 && code.ExitCode() != 6 {
		t.Errorf("verify.py fails: %s", out)
	}
	return err == nil
}

// deceived returns the verifiers that say that a tenant's log is as it was.
func (a *attacked) deceived(k kept, o *vault.Owner) (by []string) {
	a.Helper()
	if inPlace(a, a.v) == "" {
		by = append(by, "in place")
	}
	is := bundle(a, o)
	for name, since := range map[string][]byte{"": nil, " since a note of the vault": k.vault, " since a note of the tenant": k.tenant} {
		if offline(is, k.key, since) {
			by = append(by, "offline"+name)
		}
		if is != nil && python(a, is, k.key, since) {
			by = append(by, "verify.py"+name)
		}
	}
	slices.Sort(by)
	return by
}

func (a *attacked) wantNobodyDeceived(k kept, o *vault.Owner) {
	a.Helper()
	if by := a.deceived(k, o); len(by) > 0 {
		a.Errorf("tampering is not found: %s", strings.Join(by, ", "))
	}
}

// wantAlarm fails the test if there was no alarm, about the log or about a row.
func (a *attacked) wantAlarm() {
	a.Helper()
	if s, err := a.v.EvidenceStatus(); err != nil || len(s.Alarms)+len(a.heard.take()) == 0 {
		a.Errorf("there is no alarm (%v)", err)
	}
}

// change runs a statement with the tenant as its last argument.
func (a *attacked) change(o *vault.Owner, text string, args ...any) {
	a.Helper()
	if _, err := a.db.ExecContext(a.Context(), a.bind(text), append(args, binary(o.TenantID()))...); err != nil {
		a.Fatalf("%s: %v", text, err)
	}
}

// The trees that a tenant has already had heads of cannot begin again.
func TestTreesDoNotBeginAgain(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an entry is deleted": `DELETE FROM vault_logs WHERE id = ? AND tenant_id = ?`,
		"a name is replaced":  `UPDATE vault_logs SET actor_name = 'john' WHERE id = ? AND tenant_id = ?`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEachMoment(t, func(a *attacked, _ string, at func(func()) error) {
				o := a.owners[0]
				create(a, o.AsUser("jane").Client, aText("secret", "x"))
				k := a.keep(o)
				entry := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0].entry()
				if err := at(func() {
					a.change(o, text, binary(entry))
					for _, table := range []string{"vault_log_trees", "vault_log_leaves", "vault_log_nodes"} {
						a.change(o, "DELETE FROM "+table+" WHERE tenant_id = ?")
					}
				}); err != nil {
					return // the vault does not even open
				}
				o = a.owners[0]
				a.calls(o)
				a.wantNobodyDeceived(k, o)
				a.wantAlarm()
				if !offline(bundle(a, a.owners[1]), k.key, k.vault) {
					a.Error("the bundle of another tenant does not verify")
				}
			})
		})
	}
}

// idAt returns an id as the vault gives it to an entry.
func idAt(at time.Time) uuid.UUID {
	id, ms := uuid.New(), at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	return id
}

// set returns the row with other values.
func (r *logRow) set(values map[string]any) *logRow {
	for name, value := range values {
		r = r.with(slices.Index(r.names, name), value)
	}
	return r
}

// invent returns a copy of an entry under another id, at the end of the log.
func (a *attacked) invent(r *logRow, at time.Time, values map[string]any) *logRow {
	a.Helper()
	column, text := "seq", `SELECT max(seq) + 1 FROM vault_logs`
	if a.pg {
		column, text = "xid", `SELECT txid_current()`
	}
	var last int64
	if err := a.db.QueryRowContext(a.Context(), text).Scan(&last); err != nil {
		a.Fatal(err)
	}
	all := map[string]any{"id": binary(idAt(at)), "created_at": at.UnixMicro(), "mac": nil, column: last}
	maps.Copy(all, values)
	return r.set(all)
}

// put inserts rows.
func (a *attacked) put(rows ...*logRow) {
	a.Helper()
	for i, r := range rows {
		if r.table == "vault_tokens" && !a.pg {
			rows[i] = r.with(slices.Index(r.names, "hashes"), []byte{}) // the driver reads it as NULL
		}
	}
	if !a.replace(nil, rows) {
		a.Fatal("the rows cannot be inserted")
	}
}

// An entry that the vault did not write gets into no tree, no bundle and no proof,
// and the vault computes no MAC for it.
func TestInventedEntriesAreForged(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"new": 0, "of last year": 300 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEachMoment(t, func(a *attacked, _ string, at func(func()) error) {
				o := a.owners[0]
				create(a, o.Client, aText("secret", "x"))
				k := a.keep(o)
				invented := a.invent(a.rows("vault_logs", "WHERE entity_id = 'secret'")[0], a.clock.Now().Add(-age), map[string]any{"message": "Token invented"})
				if err := at(func() { a.put(invented) }); err != nil {
					return
				}
				o = a.owners[0]
				a.calls(o)
				a.wantForged(o, invented.entry())
				a.wantNotAttested(k, o, invented.entry())
			})
		})
	}
}

// wantForged fails the test if verification in place does not name a forged entry.
func (a *attacked) wantForged(o *vault.Owner, id uuid.UUID) {
	a.Helper()
	report, err := a.v.VerifyLogs(a.Context(), nil)
	if err != nil {
		a.Fatal(err)
	}
	named := slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
		return f.Tenant == o.TenantID() && f.EntryID == id && f.Verdict == evidence.Forged
	})
	if report.OK() || !named {
		a.Errorf("the entry is not found to be forged: %+v", report.Findings)
	}
}

// wantNotAttested fails the test if the vault vouches for an entry.
func (a *attacked) wantNotAttested(k kept, o *vault.Owner, id uuid.UUID) {
	a.Helper()
	if proof, err := o.LogProof(a.Context(), id); err == nil && evidence.VerifyProof(proof, k.key) == nil {
		a.Error("the entry has a proof")
	}
	is := bundle(a, o)
	for line := range bytes.Lines(is) {
		if bytes.Contains(line, []byte(id.String())) && bytes.Contains(line, []byte(`"mac"`)) {
			a.Errorf("the vault has computed a mac: %s", line)
		}
	}
	if !bytes.Contains(is, []byte(id.String())) {
		return
	}
	for _, since := range [][]byte{nil, k.vault, k.tenant} {
		if offline(is, k.key, since) || python(a, is, k.key, since) {
			a.Error("a bundle with the entry verifies")
		}
	}
}

// putBack saves the rows of a tenant, and returns a function that brings them
// back, in the place of the present ones.
func (a *attacked) putBack(o *vault.Owner, tables ...string) (restore func()) {
	a.Helper()
	var saved []*logRow
	for _, table := range tables {
		saved = append(saved, a.rows(table, "WHERE tenant_id = ?", binary(o.TenantID()))...)
	}
	return func() {
		a.Helper()
		for _, table := range tables {
			a.change(o, "DELETE FROM "+table+" WHERE tenant_id = ?")
		}
		a.put(saved...)
	}
}

// An older row of an application contradicts the log, whatever an attacker adds to
// the log: the highest revision counts, and a deletion is final.
func TestInventedEntriesHideNoRollback(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*attacked, *vault.Owner, uuid.UUID) error{
		"deleted": func(a *attacked, o *vault.Owner, id uuid.UUID) error { return o.DeleteApplication(a.Context(), id) },
		"regenerated": func(a *attacked, o *vault.Owner, id uuid.UUID) error {
			_, err := o.RegenerateKey(a.Context(), id)
			return err
		},
	} {
		for how, values := range map[string]map[string]any{
			"without a mac": {"message": "Application created (revision 0)"}, "a copy": {"mac": "copied"}, "nothing": nil,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				atEachMoment(t, func(a *attacked, _ string, at func(func()) error) {
					hideRollback(a, change, values, at)
				})
			})
		}
	}
}

func hideRollback(a *attacked, change func(*attacked, *vault.Owner, uuid.UUID) error, values map[string]any, at func(func()) error) {
	a.Helper()
	o := a.owners[0]
	app, err := o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	if err != nil {
		a.Fatal(err)
	}
	created := a.rows("vault_logs", "WHERE entity_id = ?", app.ID.String())[0]
	restore := a.putBack(o, "vault_records", "vault_lookups")
	if err := change(a, o, app.ID); err != nil {
		a.Fatal(err)
	}
	a.mustVerify()
	if err := at(func() {
		restore()
		switch {
		case values["mac"] != nil:
			a.put(a.invent(created, a.clock.Now(), map[string]any{"mac": created.values[slices.Index(created.names, "mac")]}))
		case values != nil:
			a.put(a.invent(created, a.clock.Now(), values))
		}
	}); err != nil {
		return
	}
	a.calls(a.owners[0])
	report, err := a.v.VerifyLogs(a.Context(), nil)
	if err != nil {
		a.Fatal(err)
	}
	if !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
		return f.Verdict == evidence.Altered && f.Row == "application "+app.ID.String()
	}) {
		a.Errorf("the old row is not found: %+v", report.Findings)
	}
	a.wantAlarm()
}

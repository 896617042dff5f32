//go:build !race

package tampering

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/notary"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// cannotBeFound are the changes that no verifier can find. docs/evidence.md has the
// same list, word for word.
var cannotBeFound = []string{
	"A complete older copy of the database is put back while no process runs, and there is no anchor.",
	"All tables of the evidence are emptied while no process runs, with the stored signing key, and there is no anchor.",
	"An entry is deleted, with its leaf if it has one, before a note covers it (usually within a minute), and all processes that know it die without signing.",
	"An entry of InTx is changed or deleted before it is sequenced.",
	"The type in the entry of a read is replaced by another type that the vault knows, before the entry is in a tree, if all processes that know it die or evidence begins later.",
	"The row of the vault's tree from before a suspension is put back, at the same size, and a process without the anchor that caused the suspension signs again.",
	"A row of an application, a reactor, a proxy, a session, or a tenant's name and settings is changed or put back after its entries have expired.",
	"The database shows a verification other rows than its readers, as a view can, or a change is undone before a verification reads it.",
}

// ofExpired reports whether batches of leaves differ only in the order of entries
// that have expired. Nothing reads it.
func (m *mixture) ofExpired(is, was *logRow) bool {
	if is == nil || was == nil || !slices.Equal(m.columns(is.key()), []string{"seqs"}) {
		return false
	}
	ids := slices.Collect(slices.Chunk(is.value("ids").([]byte), 16))
	now, _ := is.value("seqs").([]byte) // an attacker may write NULL
	before := was.value("seqs").([]byte)
	if len(now) > len(before) {
		return false
	}
	now = append(bytes.Clone(now), make([]byte, len(before)-len(now))...) // missing numbers are read as zeros
	for i, id := range ids {
		entry := &logRow{"vault_logs", logKeys["vault_logs"], []string{"tenant_id", "id"}, []any{is.value("tenant_id"), id}}
		if !bytes.Equal(now[8*i:8*i+8], before[8*i:8*i+8]) && m.b.rows[entry.key()] != nil {
			return false
		}
	}
	return true
}

// back reports whether the deleted tenant has its keys and its settings again.
func (m *mixture) back() bool {
	return len(m.present(in(m.gone, ofKind("tenant", "ring")))) == 2
}

// logged reports whether the log at b has a revision or the deletion of a record.
func (m *mixture) logged(r *logRow) bool {
	id, err := uuid.FromBytes(r.value("id").([]byte))
	if err != nil {
		return false
	}
	for _, e := range m.b.rows {
		if ofLog(e) && e.tenant() == r.tenant() && e.value("entity_type") == r.kind() && e.value("entity_id") == id.String() && e.value("operation") != "read" {
			return true
		}
	}
	return false
}

// matters returns a change that verification in place must find, or an empty text.
func (m *mixture) matters() string {
	for _, key := range slices.Sorted(maps.Keys(m.rows)) {
		if m.mustFind(key) {
			return key
		}
	}
	return ""
}

// mode is how a mixture is verified.
type mode struct {
	running   bool // a node that knew b goes on
	warm      bool // and has read all trees
	restarted bool // and ends, and another node starts
	calls     bool // with ordinary calls and a checkpoint in between
	uses      bool // and callers use everything that they know
}

func (mode mode) String() string {
	text := "on a new node"
	switch {
	case mode.restarted:
		text = "after a restart"
	case mode.running:
		text = "on a running node"
	}
	if mode.calls {
		text += ", after calls"
	}
	return text
}

func modeOf(n int) mode {
	return mode{running: n%3 > 0, warm: n%4 < 2, restarted: n%3 == 2, calls: n%2 == 1, uses: n%8 == 1}
}

// try verifies a mixture. It returns what is wrong, or an empty text, and whether
// the database allowed the mixture.
func (m *mixture) try(how mode) (wrong string, allowed bool) {
	m.Helper()
	m.reset()
	m.narrow = !how.calls
	for key, r := range m.rows {
		if r := cmp.Or(r, m.b.rows[key]); r.table != "vault_records" && logKeys[r.table] == nil {
			m.narrow = false
		}
	}
	var v *vault.Vault
	var err error
	if how.running {
		v = must.Get(m.start())(m)
		if how.warm {
			must.Get(v.Checkpoint(m.Context()))(m)
		}
	}
	if allowed = m.apply(); !allowed && v != nil {
		_ = v.Close()
	}
	if !allowed {
		return "", false
	}
	if v == nil {
		v, err = m.start()
	}
	for again := how.restarted; err == nil; again = false {
		if how.calls {
			m.someCalls(v)
		}
		if !again {
			break
		}
		_ = v.Close()
		v, err = m.start()
	}
	if err != nil {
		return m.judge(err.Error(), false), true
	}
	defer func() { _ = v.Close() }()
	if wrong = m.verify(v); wrong == "" && how.uses {
		wrong = m.useless(v)
	}
	return wrong, true
}

// someCalls are ordinary operations. Some may fail in a tampered database.
func (m *mixture) someCalls(v *vault.Vault) {
	for _, tenant := range append(m.living, m.young) {
		_, _ = v.Tenant(tenant).CreateToken(m.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	}
	_, _ = v.Checkpoint(m.Context())
}

// verify verifies the database in place, and the bundles of tenants.
func (m *mixture) verify(v *vault.Vault) string {
	m.Helper()
	found := inPlace(m, v)
	if wrong := cmp.Or(m.judge(found, true), m.signs(v, found)); wrong != "" {
		return wrong
	}
	for _, tenant := range m.touched() {
		is := bundle(m, v.Tenant(tenant))
		switch {
		case is == nil && len(m.rows) == 0:
			return "there is no bundle of a genuine log"
		case is == nil:
			continue
		}
		k := m.b.kept[tenant]
		if m.IntN(20) == 0 {
			since := anyOf(m.Rand, [][]byte{nil, k.vault, k.tenant, m.a.kept[tenant].vault, m.a.kept[tenant].tenant})
			m.audits = append(m.audits, audit{m.String(), k.key, is, since})
		}
		if len(m.rows) == 0 && !(offline(is, k.key, nil) && offline(is, k.key, k.vault) && offline(is, k.key, k.tenant)) {
			return "the bundle of a genuine log does not verify"
		}
		if wrong := m.lies(tenant, is); wrong != "" {
			return "a bundle verifies: " + wrong
		}
	}
	return m.others(v)
}

// signs returns what is wrong with a vault that has found a change. The vault must raise
// an alarm, and must leave the anchor alone when the vault's tree was deleted.
func (m *mixture) signs(v *vault.Vault, found string) string {
	s, err := v.EvidenceStatus()
	switch {
	case err != nil:
		return err.Error()
	case found != "" && len(s.Alarms) == 0:
		return "there is no alarm: " + found
	case len(m.present(in(uuid.UUID{}, ofTable("vault_log_trees")))) == 0 && len(m.anchor.notes) > len(m.notes):
		return "the anchor was written to: " + s.Suspended
	}
	return ""
}

// others verifies the bundle of a tenant whose sequenced entries the mixture leaves
// alone.
func (m *mixture) others(v *vault.Vault) string {
	for _, tenant := range m.living {
		if k := m.b.kept[tenant]; m.IntN(4) == 0 && !m.harmed(tenant) && !offline(bundle(m, v.Tenant(tenant)), k.key, k.vault) {
			return "a bundle without changes does not verify"
		}
	}
	return ""
}

// harmed reports whether the mixture changes what a tenant's bundle is made of. Entries
// that were in no tree are no part of it.
func (m *mixture) harmed(tenant uuid.UUID) bool {
	invented := m.invented(tenant)
	for key, r := range m.rows {
		row := cmp.Or(r, m.b.rows[key])
		of := row.tenant() == tenant || row.tenant() == uuid.UUID{}
		if of && (!slices.Contains(invented, r) || m.a.rows[key] != nil) && (ofTree(row) || ofLog(row) || ofKind("ring", "tenant", "evidence")(row) || row.table == "vault_migrations") {
			return true
		}
	}
	return false
}

// judge compares what verification in place has found with the mixture.
func (m *mixture) judge(found string, opened bool) string {
	matters := m.matters()
	switch {
	case opened && found != "" && matters != "" && !m.malformed() && m.unnamed(found) != "":
		return "verification in place does not name " + m.unnamed(found) + ": " + found
	case found == "" && matters != "":
		return "verification in place does not find it: " + matters
	case found != "" && len(m.rows) == 0:
		return fmt.Sprintf("a genuine log is not verified (opened: %t): %s", opened, found)
	default:
		return ""
	}
}

// malformed reports whether a row has a value of another type or length, so that it
// cannot be read.
func (m *mixture) malformed() bool {
	for key, r := range m.rows {
		if was := m.b.rows[key]; r != nil && was != nil {
			for i := range r.values {
				old, _ := was.values[i].([]byte)
				if now, ok := r.values[i].([]byte); ok && len(now) != len(old) || r.values[i] == nil && was.values[i] != nil || fmt.Sprintf("%T", r.values[i]) != fmt.Sprintf("%T", was.values[i]) {
					return true
				}
			}
		}
	}
	return false
}

// unnamed returns an entry or a record that a finding must name and does not, or an empty
// text. If more than that is wrong, findings may be about the rest.
func (m *mixture) unnamed(found string) (name string) {
	for _, key := range slices.Sorted(maps.Keys(m.rows)) {
		r := cmp.Or(m.rows[key], m.b.rows[key])
		is := r.entry().String()
		if ofKind("application", "reactor", "proxy")(r) {
			id, _ := uuid.FromBytes(r.value("id").([]byte))
			is = r.kind() + " " + id.String()
		} else if !ofLog(r) {
			return ""
		}
		if len(m.rows) > 3 {
			return ""
		}
		if m.mustFind(key) && is != uuid.Nil.String() && !strings.Contains(found, is) {
			name = is
		}
	}
	return name
}

// mix tries mixtures of a seed, from the first up to, but not including, the last.
// It reports the first of each kind that is wrong, and counts the others.
func (w *world) mix(seed uint64, first, last int) {
	w.Helper()
	began, tried, wrong := time.Now(), 0, map[string]int{}
	for n := first; n < last && w.Context().Err() == nil; n++ {
		number := n
		if n%50 == 0 {
			number = 0 // b itself, now and then
		}
		m, how := newMixture(w, seed, number), modeOf(n)
		text, allowed := m.try(how)
		if allowed {
			tried++
		}
		if text == "" {
			continue
		}
		name := strings.Join(m.tricks, " and ")
		if wrong[name]++; wrong[name] == 1 {
			w.Errorf("VAULT_MIXTURE=%d:%d, %s: %s\n%s", seed, n, how, text, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		w.Logf("%4d wrong: %s", wrong[name], name)
	}
	wantAgreement(w, w.audits)
	w.audits = nil
	w.Logf("seed %d: %d mixtures, %.0f per second", seed, tried, float64(tried)/time.Since(began).Seconds())
}

// TestMixtures verifies databases that an attacker has put together. The variable
// VAULT_MIXTURE sets another seed, or repeats the one mixture that a failure names.
func TestMixtures(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		seed, first, last := uint64(1), 0, 1000
		if w.pg {
			last = 250
		}
		if text := os.Getenv("VAULT_MIXTURE"); text != "" {
			text, number, one := strings.Cut(text, ":")
			seed = must.Get(strconv.ParseUint(text, 10, 64))(w)
			if one {
				first = must.Get(strconv.Atoi(number))(w)
				last = first + 1
			}
		}
		w.mix(seed, first, last)
	})
}

// Without an anchor, nothing tells a complete older copy from the newest.
func TestOlderCopyWithoutAnchor(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		m := newMixture(w, 0, 0)
		m.older(everyRow)
		m.reset()
		if !m.apply() {
			w.Fatal("the copy cannot be put back")
		}
		w.anchors = nil
		v := must.Get(w.start())(w)
		defer v.Close()
		must.Same(w, "a change that is said not to be found is found", "", inPlace(w, v))
	})
}

// Until a note covers an entry, nothing tells its deletion from a log that never had it.
func TestDeletionBeforeANote(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.mustVerify()
		o := a.owners[0]
		before := a.rows("vault_log_trees", "WHERE tenant_id = ?", binary(o.TenantID()))
		create(a, o.Client, aText("lost"))
		keeper := core.CallerOf(o.Client).Vault.Ledger.(*notary.Keeper)
		eventually(a, "the entry is in the tree", func() bool {
			must.Do(a, keeper.SequenceDirty(a.Context()))
			return len(a.rows("vault_log_trees", "WHERE tenant_id = ? AND size > ?", binary(o.TenantID()), before[0].value("size"))) > 0
		})
		a.replace(a.rows("vault_log_trees", "WHERE tenant_id = ?", binary(o.TenantID())), before)
		a.change(o, "DELETE FROM vault_log_leaves WHERE first >= ? AND tenant_id = ?", before[0].value("size"))
		a.change(o, "DELETE FROM vault_logs WHERE entity_id = 'lost' AND tenant_id = ?")
		other := must.Get(vault.Open(context.WithoutCancel(a.Context()), a.open(), a.key, &vault.Config{
			Now: a.clock.Now, SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1},
		}))(a)
		defer other.Close()
		must.Same(a, "a change that is said not to be found is found", "", inPlace(a, other))
	})
}

func TestWhatCannotBeFoundIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "evidence.md")))(t)
	_, section, _ := bytes.Cut(text, []byte("\n## What remains possible\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	for _, sentence := range cannotBeFound {
		if !bytes.Contains(section, []byte(sentence)) {
			t.Errorf("docs/evidence.md does not say: %s", sentence)
		}
	}
}

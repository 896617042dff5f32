//go:build !race

package tampering

import (
	"bytes"
	"cmp"
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
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// cannotBeFound are the changes that no verifier can find. docs/evidence.md has the
// same list, word for word.
var cannotBeFound = []string{
	"A complete older copy of the database is put back while no process runs, and there is no anchor.",
	"All tables of the evidence are emptied while no process runs, with the stored signing key, and there is no anchor.",
	"An entry is deleted within its first second, and the process dies before it reads the entry.",
	"An entry of InTx is changed or deleted before it is sequenced.",
	"The row of the vault's tree from before a suspension is put back, at the same size, and a process without the anchor that caused the suspension signs again.",
	notNumbered,
	noEntry,
}

// The changes of cannotBeFound that a mixture can have.
const (
	notNumbered = "An older row of a tenant's name and settings is put back."
	noEntry     = "A row of an application, a reactor or a proxy is changed or put back after its entries have expired."
)

// Changes that need not be found, because they have no effect.
const (
	unopened   = "A row that no key opens, or that no query reads, has no effect."
	unused     = "A column that is computed from others is not evidence."
	putBack    = "An expired entry, or its leaf, that is put back as it was is genuine."
	tombstones = "A tombstone deletes nothing of a tenant that has its keys."
	powerless  = "Rows of a deleted tenant have no effect without its key ring and its settings."
)

// exempt returns the reason why a change need not be found, or an empty text.
func (m *mixture) exempt(key string) string {
	is, was, before := m.rows[key], m.b.rows[key], m.a.rows[key]
	row := cmp.Or(is, was)
	tenant, genuine := row.tenant(), is != nil && before != nil && is.equal(before)
	alive, own := slices.Contains(append(m.living, m.young), tenant), tenant == uuid.UUID{}
	switch {
	case tenant == m.gone && !m.back():
		return powerless
	case tenant == m.gone:
		return ""
	case row.table == "vault_records":
		return m.exemptRecord(is, was, genuine)
	case row.table == "vault_log_leaves" && m.ofExpired(is, was):
		return unused
	case row.table == "vault_log_nodes" && !slices.Contains([]any{int64(8), int64(16), int64(24)}, row.value("level")),
		ofTable("vault_log_events", "vault_log_checkpoints")(row) && !own,
		ofTable("vault_log_leaves", "vault_logs")(row) && !alive, !own && !alive:
		return unopened
	case was == nil && genuine && (row.table == "vault_log_leaves" || ofLog(row) && evidence.Millis(row.entry()) < m.cutoff):
		return putBack
	default:
		return ""
	}
}

// ofExpired reports whether batches of leaves differ only in the order of entries
// that have expired. Nothing reads it.
func (m *mixture) ofExpired(is, was *logRow) bool {
	if is == nil || was == nil || !slices.Equal(m.columns(is.key()), []string{"seqs"}) {
		return false
	}
	ids := slices.Collect(slices.Chunk(is.value("ids").([]byte), 16))
	now, before := is.value("seqs").([]byte), was.value("seqs").([]byte)
	if len(now) != 8*len(ids) {
		return false
	}
	for i, id := range ids {
		entry := &logRow{"vault_logs", []string{"tenant_id", "id"}, []any{is.value("tenant_id"), id}}
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

// exemptRecord is exempt for a record.
func (m *mixture) exemptRecord(is, was *logRow, genuine bool) string {
	row := cmp.Or(is, was)
	bound := []string{"body", "name", "key_hash", "alt_hash", "expires_at", "created_at"}
	switch kind := row.kind(); {
	case kind == "tombstone":
		return tombstones
	case kind == "tenant" && genuine:
		return notNumbered
	case kind == "tenant" || kind == "ring" || kind == "evidence":
		if was == nil {
			return unopened
		}
		bound = bound[:1]
	case !m.numbered(row):
		return noEntry
	}
	if is != nil && was != nil && !slices.ContainsFunc(m.columns(row.key()), func(name string) bool { return slices.Contains(bound, name) }) {
		return unused
	}
	return ""
}

// numbered reports whether the log at b has a revision or the deletion of a record.
func (m *mixture) numbered(r *logRow) bool {
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
		if m.exempt(key) == "" {
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
	return mode{running: n%3 > 0, warm: n%4 < 2, restarted: n%3 == 2, calls: n%2 == 1}
}

// try verifies a mixture. It returns what is wrong, or an empty text, and whether
// the database allowed the mixture.
func (m *mixture) try(how mode) (wrong string, allowed bool) {
	m.Helper()
	m.reset()
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
	return m.verify(v), true
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
// that were in no tree, and rows of applications, reactors and proxies, are no part of
// it.
func (m *mixture) harmed(tenant uuid.UUID) bool {
	invented := m.invented(tenant)
	for key, r := range m.rows {
		row := cmp.Or(r, m.b.rows[key])
		of := row.tenant() == tenant || row.tenant() == uuid.UUID{}
		if of && (!slices.Contains(invented, r) || m.a.rows[key] != nil) && !ofKind("application", "reactor", "proxy")(row) {
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
		if m.exempt(key) == "" && !strings.Contains(found, is) {
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
		seed, first, last := uint64(1), 0, 2000
		if w.pg {
			last = 300
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

// otherTables says for each table that evidence does not cover what an attacker can
// reach with older, altered or invented rows of it.
var otherTables = map[string]string{
	"vault_tokens":         "A token can be an older one or missing; an altered one does not open.",
	"vault_token_hashes":   "A search can miss a token; it returns none that does not match.",
	"vault_container_sets": "A list or a search can miss tokens.",
	"vault_token_counts":   "Totals of lists can be wrong.",
	"vault_log_counts":     "Totals of lists of the log can be wrong.",
	"vault_log_marks":      "Totals of lists of the log can be wrong.",
	"vault_lookups":        "A key can stop working; it gets no rights of another.",
	"vault_claims":         "An idempotency key can be forgotten, so that a request is performed again.",
	"vault_jobs":           "A job can be lost or run again; an altered one does not open.",
	"vault_migrations":     "The vault can refuse to start.",
	"vault_records":        "Sessions and cursors can be older ones or missing; an altered one does not open.",
}

// Every table is covered, or someone has thought about what a change of it does.
func TestEveryTableIsCoveredOrDescribed(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		query := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'vault_%'`
		if a.pg {
			query = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name LIKE 'vault_%'`
		}
		rows := must.Get(a.db.QueryContext(a.Context(), query))(a)
		defer rows.Close()
		var missing []string
		for rows.Next() {
			var name string
			must.Do(a, rows.Scan(&name))
			if logKeys[name] == nil && otherTables[name] == "" {
				missing = append(missing, name)
			}
		}
		if err := rows.Err(); err != nil || len(missing) > 0 {
			a.Errorf("tables without a sentence: %q (%v)", missing, err)
		}
	})
}

//go:build !race

package tampering

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
)

// tricks are what an attacker would try. Each is a way to hide something.
var tricks = map[string]func(*mixture){
	"a tenant's trees from a":      func(m *mixture) { m.older(in(m.someTenant(), ofTree)) },
	"a tenant's log from a":        func(m *mixture) { m.older(in(m.someTenant(), ofLog)) },
	"a tenant from a":              func(m *mixture) { m.older(in(m.someTenant(), everyRow)) },
	"a tenant's log and trees":     (*mixture).olderLog,
	"all trees from a":             func(m *mixture) { m.older(ofTree) },
	"all trees but the vault's":    func(m *mixture) { m.older(func(r *logRow) bool { return ofTree(r) && !ofVault(r) }) },
	"all logs from a":              func(m *mixture) { m.older(ofLog) },
	"the vault's tree from a":      func(m *mixture) { m.older(ofVault) },
	"everything from a":            func(m *mixture) { m.older(everyRow) },
	"everything but one tenant":    (*mixture).olderOthers,
	"a table from a":               func(m *mixture) { m.older(ofTable(anyOf(m.Rand, m.all))) },
	"a table is emptied":           func(m *mixture) { m.without(ofTable(anyOf(m.Rand, slices.Sorted(maps.Keys(logKeys))))) },
	"records of a kind from a":     func(m *mixture) { m.older(ofKind(anyOf(m.Rand, seal.RecordKinds()))) },
	"a tree begins again":          (*mixture).beginAgain,
	"the newest entries":           (*mixture).newestEntries,
	"the evidence record":          (*mixture).evidenceRecord,
	"no evidence at all":           (*mixture).noEvidence,
	"a deleted tenant is back":     (*mixture).tenantBack,
	"a rollback with an entry":     (*mixture).hiddenRollback,
	"invented entries":             (*mixture).inventions,
	"newest notes":                 (*mixture).newestNotes,
	"newest events":                (*mixture).newestEvents,
	"a name":                       (*mixture).otherName,
	"a time":                       (*mixture).otherTime,
	"a tenant's rows move":         (*mixture).moveTenant,
	"an expired entry is altered":  (*mixture).expiredAltered,
	"leaves without their entries": (*mixture).leavesAndEntries,
	"leaves twice":                 (*mixture).leavesTwice,
	"an older row":                 (*mixture).olderRow,
	"a row of any table":           func(m *mixture) { m.alterSome(ofTable(anyOf(m.Rand, m.all))) },
	"a record of any kind":         func(m *mixture) { m.alterSome(ofKind(anyOf(m.Rand, seal.RecordKinds()))) },
}

// alterSome alters, moves, copies or removes a selected row.
func (m *mixture) alterSome(selected func(*logRow) bool) {
	if r := anyOf(m.Rand, m.present(selected)); r != nil {
		m.alter(r)
	}
}

// olderLog takes a tenant's log, its trees, or both from a, with or without what
// the vault's tree says about them.
func (m *mixture) olderLog() {
	tenant := m.someTenant()
	m.older(in(tenant, func(r *logRow) bool { return ofTree(r) || ofLog(r) }))
	if m.IntN(2) == 0 {
		m.older(ofVault)
	}
}

// olderOthers takes everything from a except the rows of one tenant.
func (m *mixture) olderOthers() {
	tenant := anyOf(m.Rand, append(m.living, m.young, uuid.UUID{}))
	m.older(func(r *logRow) bool { return r.tenant() != tenant })
}

// beginAgain removes a tenant's trees after a change of its log.
func (m *mixture) beginAgain() {
	tenant := m.someTenant()
	if rows := m.present(in(tenant, ofLog)); m.IntN(4) > 0 {
		m.alter(anyOf(m.Rand, rows))
	}
	tables := []string{"vault_log_trees", "vault_log_leaves", "vault_log_nodes"}
	if m.IntN(3) == 0 {
		tables = tables[:1+m.IntN(2)]
	}
	m.without(in(tenant, ofTable(tables...)))
}

// newestEntries removes the newest entries of a tenant and everything about them.
func (m *mixture) newestEntries() {
	tenant := m.someTenant()
	rows := m.present(in(tenant, ofLog))
	slices.SortFunc(rows, func(a, b *logRow) int { return strings.Compare(a.entry().String(), b.entry().String()) })
	for range min(len(rows), 1+m.IntN(10)) {
		m.drop(rows[len(rows)-1])
		rows = rows[:len(rows)-1]
	}
	switch m.IntN(3) {
	case 0:
		m.older(in(tenant, ofTree))
	case 1: // only the last leaves
		leaves := m.present(in(tenant, ofTable("vault_log_leaves")))
		for _, r := range leaves[len(leaves)-min(len(leaves), 1+m.IntN(3)):] {
			m.drop(r)
		}
		m.older(in(tenant, ofTable("vault_log_trees")))
	}
}

// evidenceRecord removes or changes the record with the signing keys.
func (m *mixture) evidenceRecord() {
	if m.IntN(2) == 0 {
		m.older(ofKind("evidence"))
		return
	}
	m.without(ofKind("evidence"))
}

// noEvidence removes all trees, and more.
func (m *mixture) noEvidence() {
	m.without(ofTree)
	if m.IntN(4) > 0 {
		m.without(ofKind("evidence"))
	}
	if m.IntN(4) == 0 {
		m.without(in(uuid.UUID{}, ofKind("ring")))
	}
	if rows := m.present(ofLog); m.IntN(2) == 0 {
		m.drop(anyOf(m.Rand, rows))
	}
}

// tenantBack brings back a deleted tenant.
func (m *mixture) tenantBack() {
	m.older(in(m.gone, func(r *logRow) bool {
		return r.kind() == "tenant" || r.kind() == "ring" || m.IntN(3) > 0
	}))
	if m.IntN(2) == 0 {
		m.without(ofKind("tombstone"))
	}
	if m.IntN(4) == 0 {
		m.older(ofTable("vault_log_events", "vault_log_checkpoints"))
	}
}

// hiddenRollback brings an older record back, with an entry that explains it.
func (m *mixture) hiddenRollback() {
	tenant := anyOf(m.Rand, m.living)
	var changed []*logRow
	for _, key := range m.keys(in(tenant, ofKind("application", "reactor", "proxy", "ring"))) {
		if a, b := m.a.rows[key], m.b.rows[key]; a != nil && (b == nil || !b.equal(a)) {
			changed = append(changed, a)
		}
	}
	row := anyOf(m.Rand, changed)
	m.put(row)
	entries := m.present(in(tenant, ofLog))
	id, _ := uuid.FromBytes(row.value("id").([]byte))
	kind, operation := row.kind(), anyOf(m.Rand, []string{"create", "update"})
	if kind == "ring" {
		kind = "tenant"
	}
	message := strings.ToUpper(kind[:1]) + kind[1:] + " " + operation + "d (revision " + anyOf(m.Rand, []string{"0", "1", "2", "99"}) + ")"
	m.invention(anyOf(m.Rand, entries), idAt(m.clock.Now().Add(time.Second)), map[string]any{
		"entity_type": kind, "entity_id": id.String(), "operation": operation, "message": message, "created_at": m.clock.Now().UnixMicro(),
	})
}

// inventions adds entries of any time.
func (m *mixture) inventions() {
	for range 1 + m.IntN(3) {
		m.invention(anyOf(m.Rand, m.present(in(m.someTenant(), ofLog))), m.someID(), nil)
	}
}

// newestNotes removes the newest notes, all notes, or one.
func (m *mixture) newestNotes() {
	rows := m.present(ofTable("vault_log_checkpoints"))
	slices.SortFunc(rows, func(a, b *logRow) int { return int(a.value("size").(int64) - b.value("size").(int64)) })
	switch n := 1 + m.IntN(len(rows)); m.IntN(3) {
	case 0:
		for _, r := range rows[len(rows)-n:] {
			m.drop(r)
		}
	case 1:
		for _, r := range rows[:n] {
			m.drop(r)
		}
	default:
		m.drop(anyOf(m.Rand, rows))
	}
	if m.IntN(3) == 0 {
		m.older(in(uuid.UUID{}, ofTable("vault_log_trees")))
	}
}

// newestEvents cuts the vault's tree off, with or without its notes.
func (m *mixture) newestEvents() {
	m.older(ofTable("vault_log_events"))
	if m.IntN(2) == 0 {
		m.older(in(uuid.UUID{}, ofTable("vault_log_trees", "vault_log_nodes")))
	}
	if m.IntN(2) == 0 {
		m.older(ofTable("vault_log_checkpoints"))
	}
}

// otherName replaces who acted, or what happened.
func (m *mixture) otherName() {
	r := anyOf(m.Rand, m.present(in(m.someTenant(), ofLog)))
	column := anyOf(m.Rand, []string{"actor_name", "entity_id", "message", "operation", "origin"})
	m.put(r.set(map[string]any{column: anyOf(m.Rand, []string{"john", "x", "read"})}))
}

// otherTime moves an entry in time.
func (m *mixture) otherTime() {
	r := anyOf(m.Rand, m.present(in(m.someTenant(), ofLog)))
	by := anyOf(m.Rand, []time.Duration{time.Microsecond, -time.Hour, time.Hour, -40 * time.Hour})
	values := map[string]any{"created_at": r.value("created_at").(int64) + by.Microseconds()}
	if m.IntN(2) == 0 {
		m.drop(r)
		values["id"] = binary(m.someID())
	}
	m.add(r.set(values))
}

// moveTenant gives rows of one tenant to another.
func (m *mixture) moveTenant() {
	from, to := m.someTenant(), anyOf(m.Rand, append(m.living, m.young, m.gone))
	if from == to {
		to = m.gone
	}
	selected := anyOf(m.Rand, []func(*logRow) bool{ofTree, ofLog, ofKind("ring"), ofTable("vault_log_trees"), ofTable("vault_log_leaves")})
	if m.IntN(2) == 0 {
		m.without(in(to, selected))
	}
	for _, r := range m.present(in(from, selected)) {
		if m.IntN(2) == 0 {
			m.drop(r)
		}
		m.add(r.set(map[string]any{"tenant_id": binary(to)}))
	}
}

// expiredAltered brings an expired entry back with another content.
func (m *mixture) expiredAltered() {
	expired := m.keys(func(r *logRow) bool {
		return ofLog(r) && m.b.rows[r.key()] == nil && slices.Contains(m.living, r.tenant())
	})
	r := m.a.rows[anyOf(m.Rand, expired)]
	values := map[string]any{anyOf(m.Rand, []string{"actor_name", "message"}): "x"}
	if m.IntN(2) == 0 {
		values["mac"] = nil
	}
	m.put(r.set(values))
}

// leavesAndEntries removes the entries of a batch of leaves together with it.
func (m *mixture) leavesAndEntries() {
	tenant := m.someTenant()
	leaves := anyOf(m.Rand, m.present(in(tenant, ofTable("vault_log_leaves"))))
	if leaves == nil {
		return
	}
	ids := leaves.value("ids").([]byte)
	for _, r := range m.present(in(tenant, ofLog)) {
		for id := range slices.Chunk(ids, 16) {
			if string(id) == string(binary(r.entry())) {
				m.drop(r)
			}
		}
	}
	m.drop(leaves)
}

// leavesTwice adds a batch with the last leaf of another batch.
func (m *mixture) leavesTwice() {
	r := anyOf(m.Rand, m.present(in(m.someTenant(), ofTable("vault_log_leaves"))))
	if r == nil {
		return
	}
	values, n := map[string]any{}, len(r.value("ids").([]byte))/16
	for _, name := range []string{"ids", "seqs", "hashes"} {
		all := r.value(name).([]byte)
		values[name] = all[len(all)/n*(n-1):]
	}
	values["first"] = r.value("first").(int64) + int64(n) - 1
	m.add(r.set(values))
}

// olderRow takes one row that has changed from a.
func (m *mixture) olderRow() {
	var changed []string
	for _, key := range m.keys(everyRow) {
		if a, b := m.a.rows[key], m.b.rows[key]; a == nil || b == nil || !a.equal(b) {
			changed = append(changed, key)
		}
	}
	key := anyOf(m.Rand, changed)
	m.rows[key] = m.a.rows[key]
}

//go:build !race

package tampering

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// mixture is a database made of rows of two moments, and of rows that an attacker
// makes from them.
type mixture struct {
	*world
	*rand.Rand
	tricks []string
	rows   map[string]*logRow // in the place of the rows of b; nil for none
}

// put puts a row into the mixture.
func (m *mixture) put(r *logRow) { m.rows[r.key()] = r }

// drop removes a row.
func (m *mixture) drop(r *logRow) { m.rows[r.key()] = nil }

// now returns a row of the mixture, or nil.
func (m *mixture) now(key string) *logRow {
	if r, ok := m.rows[key]; ok {
		return r
	}
	return m.b.rows[key]
}

// keys returns the keys of rows of both moments that are selected, in order.
func (m *mixture) keys(selected func(*logRow) bool) []string {
	all := map[string]bool{}
	for _, rows := range []map[string]*logRow{m.a.rows, m.b.rows} {
		for key, r := range rows {
			if selected(r) {
				all[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// older takes the selected rows from a, also if a does not have them.
func (m *mixture) older(selected func(*logRow) bool) {
	for _, key := range m.keys(selected) {
		m.rows[key] = m.a.rows[key]
	}
}

// without drops the selected rows.
func (m *mixture) without(selected func(*logRow) bool) {
	for _, key := range m.keys(selected) {
		m.rows[key] = nil
	}
}

// present returns the selected rows that the mixture has, in the order of their
// keys.
func (m *mixture) present(selected func(*logRow) bool) (all []*logRow) {
	for _, key := range m.keys(selected) {
		if r := m.now(key); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// anyOf returns a random element.
func anyOf[T any](r *rand.Rand, all []T) (one T) {
	if len(all) > 0 {
		one = all[r.IntN(len(all))]
	}
	return one
}

// Conditions that select rows.
func ofTree(r *logRow) bool  { return strings.HasPrefix(r.table, "vault_log_") }
func ofLog(r *logRow) bool   { return r.table == "vault_logs" }
func ofVault(r *logRow) bool { return ofTree(r) && r.tenant() == uuid.UUID{} }

func in(tenant uuid.UUID, selected func(*logRow) bool) func(*logRow) bool {
	return func(r *logRow) bool { return r.tenant() == tenant && selected(r) }
}

func ofKind(kinds ...string) func(*logRow) bool {
	return func(r *logRow) bool { return slices.Contains(kinds, r.kind()) }
}

func ofTable(tables ...string) func(*logRow) bool {
	return func(r *logRow) bool { return slices.Contains(tables, r.table) }
}

func everyRow(*logRow) bool { return true }

// someTenant returns a tenant at b.
func (m *mixture) someTenant() uuid.UUID { return anyOf(m.Rand, append(m.living, m.young)) }

// invention puts an entry into a tenant's log that the vault did not write.
func (m *mixture) invention(r *logRow, id uuid.UUID, values map[string]any) {
	all := map[string]any{"id": binary(id), "mac": nil}
	if m.IntN(2) == 0 {
		all["mac"] = anyOf(m.Rand, m.present(ofLog)).value("mac")
	}
	if m.IntN(2) == 0 {
		last := int64(0)
		for _, other := range m.present(ofLog) {
			n, _ := other.value(m.order()).(int64)
			last = max(last, n)
		}
		all[m.order()] = last + m.Int64N(2)
	}
	if m.IntN(4) == 0 { // at one end of all entries
		column := anyOf(m.Rand, []string{m.order(), "created_at"})
		all[column] = anyOf(m.Rand, []int64{0, -1, math.MinInt64, math.MaxInt64})
	}
	if m.IntN(8) == 0 {
		all["id"] = binary(anyOf(m.Rand, []uuid.UUID{uuid.Nil, uuid.Max}))
	}
	maps.Copy(all, values)
	m.put(r.set(all))
}

// order returns the column that orders entries.
func (m *mixture) order() string {
	if m.pg {
		return "xid"
	}
	return "seq"
}

// someID returns an id of the past or of the present.
func (m *mixture) someID() uuid.UUID {
	ago := anyOf(m.Rand, []time.Duration{0, time.Second, time.Minute, time.Hour, 12 * time.Hour, 29 * time.Hour, 1000 * time.Hour})
	return idAt(m.clock.Now().Add(-ago))
}

// alter changes, moves, copies or removes a row.
func (m *mixture) alter(r *logRow) {
	i := m.IntN(len(r.names))
	switch m.IntN(6) {
	case 0:
		m.drop(r)
	case 1: // another value
		if r.isKey(i) {
			m.drop(r)
		}
		m.add(r.with(i, anyOf(m.Rand, otherValues(r.values[i]))))
	case 2: // the value of another row
		if other := anyOf(m.Rand, m.present(ofTable(r.table))); other != nil && !r.isKey(i) {
			m.put(r.with(i, other.values[i]))
		}
	case 3: // another tenant
		other := anyOf(m.Rand, []uuid.UUID{m.living[0], m.living[1], m.young, m.gone, {}, uuid.New()})
		if m.drop(r); m.IntN(3) == 0 {
			m.put(r) // and in its place too
		}
		if !slices.Contains(r.names, "tenant_id") {
			return
		}
		m.add(r.set(map[string]any{"tenant_id": binary(other)}))
	case 4: // a copy
		m.add(r.double())
	default: // without what makes an entry genuine
		if r.table == "vault_logs" {
			m.put(r.set(map[string]any{"mac": nil}))
			return
		}
		m.drop(r)
	}
}

// add puts a row that neither moment has into the mixture.
func (m *mixture) add(r *logRow) {
	for i := range r.names {
		if r.isKey(i) && r.values[i] == nil {
			return
		}
		if b, ok := r.values[i].([]byte); r.isKey(i) && strings.HasSuffix(r.names[i], "id") && (!ok || len(b) != 16) {
			return // no id
		}
	}
	m.put(r)
}

// invented returns the entries of a tenant that the vault did not write.
func (m *mixture) invented(tenant uuid.UUID) (all []*logRow) {
	for key, r := range m.rows {
		if r != nil && ofLog(r) && r.tenant() == tenant && m.b.rows[key] == nil && !(m.a.rows[key] != nil && m.a.rows[key].equal(r)) {
			all = append(all, r)
		}
	}
	return all
}

// random changes a few rows.
func (m *mixture) random() {
	selected := anyOf(m.Rand, []func(*logRow) bool{
		everyRow, ofLog, ofTree, ofVault, ofKind("application", "reactor", "proxy"), ofKind("ring", "tenant", "evidence", "tombstone"),
		in(m.someTenant(), everyRow), in(m.someTenant(), ofTree), in(m.gone, everyRow),
	})
	keys := m.keys(selected)
	if len(keys) == 0 {
		return
	}
	share := anyOf(m.Rand, []float64{0, 0, 0, 0.05, 0.5, 0.95})
	for _, key := range keys {
		if m.Float64() < share {
			m.rows[key] = m.a.rows[key]
		}
	}
	for range 1 + m.IntN(3) {
		key := anyOf(m.Rand, keys)
		switch r := m.now(key); {
		case r == nil || m.IntN(3) == 0:
			m.rows[key] = m.a.rows[key]
		default:
			m.alter(r)
		}
	}
}

// newMixture returns the n-th mixture of a seed. Mixture 0 is b itself.
func newMixture(w *world, seed uint64, n int) *mixture {
	m := &mixture{world: w, Rand: rand.New(rand.NewPCG(seed, uint64(n))), rows: map[string]*logRow{}}
	if n == 0 {
		return m
	}
	if names := slices.Sorted(maps.Keys(tricks)); m.IntN(3) > 0 {
		name := anyOf(m.Rand, names)
		m.tricks = append(m.tricks, name)
		tricks[name](m)
	}
	if len(m.tricks) == 0 || m.IntN(4) == 0 {
		m.tricks = append(m.tricks, "random")
		m.random()
	}
	m.tidy()
	return m
}

// tidy removes rows that are as they were.
func (m *mixture) tidy() {
	maps.DeleteFunc(m.rows, func(key string, r *logRow) bool {
		was := m.b.rows[key]
		return r == was || r != nil && was != nil && r.equal(was)
	})
}

// apply brings the mixture into the database. It reports whether the database
// allowed it.
func (m *mixture) apply() bool {
	var old, now []*logRow
	for _, key := range slices.Sorted(maps.Keys(m.rows)) {
		if was := m.b.rows[key]; was != nil {
			old = append(old, was)
		}
		if r := m.rows[key]; r != nil {
			now = append(now, r)
		}
	}
	return m.replace(old, now)
}

// String describes the mixture.
func (m *mixture) String() string {
	text := strings.Join(m.tricks, " and ")
	for i, key := range slices.Sorted(maps.Keys(m.rows)) {
		if i == 6 {
			return text + fmt.Sprintf("\n\tand %d more", len(m.rows)-i)
		}
		how := "altered"
		switch r, a := m.rows[key], m.a.rows[key]; {
		case r == nil:
			how = "absent"
		case a != nil && a.equal(r):
			how = "of a"
		case m.b.rows[key] == nil:
			how = "invented"
		default:
			how += " in " + strings.Join(m.columns(key), ", ")
		}
		text += "\n\t" + key + " is " + how
	}
	return text
}

// columns returns the columns in which a row differs from b.
func (m *mixture) columns(key string) (names []string) {
	was, is := m.b.rows[key], m.rows[key]
	for i, name := range was.names {
		if !sameValue(was.values[i], is.values[i]) {
			names = append(names, name)
		}
	}
	return names
}

// lies returns the reason why a bundle is wrong although it verifies, or an empty
// text.
func (m *mixture) lies(tenant uuid.UUID, bundle []byte) string {
	now, k, before := leavesOf(bundle), m.b.kept[tenant], m.a.kept[tenant]
	for _, r := range m.invented(tenant) {
		line, ok := now[r.entry()]
		if ok && offline(bundle, k.key, nil) {
			return "it has an invented entry: " + line
		}
		if ok && r.value("mac") == nil && !strings.Contains(line, " <no mac> ") {
			return "it has the mac of an invented entry: " + line
		}
	}
	var late, early string // entries that are not as they were at b, and at a
	for id, line := range m.b.leaves[tenant] {
		if now[id] == line {
			continue
		}
		late = line
		if _, ok := m.a.leaves[tenant][id]; ok {
			early = line
		}
	}
	alone := late // what the vault's tree says about the tenant, without a note
	for key, r := range m.rows {
		if cmp.Or(r, m.b.rows[key]).tenant() == (uuid.UUID{}) {
			alone = ""
		}
	}
	for _, since := range []struct {
		name, lacks string
		note        []byte
	}{{"b", late, k.vault}, {"the tenant at b", late, k.tenant}, {"a", early, before.vault}, {"the tenant at a", early, before.tenant}, {"nobody", alone, nil}} {
		if since.lacks != "" && (since.note != nil || since.name == "nobody") && offline(bundle, k.key, since.note) {
			return "since the note of " + since.name + " it lacks the entry " + since.lacks
		}
	}
	return ""
}

// touched returns the living tenants of which the mixture has other rows, or all if
// it has other rows of the vault itself.
func (m *mixture) touched() []uuid.UUID {
	all := append(slices.Clone(m.living), m.young)
	return slices.DeleteFunc(all, func(tenant uuid.UUID) bool {
		for key, r := range m.rows {
			if r == nil {
				r = m.b.rows[key]
			}
			if r.tenant() == tenant || r.tenant() == (uuid.UUID{}) {
				return false
			}
		}
		return len(m.rows) > 0
	})
}

package storagetest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// generator makes changes and queries from a seed. Values come from small sets,
// so that queries have results and changes have conflicts.
type generator struct {
	*rand.Rand
	*source
	actors  []storage.ID
	tokens  map[storage.ID]map[storage.ID]storage.Token // by tenant and Ord
	records map[storage.ID]map[storage.ID]storage.Record
}

func newGenerator(seed uint64) *generator {
	g := &generator{
		Rand:    rand.New(rand.NewPCG(seed, 0x5eed)),
		source:  newSource(),
		tokens:  map[storage.ID]map[storage.ID]storage.Token{},
		records: map[storage.ID]map[storage.ID]storage.Record{},
	}
	for range 4 {
		id := g.id()
		g.actors = append(g.actors, id)
		g.tokens[id], g.records[id] = map[storage.ID]storage.Token{}, map[storage.ID]storage.Record{}
	}
	return g
}

func pick[T any](g *generator, of []T) T { return of[g.IntN(len(of))] }

// some returns up to n values, possibly none.
func some[T any](g *generator, n int, make func() T) []T {
	values := []T{}
	for range g.IntN(n + 1) {
		values = append(values, make())
	}
	return values
}

func (g *generator) text() string {
	return strings.Join(some(g, 3, func() string {
		return pick(g, []string{"a", "A", "b", "%", "_", "é", "日", "'", `\`, " "})
	}), "")
}

func (g *generator) tokenID() string { return "i" + g.text() }

// moment returns a time close to now, or the zero time.
func (g *generator) moment() time.Time {
	if g.IntN(4) == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(g.IntN(9)-4) * time.Millisecond)
}

func (g *generator) searchHash() storage.Hash { return hashOf(uint64(g.IntN(7))) }

func (g *generator) fill(t *storage.Token) {
	set := pick(g, sets)
	t.Set, t.Containers = set.Set, set.Containers
	t.Fingerprint, t.Expression = keyOf(uint64(g.IntN(4))), hashOf(uint64(g.IntN(2)))
	t.Dedup = storage.Hash{}
	if g.IntN(3) == 0 {
		t.Dedup = hashOf(uint64(100 + g.IntN(20)))
	}
	t.Hashes = some(g, 4, g.searchHash)
	t.KeyVersion, t.Body = g.IntN(4), []byte(g.text()+"sealed")
	t.ExpiresAt, t.CVCExpiresAt, t.CVC = g.moment(), g.moment(), nil
	if !t.CVCExpiresAt.IsZero() {
		t.CVC = []byte("sealed cvc")
	}
}

func (g *generator) newToken() storage.Token {
	at := now.Add(time.Duration(g.IntN(9)-4) * time.Millisecond)
	t := storage.Token{
		Ord: idAt(at, g.last.Add(1)), ID: g.tokenID(), Type: pick(g, types),
		CreatedBy: pick(g, g.actors), CreatedAt: at, Rev: 1,
	}
	g.fill(&t)
	return t
}

func (g *generator) newRecord() storage.Record {
	r := g.record(pick(g, []string{"proxy", "reactor"}), g.text())
	r.KeyVersion, r.ExpiresAt = g.IntN(4), g.moment()
	r.Key, r.AltKey = storage.Key{}, storage.Key{}
	if g.IntN(2) == 0 {
		r.Key = keyOf(uint64(200 + g.IntN(30)))
	}
	return r
}

func (g *generator) newLog() storage.Log {
	at := now.Add(time.Duration(g.IntN(9)-4) * time.Millisecond)
	entry := g.log(pick(g, types), g.tokenID())
	entry.ID, entry.CreatedAt = idAt(at, g.last.Add(1)), at
	entry.Operation, entry.ActorID = pick(g, []string{"create", "read"}), pick(g, g.actors)
	entry.ActorType = pick(g, []string{"application", "user"})
	return entry
}

// change returns inserts, or updates and deletes of existing rows. Some of them
// have a wrong revision.
func (g *generator) change(tenant storage.ID) *storage.Change {
	c := &storage.Change{Tenant: tenant, Now: now, Logs: some(g, 2, g.newLog)}
	if g.IntN(3) > 0 {
		c.InsertTokens = some(g, 3, g.newToken)
		c.InsertRecords = some(g, 1, g.newRecord)
		return c
	}
	g.changeTokens(c)
	g.changeRecords(c)
	return c
}

// changeTokens adds updates and deletes of the tenant's tokens. No row of the
// change takes a Dedup hash that another row gives up, because the order in
// which a backend handles them is undefined.
func (g *generator) changeTokens(c *storage.Change) {
	given := map[storage.Hash]bool{}
	for _, ord := range sorted(keys(g.tokens[c.Tenant])) {
		token := g.tokens[c.Tenant][ord]
		switch g.IntN(6) {
		case 0:
			c.DeleteTokens = append(c.DeleteTokens, deleteOf(token))
			given[token.Dedup] = true
		case 1:
			c.UpdateTokens = append(c.UpdateTokens, g.update(token))
			given[token.Dedup] = true
		}
	}
	for i := range c.UpdateTokens {
		if next := &c.UpdateTokens[i].Token; given[next.Dedup] {
			next.Dedup = g.tokens[c.Tenant][next.Ord].Dedup
		}
	}
}

// changeRecords is like changeTokens, for records and their keys.
func (g *generator) changeRecords(c *storage.Change) {
	given := map[storage.Key]bool{}
	for _, id := range sorted(keys(g.records[c.Tenant])) {
		record := g.records[c.Tenant][id]
		switch g.IntN(6) {
		case 0:
			c.DeleteRecords = append(c.DeleteRecords, storage.RecordDelete{Kind: record.Kind, ID: id, Rev: record.Rev})
			given[record.Key] = true
		case 1:
			next := g.newRecord()
			next.ID, next.Kind, next.CreatedAt = id, record.Kind, record.CreatedAt
			c.UpdateRecords = append(c.UpdateRecords, storage.RecordUpdate{Rev: record.Rev, Record: next})
			given[record.Key] = true
		}
	}
	for i := range c.UpdateRecords {
		if next := &c.UpdateRecords[i].Record; given[next.Key] {
			next.Key = g.records[c.Tenant][next.ID].Key
		}
	}
}

func (g *generator) update(token storage.Token) storage.TokenUpdate {
	next := token
	g.fill(&next)
	next.ModifiedBy, next.ModifiedAt = pick(g, g.actors), now.Add(time.Duration(g.IntN(9)-4)*time.Millisecond)
	u := updateOf(token, next)
	u.KeepHashes = g.IntN(2) == 0
	if g.IntN(12) == 0 {
		u.Rev++
	}
	return u
}

func keys[V any](m map[storage.ID]V) []storage.ID {
	ids := make([]storage.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	return ids
}

// written records an accepted change, for later updates and deletes.
func (g *generator) written(c *storage.Change) {
	for _, token := range c.InsertTokens {
		g.tokens[c.Tenant][token.Ord] = token
	}
	for _, u := range c.UpdateTokens {
		u.Token.Rev = u.Rev + 1
		g.tokens[c.Tenant][u.Token.Ord] = u.Token
	}
	for _, d := range c.DeleteTokens {
		delete(g.tokens[c.Tenant], d.Ord)
	}
	for _, record := range c.InsertRecords {
		g.records[c.Tenant][record.ID] = record
	}
	for _, u := range c.UpdateRecords {
		u.Record.Rev = u.Rev + 1
		g.records[c.Tenant][u.Record.ID] = u.Record
	}
	for _, d := range c.DeleteRecords {
		delete(g.records[c.Tenant], d.ID)
	}
}

// cond returns a condition with nesting up to a depth.
func (g *generator) cond(depth int) storage.Cond {
	if depth > 0 && g.IntN(2) == 0 {
		inner := func() storage.Cond { return g.cond(depth - 1) }
		switch g.IntN(3) {
		case 0:
			return storage.And(some(g, 3, inner))
		case 1:
			return storage.Or(some(g, 3, inner))
		default:
			return storage.Not{Cond: inner()}
		}
	}
	return g.term()
}

func (g *generator) term() storage.Cond {
	switch g.IntN(9) {
	case 0:
		return storage.SetIn(some(g, 2, func() storage.Hash { return pick(g, sets).Set }))
	case 1:
		return storage.TypeIn(some(g, 2, func() string { return pick(g, types) }))
	case 2:
		return storage.IDIn(some(g, 3, g.tokenID))
	case 3:
		return storage.IDPrefix(g.tokenID())
	case 4:
		return storage.HashIs(g.searchHash())
	case 5:
		return storage.FingerprintIs(keyOf(uint64(g.IntN(4))))
	case 6:
		return storage.ByIs{Field: pick(g, []storage.Field{storage.CreatedBy, storage.ModifiedBy}), ID: pick(g, g.actors)}
	case 7:
		return storage.KeyBelow(g.IntN(5))
	default:
		return storage.TimeIn{
			Field: pick(g, []storage.Field{storage.CreatedAt, storage.ModifiedAt}),
			From:  g.moment(), To: g.moment(), ExcludeFrom: g.IntN(2) == 0, ExcludeTo: g.IntN(2) == 0,
		}
	}
}

func (g *generator) tokenFilter(tenant storage.ID) storage.TokenFilter {
	f := storage.TokenFilter{Tenant: tenant, Now: g.moment(), Limit: g.IntN(30), Count: g.IntN(4) > 0}
	if g.IntN(3) == 0 {
		f.CountUpTo = 1 + g.IntN(12)
	}
	if g.IntN(8) > 0 {
		f.Where = g.cond(4)
	}
	if g.IntN(3) == 0 {
		f.Offset = g.IntN(10)
	}
	if ords := sorted(keys(g.tokens[tenant])); len(ords) > 0 && g.IntN(3) == 0 {
		f.Before = pick(g, ords)
	}
	return f
}

func (g *generator) recordFilter(tenant storage.ID) storage.RecordFilter {
	f := storage.RecordFilter{Tenant: tenant, Limit: g.IntN(10), KeyBelow: g.IntN(4), Offset: g.IntN(3)}
	f.Kind = pick(g, []string{"", "proxy", "reactor"})
	if g.IntN(2) == 0 {
		f.Name = strings.ToUpper(g.text()) + pick(g, []string{"", "*", "*b"})
	}
	ids := sorted(keys(g.records[tenant]))
	if len(ids) > 0 && g.IntN(3) == 0 {
		f.IDs = some(g, 6, func() storage.ID { return pick(g, ids) })
	}
	if len(ids) > 0 && g.IntN(4) == 0 {
		f.Before = pick(g, ids)
	}
	if g.IntN(6) == 0 {
		f.Tenant = storage.ID{}
	}
	return f
}

func (g *generator) logFilter(tenant storage.ID) storage.LogFilter {
	f := storage.LogFilter{
		Tenant: tenant, EntityType: pick(g, append(types, "")), EntityID: pick(g, []string{"", "", g.tokenID()}),
		From: g.moment(), To: g.moment(), Offset: g.IntN(3), Limit: g.IntN(10),
	}
	if g.IntN(3) == 0 {
		f.Operation, f.ActorType = pick(g, []string{"", "create", "read"}), pick(g, []string{"", "application", "user"})
	}
	if g.IntN(4) == 0 {
		f.ActorID = pick(g, g.actors)
	}
	if g.IntN(3) == 0 {
		f.CountUpTo = 1 + g.IntN(12)
	}
	return f
}

func (g *generator) duplicate() storage.Duplicate {
	return storage.Duplicate{
		Fingerprint: keyOf(uint64(g.IntN(4))), Expression: hashOf(uint64(g.IntN(2))),
		Except: pick(g, []string{"", g.tokenID()}), Now: now.Add(time.Duration(g.IntN(9)-4) * time.Millisecond),
	}
}

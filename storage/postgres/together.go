package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// carefulFor is for how many batches conflicts are expected after there was
// one.
const carefulFor = 64

// createTogether writes a batch of creates in one statement, and returns those
// that were passed over: a conflict keeps them, and them alone, from being
// written.
//
// The statement that fails as a whole at a conflict costs the server much less
// than the one that passes over the changes which have one. So the first is
// tried, unless there was a conflict not long ago: even somebody who causes them
// all the time does not make others wait for statements that fail.
func (s *Store) createTogether(slot *slot, batch []*pending) (passed []*pending, err error) {
	careful := s.careful.Load() > 0
	if careful {
		s.careful.Add(-1)
	} else {
		err = slot.exec(s.gather(slot, batch, uniform(batch)).trusting(slot))
	}
	if refused(err) {
		s.careful.Store(carefulFor)
		careful = true
	}
	if careful {
		passed, err = s.gather(slot, batch, false).createCarefully(slot, batch)
	}
	if err != nil {
		return nil, err
	}
	if slot.group.sets.n == 0 {
		return passed, nil // all are known
	}
	for _, p := range batch {
		if !slices.Contains(passed, p) {
			s.sets.learn(p.change)
		}
	}
	return passed, nil
}

// The columns of what shares a statement. The last one of each is for the
// careful statement: a token names the claim that it needs, and a log entry and
// a claim name their token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns, columns{{"claim", bytea}})
	groupLogColumns   = slices.Concat(tenantColumn, logColumns, columns{{"token", bytea}})
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns, columns{{"token", bytea}})
	groupHashColumns  = slices.Concat(tenantColumn, hashColumns)
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
	groupCountColumns = slices.Concat(tenantColumn, countColumns)
)

// The columns that a uniform batch shares.
var (
	uniformTokens = groupTokenColumns.set(append(sharedTokenColumns, "tenant_id")...)
	uniformLogs   = groupLogColumns.set(append(sharedLogColumns, "tenant_id")...)
	uniformHashes = groupHashColumns.set("tenant_id")
	uniformClaims = groupClaimColumns.set("tenant_id")
)

// group is the rows of a batch of creates.
type group struct {
	tokens, hashes, logs, claims, sets, counts *rows
	// now is the earliest moment by which a change judges claims. A claim that
	// only the later ones see dead is refused here and looked at again.
	now int64
}

// uniform reports whether the changes of a batch differ in nothing but what
// every token and every log entry has for itself.
func uniform(batch []*pending) bool {
	first := batch[0].change
	if len(first.InsertTokens) == 0 {
		return false
	}
	for _, p := range batch {
		c := p.change
		if c.Tenant != first.Tenant || len(c.InsertTokens) == 0 || !sameMake(&first.InsertTokens[0], &c.InsertTokens[0]) {
			return false
		}
		for i := range c.Logs {
			if !sameEvent(&first.Logs[0], &c.Logs[i]) {
				return false
			}
		}
	}
	return true
}

// emptied returns the slot's group without rows.
func (s *slot) emptied() *group {
	if s.group == nil {
		s.group = &group{
			tokens: newRows(groupTokenColumns, maxBatch), hashes: newRows(groupHashColumns, maxBatch),
			logs: newRows(groupLogColumns, maxBatch), claims: newRows(groupClaimColumns, maxBatch),
			sets: newRows(groupSetColumns, 1), counts: newRows(groupCountColumns, 1),
		}
	}
	g := s.group
	for _, r := range []*rows{g.tokens, g.hashes, g.logs, g.claims, g.sets, g.counts} {
		r.reset()
	}
	return g
}

// gather collects the rows of a batch. Those of a uniform one share columns.
func (s *Store) gather(slot *slot, batch []*pending, uniform bool) *group {
	g := slot.emptied()
	if uniform {
		g.tokens.shared, g.logs.shared = uniformTokens, uniformLogs
		g.hashes.shared, g.claims.shared = uniformHashes, uniformClaims
	}
	var sums tally
	var sets []tenantSet
	for _, p := range ordered(batch) {
		c := p.change
		var token []byte
		if len(c.InsertTokens) > 0 {
			token = c.InsertTokens[0].Ord[:]
			g.addToken(c)
			sums.add(c.Tenant, &c.InsertTokens[0])
			sets = g.addSets(c, s.sets.unknown(c), sets)
		}
		for i := range c.Logs {
			g.logs.bytes(c.Tenant[:])
			putLog(g.logs, &c.Logs[i])
			g.logs.optional(token)
		}
	}
	slices.SortFunc(sums, compareCounts)
	for i := range sums {
		g.counts.bytes(sums[i].tenant[:])
		sums[i].put(g.counts)
	}
	return g
}

func (g *group) addToken(c *storage.Change) {
	t := &c.InsertTokens[0]
	g.tokens.bytes(c.Tenant[:])
	putToken(g.tokens, t)
	eachHash(t.Hashes, func(h *storage.Hash) {
		g.hashes.bytes(c.Tenant[:])
		g.hashes.bytes(h[:])
		g.hashes.bytes(t.Ord[:])
	})
	if c.Claim == nil {
		g.tokens.null()
		return
	}
	g.tokens.bytes(c.Claim.Key[:])
	if now := c.Now.UnixMicro(); g.claims.n == 0 || now < g.now {
		g.now = now
	}
	g.claims.bytes(c.Tenant[:])
	putClaim(g.claims, &c.Claim.Claim)
	g.claims.bytes(t.Ord[:])
}

// addSets adds the sets that are not among those that have been added.
func (g *group) addSets(c *storage.Change, sets []storage.ContainerSet, added []tenantSet) []tenantSet {
	for i := range sets {
		if key := (tenantSet{c.Tenant, sets[i].Set}); !slices.Contains(added, key) {
			added = append(added, key)
			g.sets.bytes(c.Tenant[:])
			putSet(g.sets, &sets[i])
		}
	}
	return added
}

// tally is numbers of tokens.
type tally []count

type count struct {
	tenant storage.ID
	set    storage.Hash
	kind   string // the type of the tokens
	n      int64
}

// add counts a token. The kinds of tokens in a change, or a batch, are few.
func (t *tally) add(tenant storage.ID, token *storage.Token) {
	for i := range *t {
		if c := &(*t)[i]; c.set == token.Set && c.kind == token.Type && c.tenant == tenant {
			c.n++
			return
		}
	}
	*t = append(*t, count{tenant, token.Set, token.Type, 1})
}

func (c *count) put(r *rows) {
	r.bytes(c.set[:])
	r.text(c.kind)
	r.int(c.n)
}

func compareCounts(a, b count) int {
	return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.set[:], b.set[:]), strings.Compare(a.kind, b.kind))
}

// trustingForm is what the text of a trusting statement depends on: how the
// rows are laid out, and which there are none of.
type trustingForm struct {
	tokens, hashes, logs, claims layout
	noTokens, noHashes, noSets   bool
	noClaims                     bool
}

// trustingTexts are the statements by their forms.
var trustingTexts sync.Map // of trustingForm to string

// trusting returns the statement that writes all of a batch, or nothing at a
// conflict, and its parameters. Any claim with the same key is a conflict to it,
// even a dead one.
func (g *group) trusting(slot *slot) (text string, args []any, prepare bool) {
	f := g.form()
	if known, ok := trustingTexts.Load(f); ok {
		text = known.(string)
	} else {
		text = f.text()
		trustingTexts.Store(f, text)
	}
	args = g.logs.laidOut(slot.args[:0], f.logs)
	if !f.noTokens {
		args = g.tokens.laidOut(args, f.tokens)
		args = append(g.counts.values(args), slot.shard)
	}
	if !f.noHashes {
		args = g.hashes.laidOut(args, f.hashes)
	}
	if !f.noSets {
		args = g.sets.values(args)
	}
	if !f.noClaims {
		args = g.claims.laidOut(args, f.claims)
	}
	slot.args = args
	return text, args, true
}

func (g *group) form() trustingForm {
	f := trustingForm{
		tokens: g.tokens.layout(), hashes: g.hashes.layout(), logs: g.logs.layout(), claims: g.claims.layout(),
		noTokens: g.tokens.n == 0, noHashes: g.hashes.n == 0, noSets: g.sets.n == 0, noClaims: g.claims.n == 0,
	}
	// What only the careful statement needs is not sent.
	f.tokens.absent |= groupTokenColumns.set("claim")
	f.logs.absent |= groupLogColumns.set("token")
	f.claims.absent |= groupClaimColumns.set("token")
	return f
}

func (f trustingForm) text() string {
	n := 0
	insert := func(table string, cs columns, l layout) string {
		text, args := cs.insert(table, "", "", n, l)
		n += args
		return text
	}
	logged := insert("logs", groupLogColumns, f.logs)
	if f.noTokens {
		return logged
	}
	created := insert("tokens", groupTokenColumns, f.tokens)
	counted := groupCountColumns.from(n, true, "u")
	n += len(groupCountColumns)
	parts := []string{
		"logged AS (" + logged + ")",
		"counted AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n) SELECT u.tenant_id, u.set_id, u.type, $" +
			strconv.Itoa(n+1) + "::bigint, u.n FROM " + counted + addToCounts + ")",
	}
	n++
	if !f.noHashes {
		parts = append(parts, "hashed AS ("+insert("token_hashes", groupHashColumns, f.hashes)+")")
	}
	if !f.noSets {
		parts = append(parts, "sets AS ("+insert("container_sets", groupSetColumns, layout{})+
			" ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)")
	}
	if !f.noClaims {
		parts = append(parts, "claimed AS ("+insert("claims", groupClaimColumns, f.claims)+" ORDER BY u.key)")
	}
	return "WITH " + strings.Join(parts, ",\n") + "\n" + created
}

// ordered sorts changes by the unique keys of their tokens, so that two
// batches that want the same keys do not wait for each other.
func ordered(batch []*pending) []*pending {
	sorted := slices.Clone(batch)
	slices.SortStableFunc(sorted, func(a, b *pending) int {
		if byTenant := bytes.Compare(a.change.Tenant[:], b.change.Tenant[:]); byTenant != 0 {
			return byTenant
		}
		if len(a.change.InsertTokens) == 0 || len(b.change.InsertTokens) == 0 {
			return len(a.change.InsertTokens) - len(b.change.InsertTokens)
		}
		t, u := &a.change.InsertTokens[0], &b.change.InsertTokens[0]
		return cmp.Or(bytes.Compare(t.Dedup[:], u.Dedup[:]), cmp.Compare(t.ID, u.ID))
	})
	return sorted
}

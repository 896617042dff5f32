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
// tried, which wins 6 to 17 % of CreateToken at 8 and 32 callers, in the mean
// 12 % (BenchmarkCreate), unless there was a conflict not long ago: a caller that
// causes them all the time does not make others wait for statements that fail.
func (s *Store) createTogether(slot *slot, batch []*pending) (passed []*pending, err error) {
	g := gather(batch)
	careful := s.careful.Load() > 0
	if careful {
		s.careful.Add(-1)
	} else {
		err = g.createTrusting(slot)
	}
	if refused(err) {
		s.careful.Store(carefulFor)
		careful = true
	}
	if careful {
		passed, err = g.createCarefully(slot, batch)
	}
	return passed, err
}

// The columns of what shares a statement. Those of the careful statement have
// one more: a token names the claim that it needs, and a log entry and a claim
// name their token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns)
	groupLogColumns   = slices.Concat(tenantColumn, logColumns)
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns)
	groupHashColumns  = slices.Concat(tenantColumn, hashColumns)
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
	groupCountColumns = slices.Concat(tenantColumn, countColumns)

	carefulTokenColumns = slices.Concat(groupTokenColumns, columns{{"claim", bytea}})
	carefulLogColumns   = slices.Concat(groupLogColumns, columns{{"token", bytea}})
	carefulClaimColumns = slices.Concat(groupClaimColumns, columns{{"token", bytea}})
)

// The columns that have one value in all rows of a uniform group. They are sent
// as scalars, which saves the server the work of taking arrays apart: that wins
// 11 to 14 % of CreateToken at 8 callers, 8 to 10 % at 32 and 6 % at 128
// (BenchmarkCreate).
var (
	sharedTokenColumns = []string{"tenant_id", "type", "set_id", "containers", "expression", "key_version", "created_by", "rev"}
	sharedLogColumns   = []string{"tenant_id", "actor_id", "actor_type", "entity_type", "operation", "message", "actor_name"}
	sharedTenant       = []string{"tenant_id"}
)

// group is the rows of a batch of creates.
type group struct {
	tokens, hashes, logs, claims, sets, counts *rows
	uniform                                    bool
	// now is the earliest moment by which a change judges claims. A claim that
	// only the later ones see dead is refused here and looked at again.
	now int64
}

// uniform reports whether the changes of a batch do not differ in the shared
// columns.
func uniform(batch []*pending) bool {
	first := batch[0].change
	if len(first.InsertTokens) == 0 {
		return false
	}
	token, entry := &first.InsertTokens[0], &first.Logs[0]
	return !slices.ContainsFunc(batch, func(p *pending) bool {
		c := p.change
		return c.Tenant != first.Tenant || len(c.InsertTokens) == 0 || !alikeTokens(token, &c.InsertTokens[0]) ||
			slices.ContainsFunc(c.Logs, func(l storage.Log) bool { return !alikeLogs(entry, &l) })
	})
}

func alikeTokens(a, b *storage.Token) bool {
	return a.Type == b.Type && a.Set == b.Set && a.Expression == b.Expression && a.KeyVersion == b.KeyVersion &&
		a.CreatedBy == b.CreatedBy && a.Rev == b.Rev && slices.Equal(a.Containers, b.Containers)
}

func alikeLogs(a, b *storage.Log) bool {
	return a.ActorID == b.ActorID && a.ActorType == b.ActorType && a.EntityType == b.EntityType &&
		a.Operation == b.Operation && a.Message == b.Message && a.ActorName == b.ActorName
}

// gather collects the rows of a batch.
func gather(batch []*pending) *group {
	n := len(batch)
	g := &group{
		uniform: uniform(batch),
		tokens:  newRows(carefulTokenColumns, n), hashes: newRows(groupHashColumns, n),
		logs: newRows(carefulLogColumns, n), claims: newRows(carefulClaimColumns, n),
		sets: newRows(groupSetColumns, 1), counts: newRows(groupCountColumns, 1),
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
			sets = g.addSet(c, sets)
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

// addSet adds the set of a token, unless it is among those that have been added.
func (g *group) addSet(c *storage.Change, added []tenantSet) []tenantSet {
	t := &c.InsertTokens[0]
	key := tenantSet{c.Tenant, t.Set}
	if slices.Contains(added, key) {
		return added
	}
	g.sets.bytes(c.Tenant[:])
	putSet(g.sets, &storage.ContainerSet{Set: t.Set, Containers: t.Containers})
	return append(added, key)
}

type tenantSet struct {
	tenant storage.ID
	set    storage.Hash
}

// tally is numbers of tokens.
type tally []count

type count struct {
	tenant storage.ID
	set    storage.Hash
	kind   string // the type of the tokens
	n      int64
}

// add counts a token.
func (t *tally) add(tenant storage.ID, token *storage.Token) {
	t.sum(count{tenant, token.Set, token.Type, 1})
}

// sum adds a number. The kinds of tokens in a change, or a batch, are few.
func (t *tally) sum(more count) {
	for i := range *t {
		if c := &(*t)[i]; c.set == more.set && c.kind == more.kind && c.tenant == more.tenant {
			c.n += more.n
			return
		}
	}
	*t = append(*t, more)
}

func (c *count) put(r *rows) {
	r.bytes(c.set[:])
	r.text(c.kind)
	r.int(c.n)
}

func compareCounts(a, b count) int {
	return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.set[:], b.set[:]), strings.Compare(a.kind, b.kind))
}

// form is all that the texts of a group's statements depend on: which rows it
// has, and whether it is uniform.
type form struct{ tokens, hashes, claims, uniform bool }

func (g *group) form() form {
	return form{tokens: g.tokens.n > 0, hashes: g.hashes.n > 0, claims: g.claims.n > 0, uniform: g.uniform}
}

// shared returns the columns that a group of the form shares, of those that a
// uniform one does.
func (f form) shared(columns []string) []string {
	if f.uniform {
		return columns
	}
	return nil
}

// texts keeps statements by their forms.
type texts struct{ known sync.Map } // of form to string

// of returns the text of a form, which is composed once.
func (t *texts) of(f form, compose func(form) string) string {
	if text, ok := t.known.Load(f); ok {
		return text.(string)
	}
	text := compose(f)
	t.known.Store(f, text)
	return text
}

// The statements of batches. To compose them each time would cost 10 % of
// CreateToken at 8 callers, and 4 % at 32 (BenchmarkCreate).
var trustingTexts, carefulTexts texts

// createTrusting writes all of a batch in one statement, or nothing at a
// conflict. Any claim with the same key is a conflict to it, even a dead one.
func (g *group) createTrusting(slot *slot) error {
	f := g.form()
	args := g.logs.parameters(nil, groupLogColumns, f.shared(sharedLogColumns))
	if f.tokens {
		args = g.tokens.parameters(args, groupTokenColumns, f.shared(sharedTokenColumns))
		args = append(g.counts.values(args), slot.shard)
		args = g.sets.values(args)
	}
	if f.hashes {
		args = g.hashes.parameters(args, groupHashColumns, f.shared(sharedTenant))
	}
	if f.claims {
		args = g.claims.parameters(args, groupClaimColumns, f.shared(sharedTenant))
	}
	return slot.exec(trustingTexts.of(f, trustingText), args, true)
}

// trustingText is the statement of createTrusting.
func trustingText(f form) string {
	n := 0
	insert := func(table string, cs columns, shared []string) string {
		text := cs.insert(table, n, f.shared(shared))
		n += len(cs)
		return text
	}
	logged := insert("vault_logs", groupLogColumns, sharedLogColumns)
	if !f.tokens {
		return logged
	}
	created := insert("vault_tokens", groupTokenColumns, sharedTokenColumns)
	counted := groupCountColumns.from(n, true, "u")
	n += len(groupCountColumns) + 1
	parts := []string{
		"logged AS (" + logged + ")",
		"counted AS (INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) SELECT u.tenant_id, u.set_id, u.type, $" +
			strconv.Itoa(n) + "::bigint, u.n FROM " + counted + addToCounts + ")",
		"sets AS (" + insert("vault_container_sets", groupSetColumns, nil) + " ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)",
	}
	if f.hashes {
		parts = append(parts, "hashed AS ("+insert("vault_token_hashes", groupHashColumns, sharedTenant)+")")
	}
	if f.claims {
		parts = append(parts, "claimed AS ("+insert("vault_claims", groupClaimColumns, sharedTenant)+" ORDER BY u.key)")
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

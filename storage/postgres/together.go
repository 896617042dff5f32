package postgres

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// carefulFor is the number of batches for which conflicts are expected after
// one.
const carefulFor = 64

// createTogether writes a batch of creates in one statement. It returns the
// changes that were not written because each of them has a conflict.
//
// There are two kinds of statements. A trusting statement fails as a whole at a
// conflict; a careful statement skips the changes that conflict, but costs the
// server much more. Trying the trusting statement first makes CreateToken 6 to
// 17 % faster at 8 and 32 callers, 12 % on average (BenchmarkCreate). After a
// conflict the next batches use the careful statement, so that a caller that
// keeps causing conflicts does not make others wait for statements that fail.
func (s *Store) createTogether(slot *slot, batch []*pending) (passed []*pending, err error) {
	g := gather(batch, slot)
	defer g.release()
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
	if careful && slot.layout.inSteps() {
		return nil, errGuard // no single step can skip changes, so they are written one by one
	}
	if careful {
		passed, err = g.createCarefully(slot, batch)
	}
	return passed, err
}

// The columns of rows that share a statement. The careful statement has one
// more column per table: a token names the claim that it needs, and log entries
// and claims name their token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns)
	bareTokenColumns  = slices.DeleteFunc(slices.Clone(groupTokenColumns), func(c column) bool { return slices.Contains(bare, c.name) })
	groupLogColumns   = slices.Concat(tenantColumn, logColumns)
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns)
	groupHashColumns  = slices.Concat(tenantColumn, hashColumns)
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
	groupCountColumns = slices.Concat(tenantColumn, countColumns)
	groupHoldColumns  = slices.Concat(tenantColumn, recordDeleteColumns)

	carefulTokenColumns = slices.Concat(groupTokenColumns, columns{{"claim", bytea}})
	carefulLogColumns   = slices.Concat(groupLogColumns, columns{{"token", bytea}})
	carefulClaimColumns = slices.Concat(groupClaimColumns, columns{{"token", bytea}})
)

// The columns that have the same value in all rows of a uniform group. They are
// sent as scalars, so the server unpacks fewer arrays. This makes CreateToken
// 11 to 14 % faster at 8 callers, 8 to 10 % at 32 and 6 % at 128
// (BenchmarkCreate).
var (
	sharedTokenColumns = []string{"tenant_id", "type", "set_id", "containers", "expression", "key_version", "created_by", "rev"}
	sharedLogColumns   = []string{"tenant_id", "actor_id", "actor_type", "entity_type", "operation", "message", "actor_name"}
	sharedTenant       = []string{"tenant_id"}
	sharedShard        = []string{"tenant_id", "shard"}

	// bare lists the columns that are null in ordinary tokens.
	bare = []string{"dedup", "cvc", "cvc_expires_at", "expires_at", "modified_by", "modified_at"}
)

// group holds the rows of a batch of creates.
type group struct {
	tokens, hashes, logs, claims, sets, counts, held *rows

	holds   []held     // the same as held
	sums    tally      // the same as counts
	tenant  storage.ID // of the first change
	uniform bool
	special bool // some token is not bare
	inSteps bool // all rows are of one tenant, and each part is a statement
	// now is the earliest time at which a change in the batch judges claims. A
	// claim that is dead only for later changes is a conflict here, and is
	// checked again.
	now int64
}

// uniform reports whether all changes of a batch are equal in the shared
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

// gather collects the rows of a batch for a slot to write.
func gather(batch []*pending, slot *slot) *group {
	g := &group{
		tenant: batch[0].change.Tenant, uniform: uniform(batch), inSteps: slot.layout.inSteps(),
		tokens: slot.rows(carefulTokenColumns), hashes: slot.rows(groupHashColumns),
		logs: slot.rows(carefulLogColumns), claims: slot.rows(carefulClaimColumns),
		sets: slot.rows(groupSetColumns), counts: slot.rows(groupCountColumns), held: slot.rows(groupHoldColumns),
	}
	var sums tally
	var sets []tenantSet
	sorted := ordered(batch)
	for _, p := range sorted {
		c := p.change
		var token []byte
		if len(c.InsertTokens) > 0 {
			t := &c.InsertTokens[0]
			token = t.Ord[:]
			g.special = g.special || !isBare(t)
			g.addToken(c)
			sums.add(c.Tenant, t)
			sets = addSet(sets, c)
		}
		for i := range c.Logs {
			g.logs.bytes(c.Tenant[:])
			putLog(g.logs, &c.Logs[i])
			g.logs.optional(token)
		}
	}
	g.addHolds(sorted)
	g.addClaims(sorted)
	g.addSets(sets)
	sums.addTo(g.counts, slot.shard)
	g.sums = sums
	return g
}

// release removes the rows, so that the slot does not keep large ones.
func (g *group) release() {
	for _, r := range []*rows{g.tokens, g.hashes, g.logs, g.claims, g.sets, g.counts, g.held} {
		r.reset()
	}
}

// isBare reports whether the bare columns of a token are all null.
func isBare(t *storage.Token) bool {
	return t.Dedup == storage.Hash{} && t.CVC == nil && t.CVCExpiresAt.IsZero() && t.ExpiresAt.IsZero() &&
		t.ModifiedBy.IsZero() && t.ModifiedAt.IsZero()
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
}

// addHolds adds the holds of a batch. Changes of one tenant are adjacent, and
// most of them have the same hold.
func (g *group) addHolds(batch []*pending) {
	for _, p := range batch {
		c := p.change
		if c.Hold == nil {
			continue
		}
		if h := (held{c.Tenant, *c.Hold}); len(g.holds) == 0 || g.holds[len(g.holds)-1] != h {
			g.holds = append(g.holds, h)
			g.held.bytes(h.tenant[:])
			putRecordDelete(g.held, &storage.RecordDelete{Kind: h.Kind, ID: h.ID, Rev: h.Rev})
		}
	}
}

// holdArgs appends the holds of the group as parameters of allHeld.
func (g *group) holdArgs(args []any) []any {
	if len(g.holds) == 0 {
		return args
	}
	return g.held.values(args)
}

// held is a hold of a change, with its tenant.
type held struct {
	tenant storage.ID
	storage.Hold
}

// allHeld returns the condition that all records in the parameters after the
// first n have their revisions. OFFSET keeps the planner from turning it into a
// join.
func allHeld(n int) string {
	return "NOT EXISTS (SELECT FROM " + groupHoldColumns.from(n, true, "u") + " WHERE NOT EXISTS (SELECT FROM vault_records r" +
		" WHERE r.tenant_id = u.tenant_id AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev OFFSET 0))"
}

// addClaims adds the claims of a batch in the order of their keys, so that two
// batches with the same keys do not deadlock.
func (g *group) addClaims(batch []*pending) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(p *pending) bool { return p.change.Claim == nil })
	slices.SortStableFunc(batch, func(a, b *pending) int {
		return bytes.Compare(a.change.Claim.Key[:], b.change.Claim.Key[:])
	})
	for _, p := range batch {
		c := p.change
		if now := c.Now.UnixMicro(); g.claims.n == 0 || now < g.now {
			g.now = now
		}
		g.claims.bytes(c.Tenant[:])
		putClaim(g.claims, &c.Claim.Claim)
		g.claims.bytes(c.InsertTokens[0].Ord[:])
	}
}

// addSets adds sets in the order in which every statement locks them.
func (g *group) addSets(sets []tenantSet) {
	slices.SortFunc(sets, func(a, b tenantSet) int {
		return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.Set[:], b.Set[:]))
	})
	for i := range sets {
		g.sets.bytes(sets[i].tenant[:])
		putSet(g.sets, &sets[i].ContainerSet)
	}
}

// addSet adds the set of a token, if sets does not contain it.
func addSet(sets []tenantSet, c *storage.Change) []tenantSet {
	t := &c.InsertTokens[0]
	if slices.ContainsFunc(sets, func(s tenantSet) bool { return s.Set == t.Set && s.tenant == c.Tenant }) {
		return sets
	}
	return append(sets, tenantSet{c.Tenant, storage.ContainerSet{Set: t.Set, Containers: t.Containers}})
}

type tenantSet struct {
	tenant storage.ID
	storage.ContainerSet
}

// form determines the text of a group's statements. It holds the kinds of rows,
// and whether the group is uniform, has bare tokens, or is written in steps.
type form struct{ tokens, hashes, claims, holds, uniform, special, inSteps bool }

func (g *group) form() form {
	return form{
		tokens: g.tokens.n > 0, hashes: g.hashes.n > 0, claims: g.claims.n > 0, holds: len(g.holds) > 0,
		uniform: g.uniform, special: g.special, inSteps: g.inSteps,
	}
}

// groupPart is one of the INSERTs that write a group.
type groupPart struct {
	name, table string
	columns     columns
	shared      []string // columns sent as scalars
	conflict    string
	rows        func(*group) *rows
}

// parts returns the INSERTs that write a group of this form. The last one is
// the main statement.
func (f form) parts() []groupPart {
	var parts []groupPart
	add := func(name, table string, cs columns, shared []string, conflict string, rows func(*group) *rows) {
		if !f.uniform {
			shared = slices.DeleteFunc(slices.Clone(shared), func(name string) bool {
				return name != "shard" && !(f.inSteps && name == "tenant_id")
			})
		}
		parts = append(parts, groupPart{name, table, cs, shared, conflict, rows})
	}
	add("logged", "vault_logs", groupLogColumns, sharedLogColumns, "", func(g *group) *rows { return g.logs })
	if !f.tokens {
		return parts
	}
	add("counted", "vault_token_counts", groupCountColumns, sharedShard, addToCounts, func(g *group) *rows { return g.counts })
	add("sets", "vault_container_sets", groupSetColumns, sharedTenant, " ON CONFLICT DO NOTHING", func(g *group) *rows { return g.sets })
	if f.hashes {
		add("hashed", "vault_token_hashes", groupHashColumns, sharedTenant, "", func(g *group) *rows { return g.hashes })
	}
	if f.claims {
		add("claimed", "vault_claims", groupClaimColumns, sharedTenant, "", func(g *group) *rows { return g.claims })
	}
	columns := bareTokenColumns
	if f.special {
		columns = groupTokenColumns
	}
	add("created", "vault_tokens", columns, sharedTokenColumns, "", func(g *group) *rows { return g.tokens })
	return parts
}

// trusting holds the statements that write all of a group of one form, or
// nothing if there is a conflict.
type trusting struct {
	parts []groupPart
	text  string   // of all parts in one statement
	texts []string // of each part as a statement
}

// known caches a value for each form.
type known[T any] struct{ forms sync.Map } // from form to T

func (k *known[T]) of(f form, compose func(form) T) T {
	if v, ok := k.forms.Load(f); ok {
		return v.(T)
	}
	v := compose(f)
	k.forms.Store(f, v)
	return v
}

// The statements of batches. Composing them each time would make CreateToken 10
// % slower at 8 callers and 4 % at 32 (BenchmarkCreate).
var (
	trustingTexts known[*trusting]
	carefulTexts  known[string]
)

// createTrusting writes all of a batch, or nothing if there is a conflict. It
// takes one statement, or one for each part if the tables are distributed. Any
// claim with the same key is a conflict here, even a dead one.
func (g *group) createTrusting(slot *slot) error {
	f := g.form()
	t := trustingTexts.of(f, newTrusting)
	if f.inSteps {
		return slot.inSteps(t.steps(g))
	}
	args := slot.args[:0]
	for i := range t.parts {
		args = t.parts[i].args(g, args)
	}
	slot.args = g.holdArgs(args)
	defer clear(slot.args)
	return slot.exec(t.text, slot.args)
}

func (p *groupPart) args(g *group, args []any) []any {
	return p.rows(g).parameters(args, p.columns, p.shared)
}

func newTrusting(f form) *trusting {
	t := &trusting{parts: f.parts()}
	n, last := 0, len(t.parts)-1
	if f.holds {
		last++ // the guard is the main statement
	}
	expressions := make([]string, last)
	for i, p := range t.parts {
		columns, shared := p.numbered()
		t.texts = append(t.texts, columns.insert(p.table, 0, shared)+p.conflict)
		text := p.columns.insert(p.table, n, p.shared) + p.conflict
		if n += len(p.columns); i < last {
			expressions[i] = p.name + " AS (" + text + ")"
			continue
		}
		t.text = text
	}
	if f.holds {
		t.text = "SELECT 1 / (CASE WHEN " + allHeld(n) + " THEN 1 ELSE 0 END)"
	}
	if last > 0 {
		t.text = "WITH " + strings.Join(expressions, ",\n") + "\n" + t.text
	}
	return t
}

// numbered returns the columns of a part, with the transaction number of log
// entries.
func (p *groupPart) numbered() (all columns, shared []string) {
	if p.name != "logged" {
		return p.columns, p.shared
	}
	return slices.Concat(p.columns, numberColumn), append(slices.Clone(p.shared), "xid")
}

// steps returns the parts as separate statements. Holds come first, then the
// tokens, because conflicts are about tokens.
func (t *trusting) steps(g *group) []step {
	steps := make([]step, 0, len(t.parts)+len(g.holds))
	for i := range g.holds {
		st := newStatement(g.holds[i].tenant)
		st.held(&g.holds[i].Hold)
		steps = append(steps, step{text: holdQuery, args: st.args, prepare: true, want: 1})
	}
	var sets step
	for i, p := range slices.Backward(t.parts) {
		one := step{text: t.texts[i], args: p.args(g, nil), prepare: true, want: anyRows}
		switch p.name {
		case "logged":
			one.args = append(one.args, txNumber{})
		case "sets":
			sets = one
			continue
		case "counted":
			// If tokens of a set have already been counted, the set exists.
			known := true
			one.text += " RETURNING set_id, type, n"
			one.row = func(row []driver.Value) error {
				known = known && g.sums.below(row)
				return nil
			}
			steps = append(steps, one, step{later: func() step {
				if known {
					return step{}
				}
				return sets
			}})
			continue
		}
		steps = append(steps, one)
	}
	return steps
}

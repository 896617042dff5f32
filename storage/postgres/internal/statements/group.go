package statements

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// The columns of rows that share a statement.
var (
	groupTokenColumns = slices.Concat(wire.TenantColumn, wire.TokenColumns)
	bareTokenColumns  = slices.DeleteFunc(slices.Clone(groupTokenColumns), func(c sqlstore.Column) bool { return slices.Contains(bare, c.Name) })
	groupLogColumns   = slices.Concat(wire.TenantColumn, wire.LogColumns)
	groupClaimColumns = slices.Concat(wire.TenantColumn, wire.ClaimColumns)
	groupHashColumns  = slices.Concat(wire.TenantColumn, wire.HashColumns)
	groupSetColumns   = slices.Concat(wire.TenantColumn, wire.SetColumns)
	groupCountColumns = slices.Concat(wire.TenantColumn, wire.CountColumns)
	groupHoldColumns  = slices.Concat(wire.TenantColumn, wire.RecordDeleteColumns)
)

// The columns that have the same value in all rows of a uniform group. They are
// sent as scalars, so the server unpacks fewer arrays. This makes CreateToken
// 11 to 14 % faster at 8 callers, 8 to 10 % at 32 and 6 % at 128
// (BenchmarkCreate).
var (
	sharedTokenColumns = []string{"tenant_id", "type", "set_id", "containers", "expression", "key_version", "created_by", "rev"}
	sharedLogColumns   = []string{"tenant_id", "actor_id", "actor_type", "entity_type", "operation", "message", "actor_name"}
	sharedTenant       = []string{"tenant_id"}
	sharedHashes       = []string{"tenant_id", "ord"}
	// sharedByTables are sent once for all tables. A smaller message saves a fifth of
	// the bytes that CreateToken allocates at 1 caller.
	sharedByTables = []string{"tenant_id", "type", "set_id", "containers"}

	// bare lists the columns that are null in ordinary tokens.
	bare = []string{"dedup", "cvc", "cvc_expires_at", "expires_at", "modified_by", "modified_at"}
)

// Group holds the rows of changes that only create tokens. One or more changes are
// written in one statement: all of them, or nothing if there is a conflict.
type Group struct {
	tokens, hashes, logs, claims, sets, counts, held *wire.Rows

	holds   []held      // the same as held
	sums    Counts      // the same as counts
	newSets []tenantSet // the same as sets
	single  bool        // it is one change with one log entry, sent as scalars
	uniform bool
	special bool // some token is not bare
	inSteps bool // all rows are of one tenant, and each part is a statement
}

// uniform reports whether all changes are equal in the shared columns.
func uniform(changes []*storage.Change) bool {
	first := changes[0]
	if len(first.InsertTokens) == 0 {
		return false
	}
	token, entry := &first.InsertTokens[0], &first.Logs[0]
	return !slices.ContainsFunc(changes, func(c *storage.Change) bool {
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

// gather returns a group with the rows of changes.
func (s *Session) gather(changes []*storage.Change, inSteps bool) *Group {
	single := len(changes) == 1 && len(changes[0].Logs) == 1
	g := &s.groups[wire.BoolByte(single)]
	s.group = g
	g.tokens, g.logs = emptied(g.tokens, groupTokenColumns, single), emptied(g.logs, groupLogColumns, single)
	g.sets, g.counts = emptied(g.sets, groupSetColumns, single), emptied(g.counts, groupCountColumns, single)
	g.claims, g.held = emptied(g.claims, groupClaimColumns, single), emptied(g.held, groupHoldColumns, single)
	g.hashes = emptied(g.hashes, groupHashColumns, false)
	g.single, g.uniform, g.special, g.inSteps = single, !single && uniform(changes), false, inSteps
	for _, c := range changes {
		if len(c.InsertTokens) > 0 {
			g.addToken(c)
		}
		for i := range c.Logs {
			g.logs.Bytes(c.Tenant[:], sqlstore.NotNull)
			sqlstore.PutLog(g.logs, &c.Logs[i])
		}
	}
	g.addHolds(changes)
	g.addClaims(changes)
	g.addSets()
	g.sums.addTo(g.counts, s.Shard)
	return g
}

// release removes the rows.
func (g *Group) release() {
	for _, r := range [...]*wire.Rows{g.tokens, g.hashes, g.logs, g.claims, g.sets, g.counts, g.held} {
		r.Reset()
	}
	g.holds, g.sums, g.newSets = g.holds[:0], g.sums[:0], g.newSets[:0]
}

// isBare reports whether the bare columns of a token are all null.
func isBare(t *storage.Token) bool {
	return t.Dedup == storage.Hash{} && t.CVC == nil && t.CVCExpiresAt.IsZero() && t.ExpiresAt.IsZero() &&
		t.ModifiedBy.IsZero() && t.ModifiedAt.IsZero()
}

func (g *Group) addToken(c *storage.Change) {
	t := &c.InsertTokens[0]
	g.special = g.special || !isBare(t)
	g.tokens.Bytes(c.Tenant[:], sqlstore.NotNull)
	sqlstore.PutToken(g.tokens, t)
	sqlstore.EachHash(t.Hashes, func(h *storage.Hash) {
		g.hashes.Bytes(c.Tenant[:], sqlstore.NotNull)
		g.hashes.Bytes(h[:], sqlstore.NotNull)
		g.hashes.Bytes(t.Ord[:], sqlstore.NotNull)
	})
	g.sums.add(c.Tenant, t)
	if !slices.ContainsFunc(g.newSets, func(s tenantSet) bool { return s.Set == t.Set && s.tenant == c.Tenant }) {
		g.newSets = append(g.newSets, tenantSet{c.Tenant, storage.ContainerSet{Set: t.Set, Containers: t.Containers}})
	}
}

// addHolds adds the holds. Changes of one tenant are adjacent, and
// most of them have the same hold.
func (g *Group) addHolds(changes []*storage.Change) {
	for _, c := range changes {
		if c.Hold == nil {
			continue
		}
		n := len(g.holds)
		if h := (held{c.Tenant, storage.RecordDelete(*c.Hold)}); n == 0 || g.holds[n-1] != h {
			g.holds = append(g.holds, h)
			g.held.Bytes(g.holds[n].tenant[:], sqlstore.NotNull) // not h, which would be moved to the heap
			wire.PutRecordDelete(g.held, &g.holds[n].record)
		}
	}
}

// held is a hold of a change, with its tenant. Its record has the columns of a
// deletion.
type held struct {
	tenant storage.ID
	record storage.RecordDelete
}

// allHeld returns the condition that all records in the parameters after the
// first n have their revisions, and the columns of these parameters. OFFSET keeps
// the planner from turning it into a join.
func (f form) allHeld(n int, known map[string]int) (string, wire.Columns) {
	if f.single {
		return "EXISTS (SELECT FROM vault_records r WHERE r.tenant_id = " + wire.TenantColumn.Placeholders(known["tenant_id"]-1, "") +
			" AND (r.kind, r.id, r.rev) = (" + wire.RecordDeleteColumns.Placeholders(n, "") + "))", wire.RecordDeleteColumns
	}
	return "NOT EXISTS (SELECT FROM " + groupHoldColumns.From(n, true, "u") + " WHERE NOT EXISTS (SELECT FROM vault_records r" +
		" WHERE r.tenant_id = u.tenant_id AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev OFFSET 0))", groupHoldColumns
}

// addClaims adds the claims in the order of their keys, so that two groups with
// the same keys do not deadlock.
func (g *Group) addClaims(changes []*storage.Change) {
	var sorted []*storage.Change
	for _, c := range changes {
		if c.Claim != nil {
			sorted = append(sorted, c)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *storage.Change) int { return bytes.Compare(a.Claim.Key[:], b.Claim.Key[:]) })
	for _, c := range sorted {
		g.claims.Bytes(c.Tenant[:], sqlstore.NotNull)
		sqlstore.PutClaim(g.claims, &c.Claim.Claim)
	}
}

// addSets adds sets in the order in which every statement locks them.
func (g *Group) addSets() {
	slices.SortFunc(g.newSets, func(a, b tenantSet) int {
		return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.Set[:], b.Set[:]))
	})
	for i := range g.newSets {
		g.sets.Bytes(g.newSets[i].tenant[:], sqlstore.NotNull)
		wire.PutSet(g.sets, &g.newSets[i].ContainerSet)
	}
}

type tenantSet struct {
	tenant storage.ID
	storage.ContainerSet
}

// form determines the text of a group's statements. It holds the kinds of rows,
// and whether the group is a single change, has one hash, is uniform, has bare
// tokens, or is written in steps.
type form struct{ tokens, hashes, claims, holds, single, oneHash, uniform, special, inSteps bool }

func (g *Group) form() form {
	return form{
		tokens: g.tokens.N > 0, hashes: g.hashes.N > 0, claims: g.claims.N > 0, holds: len(g.holds) > 0,
		single: g.single, oneHash: g.single && g.hashes.N == 1, uniform: g.uniform, special: g.special, inSteps: g.inSteps,
	}
}

// groupPart is one of the INSERTs that write a group.
type groupPart struct {
	name, table string
	columns     wire.Columns
	shared      []string // columns sent as scalars
	conflict    string
	rows        func(*Group) *wire.Rows
	sent        wire.Columns // columns that no earlier part has sent
}

// parts returns the INSERTs that write a group of this form. The last one is
// the main statement.
func (f form) parts() []groupPart {
	var parts []groupPart
	add := func(name, table string, cs wire.Columns, shared []string, conflict string, rows func(*Group) *wire.Rows) {
		switch {
		case f.single && name != "hashed" || f.oneHash:
			shared = cs.List()
		case f.single: // all of one token
			shared = sharedHashes
		case !f.uniform:
			shared = slices.DeleteFunc(slices.Clone(shared), func(name string) bool {
				return name != "shard" && !(f.inSteps && name == "tenant_id")
			})
		}
		parts = append(parts, groupPart{name, table, cs, shared, conflict, rows, nil})
	}
	add("logged", "vault_logs", groupLogColumns, sharedLogColumns, "", func(g *Group) *wire.Rows { return g.logs })
	if !f.tokens {
		return parts
	}
	add("counted", "vault_token_counts", groupCountColumns, groupCountColumns.List(), addToCounts, func(g *Group) *wire.Rows { return g.counts })
	add("sets", "vault_container_sets", groupSetColumns, groupSetColumns.List(), " ON CONFLICT DO NOTHING", func(g *Group) *wire.Rows { return g.sets })
	if f.hashes {
		add("hashed", "vault_token_hashes", groupHashColumns, sharedTenant, "", func(g *Group) *wire.Rows { return g.hashes })
	}
	if f.claims {
		add("claimed", "vault_claims", groupClaimColumns, sharedTenant, "", func(g *Group) *wire.Rows { return g.claims })
	}
	columns := bareTokenColumns
	if f.special {
		columns = groupTokenColumns
	}
	add("created", "vault_tokens", columns, sharedTokenColumns, "", func(g *Group) *wire.Rows { return g.tokens })
	return parts
}

// groupTexts are the statements that write a group of one form.
type groupTexts struct {
	parts []groupPart
	text  string       // of all parts in one statement
	holds wire.Columns // columns of its holds
	steps []string     // of each part as a statement
}

// knownTexts are the statements of groups by form. Composing them each time would
// make CreateToken 10 % slower at 8 callers and 4 % at 32 (BenchmarkCreate).
var knownTexts [1 << 9]atomic.Pointer[groupTexts]

func textsOf(f form) *groupTexts {
	known := &knownTexts[f.index()]
	if t := known.Load(); t != nil {
		return t
	}
	t := newGroupTexts(f)
	known.Store(t)
	return t
}

// index returns a different number for each form.
func (f form) index() (n int) {
	for _, part := range [...]bool{f.tokens, f.hashes, f.claims, f.holds, f.single, f.oneHash, f.uniform, f.special, f.inSteps} {
		n = n<<1 | int(wire.BoolByte(part))
	}
	return n
}

// one returns the statement that writes the group, with its parameters in memory of
// the last ones. Any claim with the same key is a conflict here, even a dead one.
func (g *Group) one(args []any) (string, []any) {
	f := g.form()
	t := textsOf(f)
	for i := range t.parts {
		p := &t.parts[i]
		args = p.rows(g).Parameters(args, p.sent, p.shared)
	}
	return t.text, g.held.Parameters(args, t.holds, nil)
}

// insert returns the INSERT of a part. It uses the parameters of earlier parts, known
// by column, and numbers its own parameters after the first n.
func (p *groupPart) insert(f form, n *int, known map[string]int) string {
	values := make([]string, len(p.columns))
	for i, c := range p.columns {
		name := strings.Replace(c.Name, "hashes", "hash", 1) // which is the same value if there is one hash
		number := known[name]
		if number == 0 {
			*n++
			number, p.sent = *n, append(p.sent, c)
		}
		if slices.Contains(sharedByTables, name) && (f.single || f.uniform) ||
			name == "ord" && f.single || name == "hash" && f.oneHash {
			known[name] = number
		}
		values[i] = wire.Columns{c}.Unnested(number-1, p.shared...)
	}
	return "INSERT INTO " + p.table + " (" + p.columns.Names("") + ") VALUES (" + strings.Join(values, ", ") + ")" + p.conflict
}

func newGroupTexts(f form) *groupTexts {
	t := &groupTexts{parts: f.parts()}
	n, known, last := 0, map[string]int{}, len(t.parts)-1
	if f.holds && !f.inSteps { // the guard is the main statement, so the tokens come first among the others
		t.parts = slices.Concat(t.parts[last:], t.parts[:last])
	}
	if f.holds {
		last++
	}
	expressions := make([]string, last)
	for i := range t.parts {
		p := &t.parts[i]
		columns, shared := p.numbered()
		t.steps = append(t.steps, columns.Insert(p.table, 0, shared)+p.conflict)
		text := p.insert(f, &n, known)
		if i < last {
			expressions[i] = p.name + " AS (" + text + ")"
			continue
		}
		t.text = text
	}
	if f.holds {
		t.text, t.holds = f.allHeld(n, known)
		t.text = "SELECT 1 / (CASE WHEN " + t.text + " THEN 1 ELSE 0 END)"
	}
	if last > 0 {
		t.text = "WITH " + strings.Join(expressions, ",\n") + "\n" + t.text
	}
	return t
}

// numbered returns the columns of a part, with the transaction number of log
// entries.
func (p *groupPart) numbered() (all wire.Columns, shared []string) {
	if p.name != "logged" {
		return p.columns, p.shared
	}
	return slices.Concat(p.columns, numberColumn), append(slices.Clone(p.shared), "xid")
}

// several returns the parts of the group as separate statements. Holds come first,
// then the tokens, because conflicts are about tokens.
func (g *Group) several() []Step {
	t := textsOf(g.form())
	steps := make([]Step, 0, len(t.parts)+len(g.holds))
	for i := range g.holds {
		st := NewStatement(g.holds[i].tenant)
		hold := storage.Hold(g.holds[i].record)
		st.held(&hold)
		steps = append(steps, Step{text: holdQuery, args: st.Args, prepare: true, want: 1})
	}
	var sets Step
	for i, p := range slices.Backward(t.parts) {
		one := Step{text: t.steps[i], args: p.rows(g).Parameters(nil, p.columns, p.shared), prepare: true, want: anyRows}
		switch p.name {
		case "logged":
			one.args, one.Numbered = append(one.args, nil), true
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
			steps = append(steps, one, Step{later: func() Step {
				if known {
					return Step{}
				}
				return sets
			}})
			continue
		}
		steps = append(steps, one)
	}
	return steps
}

package postgres

import (
	"bytes"
	"cmp"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// maxGroupedLogs bounds the log entries of a change that shares a statement.
const maxGroupedLogs = 8

// onlyReadLogs reports whether a change may be committed unsynced.
func onlyReadLogs(c *storage.Change) bool {
	return c.Relaxed && c.Claim == nil && onlyLogs(c)
}

// onlyLogs reports whether nothing but a claim may be beside the log entries.
func onlyLogs(c *storage.Change) bool { return len(c.InsertTokens) == 0 && onlyCreates(c) }

// onlyCreates reports whether nothing but a claim and log entries may be
// beside the tokens that are created.
func onlyCreates(c *storage.Change) bool {
	return len(c.UpdateTokens) == 0 && len(c.DeleteTokens) == 0 &&
		len(c.InsertRecords) == 0 && len(c.UpdateRecords) == 0 && len(c.DeleteRecords) == 0 &&
		len(c.InsertJobs) == 0 && len(c.UpdateJobs) == 0 && len(c.DeleteJobs) == 0 && len(c.Reseal) == 0
}

func classOf(c *storage.Change) class {
	switch {
	case len(c.Logs) == 0 || len(c.Logs) > maxGroupedLogs:
		return alone
	case onlyReadLogs(c):
		return reads
	case len(c.InsertTokens) > 1 || !onlyCreates(c):
		return alone
	case c.Claim != nil && (c.Claim.Op != storage.ClaimTake || len(c.InsertTokens) == 0):
		return alone
	default:
		return creates
	}
}

// company tells which changes may share a statement with those it has: those
// of one class, of which no two want the same claim, since a statement cannot
// take one row twice.
type company struct {
	class  class
	claims map[claimKey]bool
}

type claimKey struct {
	tenant storage.ID
	key    storage.Key
}

func newCompany(p *pending) *company {
	c := &company{class: p.class}
	c.accepts(p)
	return c
}

func (c *company) accepts(p *pending) bool {
	if p.class == alone || p.class != c.class {
		return false
	}
	if p.change.Claim == nil {
		return true
	}
	key := claimKey{p.change.Tenant, p.change.Claim.Key}
	if c.claims[key] {
		return false
	}
	if c.claims == nil {
		c.claims = map[claimKey]bool{}
	}
	c.claims[key] = true
	return true
}

// groupReads are the parameters of groupReadsText.
func groupReads(batch []*pending) []any {
	var rows [][]any
	for _, p := range batch {
		rows = append(rows, tenantRows(p.change.Tenant, p.change.Logs, logRow)...)
	}
	return readColumns.arrays(rows)
}

var readColumns = slices.Concat(tenantColumn, logColumns)

// groupReadsText is the statement that logs the reads of a batch.
var groupReadsText = "WITH logged AS (INSERT INTO logs (" + readColumns.names("") + ") SELECT u.* FROM " +
	readColumns.from(0, true, "u") + ") SELECT " + unsynced

// tenantRows are rows that start with their tenant.
func tenantRows[T any](tenant storage.ID, values []T, row func(*T) []any) [][]any {
	rows := rowsOf(values, row)
	for i, r := range rows {
		rows[i] = append([]any{tenant[:]}, r...)
	}
	return rows
}

// The columns of what shares a statement: a token names the claim that it
// needs, and a log entry and a claim name their token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns, columns{{"claim", bytea}})
	groupLogColumns   = slices.Concat(tenantColumn, logColumns, columns{{"token", bytea}})
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns, columns{{"token", bytea}})
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
)

const tokenCreated = "EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.ord = u.token)"

// groupText is the statement that creates the tokens of a batch. A change
// whose token or claim is taken is passed over, with everything that belongs to
// it, and the others are not: it returns the tokens that were created.
//
// A claim that is live is seen before its token is created. One that another
// caller takes at the same moment is not, and then the whole statement fails:
// its changes are written one by one.
func groupText(withClaims, withSets bool) string {
	n := 0
	from := func(cs columns) string {
		item := cs.from(n, true, "u")
		n += len(cs)
		return item
	}
	tokens, logs := from(groupTokenColumns), from(groupLogColumns)
	n++
	shard := "$" + strconv.Itoa(n) + "::bigint"
	free, ok := "", "1"
	var claimed []string
	if withClaims {
		n++
		now := "$" + strconv.Itoa(n) + "::bigint"
		// The offset keeps the planner from making this a join with the table.
		free = ` WHERE u.claim IS NULL OR NOT EXISTS (
			SELECT FROM claims WHERE claims.tenant_id = u.tenant_id AND claims.key = u.claim AND NOT (` + dead(now) + `) OFFSET 0)`
		claimed = []string{
			"wanted AS MATERIALIZED (SELECT * FROM " + from(groupClaimColumns) + " WHERE " + tokenCreated + ")",
			"claimed AS (INSERT INTO claims (tenant_id, " + claimColumns.names("") + ") SELECT tenant_id, " +
				claimColumns.names("") + " FROM wanted ORDER BY tenant_id, key" + replaceClaim + dead(now) + " RETURNING 1)",
		}
		ok = "1 / (CASE WHEN (SELECT count(*) FROM claimed) = (SELECT count(*) FROM wanted) THEN 1 ELSE 0 END)"
	}
	own := slices.Concat(tenantColumn, tokenColumns)
	parts := []string{
		"created AS (INSERT INTO tokens (" + own.names("") + ") SELECT " + own.names("u.") + " FROM " + tokens + free +
			" ON CONFLICT DO NOTHING RETURNING tenant_id, ord, set_id, type, hashes)",
		"hashed AS (INSERT INTO token_hashes (tenant_id, hash, ord) SELECT b.tenant_id, " + oneHash + ", b.ord" +
			" FROM created b, " + eachHash + ")",
		"counted AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n)" +
			" SELECT tenant_id, set_id, type, " + shard + ", count(*) FROM created" +
			" GROUP BY tenant_id, set_id, type ORDER BY tenant_id, set_id, type" + addToCounts + ")",
		"logged AS (INSERT INTO logs (tenant_id, " + logColumns.names("") + ") SELECT u.tenant_id, " +
			logColumns.names("u.") + " FROM " + logs + " WHERE u.token IS NULL OR " + tokenCreated + ")",
	}
	parts = append(parts, claimed...)
	if withSets {
		parts = append(parts, "sets AS (INSERT INTO container_sets ("+groupSetColumns.names("")+") SELECT u.* FROM "+
			from(groupSetColumns)+` WHERE EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.set_id = u.set_id)
			ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)`)
	}
	return "WITH " + strings.Join(parts, ",\n") + "\nSELECT g.ok, c.tenant_id, c.ord FROM (SELECT " + ok +
		" AS ok) g LEFT JOIN created c ON true"
}

// The four texts, by whether there are claims and sets.
var groupTexts = map[[2]bool]string{
	{false, false}: groupText(false, false), {false, true}: groupText(false, true),
	{true, false}: groupText(true, false), {true, true}: groupText(true, true),
}

// createTogether writes a batch of creates in one statement, and returns those
// that were applied. The others have written nothing.
func (s *Store) createTogether(slot *slot, batch []*pending) (map[*pending]bool, error) {
	g := s.gather(batch)
	args := append(groupTokenColumns.arrays(g.tokens), groupLogColumns.arrays(g.logs)...)
	args = append(args, slot.shard)
	if len(g.claims) > 0 {
		args = append(args, g.now)
		args = append(args, groupClaimColumns.arrays(g.claims)...)
	}
	if len(g.sets) > 0 {
		args = append(args, groupSetColumns.arrays(g.sets)...)
	}
	created := make(map[tokenKey]bool, len(batch))
	err := slot.query(groupTexts[[2]bool{len(g.claims) > 0, len(g.sets) > 0}], args, true, func(rows *sql.Rows) error {
		var ok int64
		var tenant, ord []byte
		if err := rows.Scan(&ok, &tenant, &ord); err != nil || ord == nil {
			return err
		}
		created[tokenKey{storage.ID(tenant), storage.ID(ord)}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	done := make(map[*pending]bool, len(batch))
	for _, p := range batch {
		c := p.change
		done[p] = len(c.InsertTokens) == 0 || created[tokenKey{c.Tenant, c.InsertTokens[0].Ord}]
		if done[p] {
			s.sets.learn(c)
		}
	}
	return done, nil
}

type tokenKey struct{ tenant, ord storage.ID }

// group is the rows of a batch of creates.
type group struct {
	tokens, logs, claims, sets [][]any
	// now is the earliest moment by which a change judges claims. A claim that
	// only the later ones see dead is refused here and looked at again.
	now int64
}

func (s *Store) gather(batch []*pending) group {
	var g group
	var sets []tenantSet
	for _, p := range ordered(batch) {
		c := p.change
		var token, claim any
		if len(c.InsertTokens) > 0 {
			t := &c.InsertTokens[0]
			token = t.Ord[:]
			if c.Claim != nil {
				claim = c.Claim.Key[:]
				if now := micros(c.Now); len(g.claims) == 0 || now < g.now {
					g.now = now
				}
				row := append([]any{c.Tenant[:]}, claimRow(&c.Claim.Claim)...)
				g.claims = append(g.claims, append(row, t.Ord[:]))
			}
			g.tokens = append(g.tokens, append(append([]any{c.Tenant[:]}, tokenRow(t)...), claim))
			for _, set := range s.sets.unknown(c) {
				if key := (tenantSet{c.Tenant, set.Set}); !slices.Contains(sets, key) {
					sets = append(sets, key)
					g.sets = append(g.sets, append([]any{c.Tenant[:]}, setRow(&set)...))
				}
			}
		}
		for _, row := range tenantRows(c.Tenant, c.Logs, logRow) {
			g.logs = append(g.logs, append(row, token))
		}
	}
	return g
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

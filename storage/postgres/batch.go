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

// company tells which changes may share a statement with those it has.
//
// A change with a claim has two guards, and a statement that took the claim but
// not the token would have to be undone with everything in it. So of those
// changes no two may want the same key.
type company struct {
	class class
	taken map[uniqueKey]bool // of changes with a claim
}

type uniqueKey struct {
	tenant storage.ID
	what   byte
	key    string
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
	t := &p.change.InsertTokens[0]
	keys := []uniqueKey{
		{p.change.Tenant, 'c', string(p.change.Claim.Key[:])},
		{p.change.Tenant, 'i', t.ID},
		{p.change.Tenant, 'd', string(t.Dedup[:])},
	}
	if t.Dedup == (storage.Hash{}) {
		keys = keys[:2]
	}
	for _, k := range keys {
		if c.taken[k] {
			return false
		}
	}
	if c.taken == nil {
		c.taken = map[uniqueKey]bool{}
	}
	for _, k := range keys {
		c.taken[k] = true
	}
	return true
}

// groupReads is the statement that logs the reads of a batch.
func groupReads(batch []*pending) (string, []any) {
	var rows [][]any
	for _, p := range batch {
		rows = append(rows, tenantRows(p.change.Tenant, p.change.Logs, logRow)...)
	}
	cs := slices.Concat(tenantColumn, logColumns)
	return groupReadsText, cs.arrays(rows)
}

var groupReadsText = "WITH logged AS (INSERT INTO logs (" + slices.Concat(tenantColumn, logColumns).names("") +
	") SELECT u.* FROM " + slices.Concat(tenantColumn, logColumns).from(0, true, "u") + ") SELECT " + unsynced

// tenantRows are rows that start with their tenant.
func tenantRows[T any](tenant storage.ID, values []T, row func(*T) []any) [][]any {
	rows := rowsOf(values, row)
	for i, r := range rows {
		rows[i] = append([]any{tenant[:]}, r...)
	}
	return rows
}

// The columns of what shares a statement: a token names the claim that it
// needs, a log entry the token, and a claim the unique keys of its token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns, columns{{"claim", bytea}})
	groupLogColumns   = slices.Concat(tenantColumn, logColumns, columns{{"token", bytea}})
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns,
		columns{{"token_ord", bytea}, {"token_id", text}, {"token_dedup", bytea}})
)

// groupText is the statement that creates the tokens of a batch. A change
// whose token or claim is taken is passed over, with everything that belongs to
// it, and the others are not: it returns the tokens that were created.
func groupText(withClaims, withSets bool) string {
	n := 0
	from := func(cs columns) string {
		item := cs.from(n, true, "u")
		n += len(cs)
		return item
	}
	parts := []string{"given AS MATERIALIZED (SELECT * FROM " + from(groupTokenColumns) + ")"}
	logged := "logged AS (INSERT INTO logs (tenant_id, " + logColumns.names("") + ") SELECT u.tenant_id, " +
		logColumns.names("u.") + " FROM " + from(groupLogColumns) + ` WHERE u.token IS NULL
		OR EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.ord = u.token))`
	n++
	shard := "$" + strconv.Itoa(n) + "::bigint"
	claimed, ok := "", "1"
	if withClaims {
		n++
		parts = append(parts, "claimed AS ("+groupClaims(from, "$"+strconv.Itoa(n)+"::bigint")+")")
		claimed = ` WHERE g.claim IS NULL
			OR EXISTS (SELECT FROM claimed k WHERE k.tenant_id = g.tenant_id AND k.key = g.claim)`
		ok = `1 / (CASE WHEN EXISTS (SELECT FROM claimed k
			JOIN given g ON g.tenant_id = k.tenant_id AND g.claim = k.key
			LEFT JOIN created c ON c.tenant_id = g.tenant_id AND c.ord = g.ord
			WHERE c.ord IS NULL) THEN 0 ELSE 1 END)`
	}
	own := slices.Concat(tenantColumn, tokenColumns)
	parts = append(parts,
		"created AS (INSERT INTO tokens ("+own.names("")+") SELECT "+own.names("g.")+" FROM given g"+claimed+
			" ON CONFLICT DO NOTHING RETURNING tenant_id, ord, set_id, type, hashes)",
		"hashed AS (INSERT INTO token_hashes (tenant_id, hash, ord) SELECT b.tenant_id, "+oneHash+", b.ord"+
			" FROM created b, "+eachHash+")",
		"counted AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n)"+
			" SELECT tenant_id, set_id, type, "+shard+", count(*) FROM created"+
			" GROUP BY tenant_id, set_id, type ORDER BY tenant_id, set_id, type"+addToCounts+")",
		logged)
	if withSets {
		parts = append(parts, "sets AS (INSERT INTO container_sets ("+groupSetColumns.names("")+") SELECT u.* FROM "+
			from(groupSetColumns)+` WHERE EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.set_id = u.set_id)
			ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)`)
	}
	return "WITH " + strings.Join(parts, ",\n") + "\nSELECT g.ok, c.tenant_id, c.ord FROM (SELECT " + ok +
		" AS ok) g LEFT JOIN created c ON true"
}

// groupClaims takes the claims of a batch, but for those whose token is taken.
func groupClaims(from func(columns) string, now string) string {
	return "INSERT INTO claims (tenant_id, " + claimColumns.names("") + ") SELECT u.tenant_id, " +
		claimColumns.names("u.") + " FROM " + from(groupClaimColumns) + `
		WHERE NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = u.tenant_id AND t.id = u.token_id)
		AND NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = u.tenant_id AND t.dedup = u.token_dedup)
		AND NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = u.tenant_id AND t.ord = u.token_ord)
		ORDER BY u.tenant_id, u.key` + replaceClaim + dead(now) + " RETURNING tenant_id, key"
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
	err := slot.query(groupTexts[[2]bool{len(g.claims) > 0, len(g.sets) > 0}], args, func(rows *sql.Rows) error {
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
				g.claims = append(g.claims, append(row, t.Ord[:], t.ID, hashOrNull(t.Dedup)))
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

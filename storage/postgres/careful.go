package postgres

import (
	"context"
	"database/sql/driver"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

const tokenCreated = "EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.ord = u.token)"

// carefulText returns the statement that creates the tokens of a batch. It
// skips a change whose token or claim is taken, with everything that belongs to
// it, and writes the others. It returns the tokens that it created.
//
// The statement checks for a live claim before it creates the token. It does
// not see a claim that another caller takes at the same time. Then the whole
// statement fails, and its changes are written one by one.
func carefulText(f form) string {
	n := 0
	from := func(cs columns) string {
		item := cs.from(n, true, "u")
		n += len(cs)
		return item
	}
	tokens, logs := from(carefulTokenColumns), from(carefulLogColumns)
	n++
	shard := "$" + strconv.Itoa(n) + "::bigint"
	free, ok := "", "1"
	var claimed []string
	if f.claims {
		n++
		now := "$" + strconv.Itoa(n) + "::bigint"
		// OFFSET keeps the planner from turning this into a join with the
		// table.
		free = ` WHERE u.claim IS NULL OR NOT EXISTS (
			SELECT FROM vault_claims WHERE vault_claims.tenant_id = u.tenant_id AND vault_claims.key = u.claim AND NOT (` + dead(now) + `) OFFSET 0)`
		claimed = []string{
			"wanted AS MATERIALIZED (SELECT * FROM " + from(carefulClaimColumns) + " WHERE " + tokenCreated + ")",
			"claimed AS (INSERT INTO vault_claims (tenant_id, " + claimColumns.names("") + ") SELECT tenant_id, " +
				claimColumns.names("") + " FROM wanted ORDER BY key" + replaceClaim + dead(now) + " RETURNING 1)",
		}
		ok = "1 / (CASE WHEN (SELECT count(*) FROM claimed) = (SELECT count(*) FROM wanted) THEN 1 ELSE 0 END)"
	}
	sets := from(groupSetColumns)
	if f.holds {
		ok += " / (CASE WHEN " + allHeld(n) + " THEN 1 ELSE 0 END)"
	}
	own := slices.Concat(tenantColumn, tokenColumns)
	parts := []string{
		"created AS (INSERT INTO vault_tokens (" + own.names("") + ") SELECT " + own.names("u.") + " FROM " + tokens + free +
			" ON CONFLICT DO NOTHING RETURNING tenant_id, ord, set_id, type, hashes)",
		"hashed AS (INSERT INTO vault_token_hashes (tenant_id, hash, ord) SELECT b.tenant_id, " + oneHash + ", b.ord" +
			" FROM created b, " + splitHashes + ")",
		"counted AS (INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n)" +
			" SELECT tenant_id, set_id, type, " + shard + ", count(*) FROM created" +
			" GROUP BY tenant_id, set_id, type ORDER BY tenant_id, set_id, type" + addToCounts + ")",
		"logged AS (INSERT INTO vault_logs (tenant_id, " + logColumns.names("") + ") SELECT u.tenant_id, " +
			logColumns.names("u.") + " FROM " + logs + " WHERE u.token IS NULL OR " + tokenCreated + ")",
	}
	parts = append(parts, claimed...)
	parts = append(parts, "sets AS (INSERT INTO vault_container_sets ("+groupSetColumns.names("")+") SELECT u.* FROM "+
		sets+` WHERE EXISTS (SELECT FROM created c WHERE c.tenant_id = u.tenant_id AND c.set_id = u.set_id)
		ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)`)
	return "WITH " + strings.Join(parts, ",\n") + "\nSELECT g.ok, c.tenant_id, c.ord FROM (SELECT " + ok +
		" AS ok) g LEFT JOIN created c ON true"
}

// createCarefully writes a batch of creates in one statement and returns the
// changes that it skipped.
func (g *group) createCarefully(slot *slot, batch []*pending) (passed []*pending, err error) {
	args := g.logs.values(g.tokens.values(nil))
	args = append(args, slot.shard)
	if g.claims.n > 0 {
		args = append(args, g.now)
		args = g.claims.values(args)
	}
	args = g.sets.values(args)
	args = g.holdArgs(args)
	done := make(map[tokenKey]bool, len(batch))
	text := carefulTexts.of(g.form(), carefulText)
	err = slot.query(context.Background(), text, args, true, func(row []driver.Value) error {
		tenant, _ := row[1].([]byte)
		ord, created := row[2].([]byte)
		if created { // otherwise nothing was created
			done[tokenKey{storage.ID(tenant), storage.ID(ord)}] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range batch {
		c := p.change
		if len(c.InsertTokens) > 0 && !done[tokenKey{c.Tenant, c.InsertTokens[0].Ord}] {
			passed = append(passed, p)
		}
	}
	return passed, nil
}

type tokenKey struct{ tenant, ord storage.ID }

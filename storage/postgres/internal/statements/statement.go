// Package statements composes the SQL that applies a change: as one statement, or as
// several if tables are distributed.
package statements

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Statement builds one SQL statement that applies a change. It has common table
// expressions, each of which writes to one table, and guards that must hold at
// the end. A guard that does not hold raises an error, which undoes the whole
// statement. The tenant is always the first parameter.
//
// The text depends only on which parts the change has, and on which of them
// have more than one row. So there are few texts, each prepared once.
type Statement struct {
	parts  []part
	guards []string
	Args   []any
	Final  string // an expression to select along with the guards; may be empty
	// AnyDriver means that the parameters work with any driver. Otherwise they
	// are in the binary format of lib/pq.
	AnyDriver bool
	// joins means that the statement looks for several rows at once. The best
	// plan then depends on the size of the tables, so the statement is planned
	// each time. Other statements find their rows by unique key.
	joins bool

	Composer Composer
	// If tables are distributed, only parts that change existing rows can be in
	// one statement, which returns them in found. Parts that add rows are steps
	// before it, or after it if they need the found rows.
	steps, after []Step
	numbered     bool // the last parameter is the transaction number
	found        found
	results      []string      // queries for the found rows
	keys         []wire.Lookup // keys of updated records
	rekeys       bool          // keys replace the found ones
	tenant       storage.ID
}

// part is a common table expression.
type part struct{ name, body string }

// NewStatement returns an empty statement for rows of a tenant.
func NewStatement(tenant storage.ID) *Statement {
	return &Statement{Args: []any{tenant[:]}, tenant: tenant, Composer: AsOne{}}
}

// number adds a parameter and returns its placeholder.
func (s *Statement) number(v int64) string {
	if s.AnyDriver {
		s.Args = append(s.Args, v)
	} else {
		s.Args = append(s.Args, binary.BigEndian.AppendUint64(nil, uint64(v)))
	}
	return "$" + strconv.Itoa(len(s.Args)) + "::bigint"
}

// rows adds rows as parameters and returns a FROM item u with these rows.
func (s *Statement) rows(r *wire.Rows) string {
	from := r.Columns.From(len(s.Args), r.Many(), "u")
	s.values(r)
	return from
}

// values adds rows as parameters.
func (s *Statement) values(r *wire.Rows) {
	if s.AnyDriver {
		s.Args = r.ForAnyDriver(s.Args)
	} else {
		s.Args = r.Values(s.Args)
	}
}

// find adds rows as parameters for a lookup in a table under an alias. It
// returns a FROM item and a condition on the table that leaves the planner no
// choice but to use the key. For a single row, the condition repeats the key as
// parameters. For several rows, see [Statement.At].
func (s *Statement) find(r *wire.Rows, table, alias string, key ...string) (from, found string) {
	first := len(s.Args)
	from = s.rows(r)
	if r.Many() {
		s.joins = true
		return from, s.At(table, alias, from, key...)
	}
	value := func(name string) string {
		i := slices.IndexFunc(r.Columns, func(c sqlstore.Column) bool { return c.Name == name })
		return "$" + strconv.Itoa(first+i+1) + "::" + wire.TypeOf(r.Columns[i].Kind)
	}
	if table == "vault_tokens" {
		return from, alias + ".ctid = (SELECT x.row_id FROM (" + rowIDOf(table, "ord", value("ord")) + ") x WHERE x.ord = " + value("ord") + ") AND " + s.tenantIs(alias)
	}
	found = alias + ".tenant_id = $1"
	for _, name := range key {
		found += " AND " + alias + "." + name + " = " + value(name)
	}
	return from, found
}

// At returns the condition that a row of a table, under an alias, has the key
// of a row of the FROM item u.
//
// A join would have the same result. But if a planner underestimates the table
// or the list, it may join by a part of the key. It then scans all rows of the
// tenant for each row of the list. Here a subquery looks up each whole key, and
// the rows are read by ctid. OFFSET keeps the planner from merging the subquery
// into a join.
func (s *Statement) At(table, alias, from string, key ...string) string {
	var same strings.Builder
	for _, column := range key {
		same.WriteString(" AND k." + column + " = u." + column)
	}
	lookup, match := "SELECT k.ctid AS row_id FROM "+table+" k WHERE k.tenant_id = $1"+same.String()+" OFFSET 0", ""
	if table == "vault_tokens" || table == "vault_logs" {
		lookup, match = rowIDOf(table, key[0], "u."+key[0]), " WHERE x."+key[0]+" = u."+key[0]
	}
	return alias + ".ctid = ANY (ARRAY(SELECT x.row_id FROM " + from + " CROSS JOIN LATERAL (" + lookup + ") x" + match + ")) AND " + s.tenantIs(alias)
}

// rowIDOf selects the key and the ctid, as row_id, of the tenant's first row at or
// after a value of a unique key.
func rowIDOf(table, key, value string) string {
	return FirstFrom("k.ctid AS row_id, k."+key, table, key, value)
}

// FirstFrom selects columns of the tenant's first row k at or after a value of a
// unique key. The caller compares the key. See [sqlstore.InOrder] for the reason.
func FirstFrom(columns, table, key, value string) string {
	return "SELECT " + columns + ", " + sqlstore.InOrder + " FROM " + table + " k WHERE k.tenant_id = $1::bytea" +
		" AND k." + key + " >= " + value + " ORDER BY k." + key + " LIMIT 1"
}

// tenantIs returns the condition that a row read by its ctid belongs to the
// tenant.
func (s *Statement) tenantIs(alias string) string {
	return s.Composer.TenantIs(alias+".tenant_id", "$1")
}

// with adds a common table expression.
func (s *Statement) with(name, body string) {
	s.parts = append(s.parts, part{name, body})
}

// expect adds the guard that an expression has exactly n rows. The server
// checks guards, and so runs their expressions, in the order in which they are
// added.
func (s *Statement) expect(name string, n int) {
	s.guards = append(s.guards, "(SELECT count(*) FROM "+name+") = "+s.number(int64(n)))
}

// main returns the statement that has all parts, and the function for its rows. A division by zero is the shortest way to raise an
// error without a function on the server.
func (s *Statement) main() (text string, row func([]driver.Value) error) {
	var list []string
	if len(s.guards) > 0 {
		list = append(list, "1 / (CASE WHEN "+strings.Join(s.guards, "\nAND ")+" THEN 1 ELSE 0 END)")
	}
	if s.Final != "" {
		list = append(list, s.Final)
	}
	parts, proper, row := s.Composer.selects(s, list)
	if len(parts) == 0 {
		return proper, row
	}
	expressions := make([]string, len(parts))
	for i, p := range parts {
		expressions[i] = p.name + " AS (" + p.body + ")"
	}
	return "WITH " + strings.Join(expressions, ",\n") + "\n" + proper, row
}

// Unsynced is an expression. Selecting it makes the commit of the statement return before the
// write-ahead log is on disk. It applies only to this transaction, so it works
// behind a pooler and costs no round trip.
const Unsynced = "set_config('synchronous_commit', 'off', true)"

// Apply adds all parts of a change. shard selects the counters to add to.
func (s *Statement) Apply(c *storage.Change, shard int64) {
	if len(c.InsertTokens) > 0 {
		s.insertTokens(c)
	}
	if len(c.InsertRecords) > 0 {
		s.insertRecords(c.InsertRecords)
	}
	if len(c.UpdateTokens) > 0 {
		s.updateTokens(c.UpdateTokens)
	}
	if len(c.DeleteTokens) > 0 {
		s.deleteTokens(c.DeleteTokens)
	}
	s.countTokens(c, shard)
	if sets := setsOf(c); len(sets) > 0 {
		s.Composer.insertSets(s, sets, shard)
	}
	if len(c.UpdateRecords) > 0 {
		s.updateRecords(c.UpdateRecords)
	}
	if len(c.DeleteRecords) > 0 {
		s.deleteRecords(c.DeleteRecords)
	}
	s.jobs(c)
	s.reseal(c.Reseal)
	if c.Claim != nil {
		s.claim(c)
	}
	if len(c.Logs) > 0 {
		s.Composer.insertLogs(s, c.Logs)
	}
}

// dead returns the condition that a claim no longer blocks others at the given
// time.
func dead(now string) string {
	return "COALESCE(CASE WHEN vault_claims.answer IS NULL THEN vault_claims.lease_until ELSE vault_claims.expires_at END, " +
		now + ") <= " + now
}

const replaceClaim = ` ON CONFLICT (tenant_id, key) DO UPDATE SET owner = EXCLUDED.owner,
	lease_until = EXCLUDED.lease_until, expires_at = EXCLUDED.expires_at,
	key_version = EXCLUDED.key_version, answer = EXCLUDED.answer WHERE `

func (s *Statement) claim(c *storage.Change) {
	row := wire.NewRow(wire.ClaimColumns)
	sqlstore.PutClaim(row, &c.Claim.Claim)
	own := "c.tenant_id = $1 AND c.key = u.key AND c.owner = u.owner AND c.answer IS NULL RETURNING 1"
	switch c.Claim.Op {
	case storage.ClaimFinish:
		s.with("claimed", "UPDATE vault_claims c SET expires_at = u.expires_at, key_version = u.key_version, answer = u.answer FROM "+
			s.rows(row)+" WHERE "+own)
	case storage.ClaimDrop:
		s.with("claimed", "DELETE FROM vault_claims c USING "+s.rows(row)+" WHERE "+own)
	default:
		s.write("claimed", 1, func(s *Statement) string {
			return s.Insert("vault_claims", row) + replaceClaim + dead(s.number(c.Now.UnixMicro()))
		})
		return
	}
	s.expect("claimed", 1)
}

// splitHashes joins a relation b to the elements of its column of concatenated
// hashes; oneHash is one of them.
const (
	splitHashes = "generate_series(0, octet_length(b.hashes) / 16 - 1) AS k"
	oneHash     = "substring(b.hashes FROM 16 * k + 1 FOR 16)"
)

func (s *Statement) insertTokens(c *storage.Change) {
	hashes := wire.NewRows(wire.HashColumns, len(c.InsertTokens))
	for i := range c.InsertTokens {
		wire.PutHashes(hashes, &c.InsertTokens[i])
	}
	// Check the ids of the new tokens before a later part frees an id.
	s.write("created", len(c.InsertTokens), func(s *Statement) string {
		return s.Insert("vault_tokens", wire.RowsOf(wire.TokenColumns, c.InsertTokens, sqlstore.PutToken))
	})
	if hashes.N > 0 {
		s.write("hashed", anyRows, func(s *Statement) string { return s.Insert("vault_token_hashes", hashes) })
	}
}

// updateTokens locks the rows in the order of their keys, as all statements do,
// so that two statements cannot deadlock. A locked row stays at its place. If
// another transaction has changed it before, its revision is not the same anymore.
func (s *Statement) updateTokens(updates []storage.TokenUpdate) {
	from, found := s.find(wire.RowsOf(wire.TokenUpdateColumns, updates, wire.PutTokenUpdate), "vault_tokens", "t", "ord")
	s.with("before", "SELECT t.ctid AS row_id, t.type, t.set_id AS old_set_id, t.hashes AS old_hashes, "+wire.TokenUpdateColumns.Names("u.")+
		" FROM "+from+
		" JOIN vault_tokens t ON "+found+" AND t.ord = u.ord AND t.rev = u.old_rev ORDER BY t.ord FOR UPDATE OF t")
	var set strings.Builder
	for _, c := range wire.TokenReplaced {
		value := "b." + c.Name
		if c.Name == "hashes" {
			value = "COALESCE(b.hashes, b.old_hashes)"
		}
		set.WriteString(c.Name + " = " + value + ", ")
	}
	s.with("updated", "UPDATE vault_tokens t SET "+set.String()+"rev = b.old_rev + 1 FROM before b"+
		" WHERE t.ctid = b.row_id AND "+s.tenantIs("t")+" RETURNING 1")
	s.expect("updated", len(updates))
	if !slices.ContainsFunc(updates, func(u storage.TokenUpdate) bool { return !u.KeepHashes }) {
		return
	}
	s.with("new_hashes", "SELECT "+oneHash+" AS hash, b.ord FROM before b, "+splitHashes)
	s.with("old_hashes", "SELECT "+oneHash+" AS hash, b.ord FROM"+
		" (SELECT ord, old_hashes AS hashes FROM before WHERE hashes IS NOT NULL) b, "+splitHashes)
	s.with("stale_hashes", "SELECT * FROM old_hashes EXCEPT SELECT * FROM new_hashes")
	s.unhash("stale_hashes")
	if hashes := wire.NewHashes(updates); hashes.N > 0 {
		s.write("rehashed", anyRows, func(s *Statement) string {
			return s.Insert("vault_token_hashes", hashes) + " ON CONFLICT DO NOTHING" // keep the hashes that stay
		})
	}
}

// unhash deletes the hashes that an expression lists.
func (s *Statement) unhash(list string) {
	s.with("unhashed_"+list, "DELETE FROM vault_token_hashes h WHERE "+s.At("vault_token_hashes", "h", list+" u", "hash", "ord"))
}

func (s *Statement) deleteTokens(deletes []storage.TokenDelete) {
	from, found := s.find(wire.RowsOf(wire.TokenDeleteColumns, deletes, wire.PutTokenDelete), "vault_tokens", "t", "ord")
	s.with("going", "SELECT t.ctid AS row_id, t.ord, t.type, t.set_id, t.hashes FROM "+from+
		" JOIN vault_tokens t ON "+found+" AND t.ord = u.ord AND t.rev = u.old_rev ORDER BY t.ord FOR UPDATE OF t")
	s.with("gone", "DELETE FROM vault_tokens t USING going b WHERE t.ctid = b.row_id AND "+s.tenantIs("t")+" RETURNING 1")
	s.expect("gone", len(deletes))
	s.with("going_hashes", "SELECT "+oneHash+" AS hash, b.ord FROM going b, "+splitHashes)
	s.unhash("going_hashes")
}

const addToCounts = " ON CONFLICT (tenant_id, set_id, type, shard) DO UPDATE SET n = vault_token_counts.n + EXCLUDED.n"

// Hold adds the guard that a record has its revision. lock may lock the record
// until the transaction ends.
func (s *Statement) Hold(h *storage.Hold, lock string) {
	first := len(s.Args)
	s.held(h)
	s.with("held", fmt.Sprintf("SELECT 1 FROM vault_records r WHERE r.tenant_id = $1"+
		" AND r.kind = $%d::text AND r.id = $%d::bytea AND r.rev = $%d::bigint", first+1, first+2, first+3)+lock)
	s.expect("held", 1)
}

// held adds the hold of a change as parameters.
func (s *Statement) held(h *storage.Hold) {
	row := wire.NewRow(wire.RecordDeleteColumns)
	wire.PutRecordDelete(row, &storage.RecordDelete{Kind: h.Kind, ID: h.ID, Rev: h.Rev})
	s.values(row)
}

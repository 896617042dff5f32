package statements

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Conn is a connection for queries: one of the vault's, or one in a
// transaction of the application.
type Conn interface {
	// Start begins a statement with parameters that the connection understands.
	Start(tenant storage.ID) *Statement
	// Query runs a statement and calls row for each of its rows. It prepares
	// the statement if prepare is set and the connection allows it.
	Query(ctx context.Context, text string, args []any, prepare bool, row func([]driver.Value) error) error
}

// Diagnose finds the guard that made the server reject a change. It returns
// [storage.ErrLate] if the record that the change holds has another revision, a
// [*storage.Conflict], or nil if all guards hold now. It checks the claim first,
// because a request that is repeated after it was answered also conflicts with its
// own token.
func Diagnose(ctx context.Context, on Conn, c *storage.Change) (refusal, err error) {
	if held, err := holds(ctx, on, c); err != nil || !held {
		return storage.ErrLate, err
	}
	if conflict, err := diagnoseClaim(ctx, on, c); conflict != nil || err != nil {
		return conflict, err
	}
	if conflict := Twice(c); conflict != nil {
		return conflict, nil
	}
	for _, check := range checksOf(c) {
		if check.rows.N == 0 {
			continue
		}
		row, err := check.run(ctx, on, c.Tenant)
		if err != nil {
			return nil, err
		}
		if row.Valid {
			return &storage.Conflict{Kind: check.kind, Index: int(row.Int64)}, nil
		}
	}
	return nil, nil
}

const holdQuery = "SELECT 1 FROM vault_records WHERE tenant_id = $1 AND kind = $2 AND id = $3 AND rev = $4::bigint"

// holds reports whether the record that a change holds has the expected
// revision.
func holds(ctx context.Context, on Conn, c *storage.Change) (held bool, err error) {
	h := c.Hold
	if h == nil {
		return true, nil
	}
	st := on.Start(c.Tenant)
	st.held(h)
	err = on.Query(ctx, holdQuery, st.Args, false, func([]driver.Value) error {
		held = true
		return nil
	})
	return held, err
}

const claimQuery = "SELECT owner, lease_until, expires_at, answer IS NOT NULL FROM vault_claims WHERE tenant_id = $1 AND key = $2"

func diagnoseClaim(ctx context.Context, on Conn, c *storage.Change) (conflict, err error) {
	if c.Claim == nil {
		return nil, nil
	}
	var found *storage.Claim
	err = on.Query(ctx, claimQuery, []any{c.Tenant[:], c.Claim.Key[:]}, true, func(row []driver.Value) error {
		found = &storage.Claim{LeaseUntil: timeOf(row[1]), ExpiresAt: timeOf(row[2])}
		owner, _ := row[0].([]byte)
		copy(found.Owner[:], owner)
		if answered, _ := row[3].(bool); answered {
			found.Answer = []byte{}
		}
		return nil
	})
	switch takes := c.Claim.Op == storage.ClaimTake; {
	case err != nil:
		return nil, err
	case takes && found != nil && found.Live(c.Now):
		return &storage.Conflict{Kind: storage.ClaimTaken}, nil
	case !takes && (found == nil || found.Owner != c.Claim.Owner || found.Answer != nil):
		return &storage.Conflict{Kind: storage.ClaimLost}, nil
	}
	return nil, nil
}

// timeOf returns the time in a column, or the zero time for NULL.
func timeOf(column driver.Value) time.Time {
	micros, ok := column.(int64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// check finds the first of some rows for which a condition on the database
// holds. The condition refers to the row as u.
type check struct {
	kind      storage.ConflictKind
	rows      *wire.Rows // as arrays
	condition string
}

// checkOf returns a check of all values.
func checkOf[T any](kind storage.ConflictKind, cs wire.Columns, values []T, put func(sqlstore.Put, *T), condition string) check {
	r := wire.NewRows(append(cs[:len(cs):len(cs)], wire.ParseColumns("i:bigint")...), len(values))
	for i := range values {
		put(r, &values[i])
		r.Int(int64(i), sqlstore.NotNull)
	}
	return check{kind, r, condition}
}

func (k *check) run(ctx context.Context, on Conn, tenant storage.ID) (first sql.NullInt64, err error) {
	s := on.Start(tenant)
	query := "SELECT min(u.i) FROM " + s.rows(k.rows) + " WHERE " + k.condition
	err = on.Query(ctx, query, s.Args, false, func(row []driver.Value) error {
		first.Int64, first.Valid = row[0].(int64)
		return nil
	})
	return first, err
}

// The conditions of checks. OFFSET keeps the planner from turning them into joins.
var (
	tokenTaken  = tokenWhere("id", "") + " OR " + tokenWhere("ord", "")
	dedupTaken  = tokenWhere("dedup", " AND t.ord <> u.ord")
	tokenStale  = "NOT " + tokenWhere("ord", " AND t.rev = u.old_rev")
	recordTaken = "EXISTS (SELECT 1 FROM vault_records r WHERE r.tenant_id = $1 AND r.kind = u.kind AND r.id = u.id OFFSET 0)"
	keyTaken    = "EXISTS (SELECT 1 FROM vault_lookups l WHERE l.hash IN (u.key_hash, u.alt_hash)" +
		" AND NOT (l.tenant_id = $1 AND l.kind = u.kind AND l.id = u.id) OFFSET 0)"
	recordStale = "NOT EXISTS (SELECT 1 FROM vault_records r WHERE r.tenant_id = $1 AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev OFFSET 0)"
	jobStale    = "NOT EXISTS (SELECT 1 FROM vault_jobs j WHERE j.tenant_id = $1 AND j.id = u.id AND j.owner IS NOT DISTINCT FROM u.owner OFFSET 0)"
)

// tokenWhere returns the condition that the tenant has a token t with the key of a
// row u, for which another condition holds.
func tokenWhere(key, condition string) string {
	token := FirstFrom("k.ord, k.id, k.dedup, k.rev", "vault_tokens", key, "u."+key)
	return "EXISTS (SELECT 1 FROM (" + token + ") t WHERE t." + key + " = u." + key + condition + ")"
}

// checksOf returns the guards of a change, except its claim.
func checksOf(c *storage.Change) []check {
	return []check{
		checkOf(storage.TokenIDTaken, wire.TokenColumns, c.InsertTokens, sqlstore.PutToken, tokenTaken),
		checkOf(storage.DuplicateTaken, wire.TokenColumns, c.InsertTokens, sqlstore.PutToken, dedupTaken),
		checkOf(storage.TokenStale, wire.TokenUpdateColumns, c.UpdateTokens, wire.PutTokenUpdate, tokenStale),
		checkOf(storage.DuplicateTaken, wire.TokenUpdateColumns, c.UpdateTokens, wire.PutTokenUpdate, dedupTaken),
		checkOf(storage.TokenStale, wire.TokenDeleteColumns, c.DeleteTokens, wire.PutTokenDelete, tokenStale),
		checkOf(storage.KeyTaken, wire.RecordColumns, c.InsertRecords, sqlstore.PutRecord, recordTaken+" OR "+keyTaken),
		checkOf(storage.RecordStale, wire.RecordColumns, c.UpdateRecords, wire.PutRecordUpdate, recordStale),
		checkOf(storage.KeyTaken, wire.RecordColumns, c.UpdateRecords, wire.PutRecordUpdate, keyTaken),
		checkOf(storage.RecordStale, wire.RecordDeleteColumns, c.DeleteRecords, wire.PutRecordDelete, recordStale),
		checkOf(storage.JobStale, wire.JobUpdateColumns, c.UpdateJobs, wire.PutJobUpdate, jobStale),
		checkOf(storage.JobStale, wire.JobDeleteColumns, c.DeleteJobs, wire.PutJobDelete, jobStale),
	}
}

// Twice finds a row of a change that conflicts with another row of it.
func Twice(c *storage.Change) *storage.Conflict {
	seen := map[string]struct{}{}
	for _, part := range []struct {
		kind storage.ConflictKind
		n    int
		keys func(i int) []string // each starts with the letter of its key space
	}{
		{storage.TokenIDTaken, len(c.InsertTokens), func(i int) []string {
			return []string{"t" + string(c.InsertTokens[i].Ord[:]), "i" + c.InsertTokens[i].ID}
		}},
		{storage.DuplicateTaken, len(c.InsertTokens), func(i int) []string { return dedupKey(&c.InsertTokens[i]) }},
		{storage.TokenStale, len(c.UpdateTokens), func(i int) []string { return []string{"t" + string(c.UpdateTokens[i].Token.Ord[:])} }},
		{storage.DuplicateTaken, len(c.UpdateTokens), func(i int) []string { return dedupKey(&c.UpdateTokens[i].Token) }},
		{storage.TokenStale, len(c.DeleteTokens), func(i int) []string { return []string{"t" + string(c.DeleteTokens[i].Ord[:])} }},
		{storage.KeyTaken, len(c.InsertRecords), func(i int) []string {
			r := &c.InsertRecords[i]
			return append(lookupKeys(r), recordKey(r.Kind, r.ID))
		}},
		{storage.RecordStale, len(c.UpdateRecords), func(i int) []string {
			r := &c.UpdateRecords[i].Record
			return []string{recordKey(r.Kind, r.ID)}
		}},
		{storage.KeyTaken, len(c.UpdateRecords), func(i int) []string { return lookupKeys(&c.UpdateRecords[i].Record) }},
		{storage.RecordStale, len(c.DeleteRecords), func(i int) []string {
			return []string{recordKey(c.DeleteRecords[i].Kind, c.DeleteRecords[i].ID)}
		}},
		{storage.JobStale, len(c.UpdateJobs), func(i int) []string { return []string{"j" + string(c.UpdateJobs[i].Job.ID[:])} }},
		{storage.JobStale, len(c.DeleteJobs), func(i int) []string { return []string{"j" + string(c.DeleteJobs[i].ID[:])} }},
	} {
		for i := range part.n {
			for _, key := range part.keys(i) {
				if _, again := seen[key]; again {
					return &storage.Conflict{Kind: part.kind, Index: i}
				}
				seen[key] = struct{}{}
			}
		}
	}
	return nil
}

func dedupKey(t *storage.Token) []string {
	if t.Dedup == (storage.Hash{}) {
		return nil
	}
	return []string{"d" + string(t.Dedup[:])}
}

func recordKey(kind string, id storage.ID) string { return "r" + kind + "\x00" + string(id[:]) }

// lookupKeys returns the keys that find a record.
func lookupKeys(r *storage.Record) (keys []string) {
	for _, l := range wire.LookupsOf(nil, r) {
		keys = append(keys, "k"+string(l.Key[:]))
	}
	return keys
}

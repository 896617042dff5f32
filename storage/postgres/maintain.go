package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// leaseText returns a statement that leases jobs to an owner. It skips rows that a
// concurrent lease has locked. ARRAY evaluates the subquery once. IN would become a
// join, which might run the subquery again for each row and exceed the limit. A
// column of [sqlstore.InOrder] would not allow FOR UPDATE, but a join does.
func (s *Store) leaseText() string {
	return `UPDATE vault_jobs SET owner = $2::bytea, lease_until = $4::bigint
	WHERE ` + s.layout.Traits().TenantIs("tenant_id", "$1::bytea") + ` AND ctid = ANY(ARRAY(
		SELECT j.ctid FROM vault_jobs j, ` + sqlstore.InOrder + `
		WHERE j.tenant_id = $1::bytea AND NOT j.dead AND j.run_at <= $3::bigint AND length(j.id) = 16 AND (j.lease_until IS NULL OR j.lease_until <= $3::bigint)
		ORDER BY j.run_at, j.id LIMIT $5::bigint FOR UPDATE OF j SKIP LOCKED))
	RETURNING ` + sqlstore.JobColumns
}

// LeaseJobs implements [storage.Queue].
func (s *Store) LeaseJobs(ctx context.Context, l storage.Lease) ([]storage.Job, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var jobs []storage.Job
	job := storage.Job{Tenant: l.Tenant}
	err := s.layout.Run(ctx, l.Tenant, func() error {
		return sqlstore.Each(ctx, s.reader, s.leaseText(),
			[]any{l.Tenant[:], l.Owner[:], l.Now.UnixMicro(), sqlstore.Micros(l.Until), int64(max(l.Limit, 0))},
			sqlstore.JobDest(&job), func() { jobs = append(jobs, job) })
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(jobs, func(a, b storage.Job) int {
		if byTime := a.RunAt.Compare(b.RunAt); byTime != 0 {
			return byTime
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return jobs, nil
}

// purged lists the tables with rows of tenants, and the keys of these rows.
// Lookups come first, so that API keys stop working at once, and records last.
var purged = []struct{ table, key string }{
	{"vault_lookups", "hash"},
	{"vault_jobs", "id"},
	{"vault_claims", "key"},
	{"vault_tokens", "ord"},
	{"vault_token_hashes", "hash, ord"},
	{"vault_token_counts", "set_id, type, shard"},
	{"vault_container_sets", "set_id, shard"},
	{"vault_logs", "id"},
	{"vault_log_counts", "entity_type, day"},
	{"vault_log_marks", "tenant_id"},
	{"vault_log_leaves", "first"},
	{"vault_log_nodes", "level, n"},
	{"vault_log_trees", "tenant_id"},
	{"vault_records", "kind, id"},
}

// purgePlace is where Purge goes on: at a table, after the key of a row.
type purgePlace struct {
	table int // in purged
	last  []any
}

// places remembers where the deletion of a tenant's rows goes on. Deleted rows stay in
// the indexes until the server vacuums them, so starting at the first key would visit
// all rows that were deleted before.
type places[P any] struct {
	mu sync.Mutex
	at bounded.Map[storage.ID, P]
}

// maxPlaces limits the remembered tenants.
const maxPlaces = 1000

// take returns the place for a tenant and forgets it.
func (p *places[P]) take(tenant storage.ID) P {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at[tenant]
	delete(p.at, tenant)
	return at
}

func (p *places[P]) keep(tenant storage.ID, at P) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.Put(maxPlaces, tenant, at)
}

// Purge implements [storage.Writer]. After the last table it starts again if it did
// not start at the first one, because rows may have been written since.
func (s *Store) Purge(ctx context.Context, tenant storage.ID, limit int) (more bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	at := s.purges.take(tenant)
	again := at.table > 0 || at.last != nil
	for limit > 0 {
		n, last, err := s.purge(ctx, tenant, at, limit)
		if err != nil {
			s.purges.keep(tenant, at)
			return false, err
		}
		if at.last = last; n < limit {
			at = purgePlace{table: at.table + 1}
		}
		if limit -= n; at.table < len(purged) {
			continue
		}
		if !again {
			return false, nil
		}
		at, again = purgePlace{}, false
	}
	s.purges.keep(tenant, at)
	return true, nil
}

// purge deletes up to limit rows of a tenant from a table. It returns how many it
// found and the key of the last one. It reads the rows by ctid instead of joining the
// table to itself.
func (s *Store) purge(ctx context.Context, tenant storage.ID, at purgePlace, limit int) (n int, last []any, err error) {
	table, key := purged[at.table].table, purged[at.table].key
	if table == citus.Everywhere {
		n, err := s.purgeLookups(ctx, tenant, int64(limit))
		return int(n), nil, err
	}
	columns, after := strings.Split(key, ", "), ""
	for i := range at.last {
		after += fmt.Sprintf(", $%d", i+3)
	}
	if after != "" {
		after = " AND (" + key + ") > (" + after[2:] + ")"
	}
	text := "WITH due AS (SELECT k.ctid AS address, " + key + " FROM " + table + " k, " + sqlstore.InOrder + " WHERE k.tenant_id = $1" + after +
		" ORDER BY " + key + " LIMIT $2), gone AS (DELETE FROM " + table + " WHERE ctid = ANY (ARRAY(SELECT address FROM due)) AND " +
		s.layout.Traits().TenantIs("tenant_id", "$1") + ") SELECT (SELECT count(*) FROM due), " + key + " FROM due ORDER BY " +
		strings.Join(columns, " DESC, ") + " DESC LIMIT 1"
	last = make([]any, len(columns))
	dest := []any{&n}
	for i := range last {
		dest = append(dest, &last[i])
	}
	err = s.maintain(ctx, func(on execer) error {
		n = 0
		err := on.QueryRowContext(ctx, s.schema.in(text), append([]any{tenant[:], limit}, at.last...)...).Scan(dest...)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return n, last, err
}

// purgeLookups reads the keys before it deletes them. No index has them in order, and
// on Citus every server has a copy of the table, each with different ctids.
func (s *Store) purgeLookups(ctx context.Context, tenant storage.ID, limit int64) (int64, error) {
	found, err := s.keysByTenant(ctx, "SELECT tenant_id, hash FROM vault_lookups, "+sqlstore.InOrder+
		" WHERE tenant_id = $1 LIMIT $2::bigint", tenant[:], limit)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return s.delete(ctx, "DELETE FROM vault_lookups WHERE hash = ANY ($2::bytea[]) AND "+statements.AsOne{}.TenantIs("tenant_id", "$1"),
		tenant[:], found[0].keys.Value())
}

// swept describes the rows that Sweep deletes. These are answered claims that
// have expired, other claims that have expired and whose lease has ended, and
// dead jobs whose RunAt has passed. The first parameter is the time.
var swept = []struct{ table, key, where string }{
	{"vault_claims", "key", "expires_at <= $1::bigint AND (answer IS NOT NULL OR lease_until IS NULL OR lease_until <= $1::bigint)"},
	{"vault_jobs", "id", "dead AND run_at <= $1::bigint"},
}

// Sweep implements [storage.Writer]. Deleted rows stay in the files until the
// server vacuums them, which the vault has no safe way to speed up.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	if err := s.mergeApart(ctx); err != nil {
		return false, err
	}
	at, left := now.UnixMicro(), false
	for _, p := range swept {
		due, err := s.keysByTenant(ctx, "SELECT tenant_id, "+p.key+" FROM "+p.table+" WHERE "+p.where+
			" ORDER BY tenant_id, "+p.key+" LIMIT $2::bigint", at, int64(max(limit, 0)))
		if err != nil {
			return false, err
		}
		for _, d := range due {
			// The subquery looks up each key, and the rows are then read by
			// ctid.
			_, err = s.delete(ctx, "DELETE FROM "+p.table+" WHERE ctid = ANY (ARRAY(SELECT x.address FROM pg_catalog.unnest($3::bytea[]) AS u(key)"+
				" CROSS JOIN LATERAL (SELECT k.ctid AS address FROM "+p.table+" k WHERE k.tenant_id = $2::bytea AND k."+p.key+" = u.key AND "+
				p.where+" FOR UPDATE SKIP LOCKED) x)) AND "+s.layout.Traits().TenantIs("tenant_id", "$2::bytea"), at, d.tenant[:], d.keys.Value())
			if err != nil {
				return false, err
			}
		}
		more, err := s.exists(ctx, "SELECT EXISTS (SELECT 1 FROM "+p.table+" WHERE "+p.where+")", at)
		if err != nil {
			return false, err
		}
		left = left || more
	}
	return left, nil
}

// tenantKeys holds keys of rows of one tenant.
type tenantKeys struct {
	tenant storage.ID
	keys   wire.Array
}

// keysByTenant runs a query that returns tenants and keys, ordered by tenant.
func (s *Store) keysByTenant(ctx context.Context, query string, args ...any) (found []tenantKeys, err error) {
	err = s.each(ctx, func() { found = nil }, func(rows *sql.Rows) error {
		var tenant, key []byte
		if err := rows.Scan(&tenant, &key); err != nil {
			return err
		}
		if n := len(found); n == 0 || found[n-1].tenant != storage.ID(tenant) {
			found = append(found, tenantKeys{storage.ID(tenant), wire.NewArray(sqlstore.Blob, 1)})
		}
		found[len(found)-1].keys.Bytes(key)
		return nil
	}, query, args...)
	return found, err
}

// ready returns an error if a call must not start.
func (s *Store) ready(ctx context.Context) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.queue.closed {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// delete runs a DELETE that is safe to repeat.
func (s *Store) delete(ctx context.Context, query string, args ...any) (deleted int64, err error) {
	err = s.maintain(ctx, func(on execer) error {
		result, err := on.ExecContext(ctx, s.schema.in(query), args...)
		if err != nil {
			return err
		}
		deleted, err = result.RowsAffected()
		return err
	})
	return deleted, err
}

// execer is a connection, or a transaction on it.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// maintain runs do, which must be safe to repeat, with a limit on the wait for
// locks.
func (s *Store) maintain(ctx context.Context, do func(execer) error) error {
	return link.Failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		if s.dialect.Prepared {
			return do(conn)
		}
		return s.transact(ctx, conn, func(tx *sql.Tx) error { return do(tx) })
	}))
}

// transact runs do in a transaction. Behind a pooler it sets the timeouts for the
// transaction.
func (s *Store) transact(ctx context.Context, conn *sql.Conn, do func(*sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if !s.dialect.Prepared {
		limits := citus.SetLockTimeout("LOCAL ", maxLockTimeout) + "; SET LOCAL statement_timeout = " + milliseconds(s.dialect.Outage.Limit)
		if _, err := tx.ExecContext(ctx, limits); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// inTx runs do, which must be safe to repeat, in a transaction for a tenant.
func (s *Store) inTx(ctx context.Context, tenant storage.ID, do func(*sql.Tx) error) error {
	return s.layout.Run(ctx, tenant, func() error {
		return link.Failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error { return s.transact(ctx, conn, do) }))
	})
}

func (s *Store) exists(ctx context.Context, query string, args ...any) (yes bool, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, s.schema.in(query), args...).Scan(&yes)
	})
	return yes, link.Failed(err)
}

package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// maxPurge limits the rows of one Purge, because all other writes wait for it.
const maxPurge = 1000

// LeaseJobs implements [storage.Queue].
func (s *Store) LeaseJobs(ctx context.Context, l storage.Lease) ([]storage.Job, error) {
	var jobs []storage.Job
	lease := func(w *writer) error {
		jobs = jobs[:0]
		j := storage.Job{Tenant: l.Tenant}
		now := l.Now.UnixMicro()
		dest := sqlstore.JobDest(&j)
		return w.query(stmtLeaseJobs, func(row direct.Row) error {
			err := sqlstore.Scan(row, dest)
			jobs = append(jobs, j)
			return err
		}, l.Owner[:], l.Until.UnixMicro(), l.Tenant[:], now, now, max(l.Limit, 0))
	}
	if err := s.writes.do(ctx, call{inside: lease, rows: max(l.Limit, 1)}); err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b storage.Job) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return jobs, nil
}

// purged lists the tables in the order in which Purge empties them, with the
// keys of their rows. Lookups come first, so that API keys stop working at
// once, and records come last. Rows that lists need come after the rows that
// they list.
var purged = []struct{ table, key string }{
	{"vault_lookups", "hash"},
	{"vault_jobs", "rowid"},
	{"vault_claims", "rowid"},
	{"vault_tokens", "rowid"},
	{"vault_token_hashes", "hash, ord"},
	{"vault_token_counts", "set_id, type, shard"},
	{"vault_container_sets", "set_id"},
	{"vault_logs", "entity_type, id"},
	{"vault_log_counts", "entity_type, day, shard"},
	{"vault_log_leaves", "first"},
	{"vault_log_nodes", "level, n"},
	{"vault_log_trees", "tenant_id"},
	{"vault_records", "rowid"},
}

// Purge implements [storage.Writer].
func (s *Store) Purge(ctx context.Context, tenant storage.ID, limit int) (bool, error) {
	limit = min(max(limit, 0), maxPurge)
	more := false
	purge := func(w *writer) (err error) {
		more, err = w.purge(tenant, limit)
		return err
	}
	err := s.writes.do(ctx, call{inside: purge, alone: true})
	return more, err
}

func (w *writer) purge(tenant storage.ID, limit int) (more bool, err error) {
	for key := range w.knownSets {
		if key.tenant == tenant {
			delete(w.knownSets, key)
		}
	}
	for _, p := range purged {
		if limit > 0 {
			n, err := w.purgeTable(p.table, p.key, tenant, limit)
			if err != nil {
				return false, describe("purging", err)
			}
			limit -= n
		}
		if limit > 0 {
			continue
		}
		var left bool
		query := fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM %s WHERE tenant_id = ?)`, p.table)
		if err := w.conn.QueryRowContext(background, query, tenant[:]).Scan(&left); err != nil {
			return false, describe("purging", err)
		}
		if left {
			return true, nil
		}
	}
	return false, nil
}

// purgeTable deletes up to limit of the tenant's rows in a table and returns
// how many it deleted.
func (w *writer) purgeTable(table, key string, tenant storage.ID, limit int) (int, error) {
	where := fmt.Sprintf(`tenant_id = ? AND (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE tenant_id = ? LIMIT ?)`, table, key)
	if table == "vault_tokens" {
		return w.purgeTokens(where, tenant, limit)
	}
	result, err := w.conn.ExecContext(background, `DELETE FROM `+table+` WHERE `+where, tenant[:], tenant[:], limit)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// purgeTokens deletes tokens and keeps the counts correct. It writes the counts
// at once, because the same purge may delete them.
func (w *writer) purgeTokens(where string, tenant storage.ID, limit int) (int, error) {
	rows, err := w.conn.QueryContext(background, `DELETE FROM vault_tokens WHERE `+where+` RETURNING set_id, type`,
		tenant[:], tenant[:], limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var set []byte
		var kind string
		if err := rows.Scan(&set, &kind); err != nil {
			return 0, err
		}
		var of storage.Hash
		copy(of[:], set) // a row that was tampered with may have a shorter set
		w.counts.addToken(tenant, of, kind, -1)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	err = w.writeCounts()
	w.counts.all = w.counts.all[:0]
	return n, err
}

// Sweep implements [storage.Writer]. Deleted bytes are overwritten in the
// database at once, except where SQLite had moved a row to another page before; only
// VACUUM overwrites these. A sweep also empties the write-ahead log, which holds older
// pages. If a long read or a checkpoint of another process prevents that, the
// next sweep does it.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (bool, error) {
	more := false
	sweep := func(w *writer) (err error) {
		more, err = w.sweep(now.UnixMicro(), max(limit, 0))
		return err
	}
	if err := s.writes.do(ctx, call{inside: sweep, rows: 2 * max(limit, 1)}); err != nil {
		return false, err
	}
	return more, s.writes.do(ctx, call{outside: (*writer).truncate, alone: true})
}

func (w *writer) sweep(at int64, limit int) (more bool, err error) {
	for _, kind := range []struct {
		remove, left statementID
		args         []any
	}{
		{stmtSweepClaims, stmtClaimsDue, []any{at, at}},
		{stmtSweepJobs, stmtJobsOver, []any{at}},
	} {
		if _, err := w.exec(kind.remove, append(kind.args[:len(kind.args):len(kind.args)], limit)...); err != nil {
			return false, err
		}
		left, err := w.found(kind.left, nil, kind.args...)
		if err != nil {
			return false, err
		}
		more = more || left
	}
	return more, nil
}

package sqlstore

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
)

// Count implements [storage.Counter].
func (s *Store) Count(ctx context.Context, f storage.CountFilter) (storage.Counts, error) {
	var n storage.Counts
	if err := s.ready(ctx); err != nil {
		return n, err
	}
	ctx = s.of(ctx, f.Tenant)
	var err error
	if n.Tokens, err = s.countTokens(ctx, f); err != nil {
		return n, err
	}
	if n.Logs, err = s.newLogList(storage.LogFilter{Tenant: f.Tenant}).total(ctx); err != nil {
		return n, err
	}
	n.Records, err = s.count(ctx, `SELECT count(*) FROM (SELECT 1 FROM vault_records r
		WHERE r.tenant_id = ? AND r.kind = ? AND (r.expires_at IS NULL OR r.expires_at > ?) LIMIT ?) f`,
		s.dialect.ID(f.Tenant), f.Kind, f.Now.UnixMicro(), f.UpTo)
	if err != nil {
		return n, err
	}
	return n, s.countJobs(ctx, f, &n)
}

// countTokens subtracts expired tokens that are not deleted yet from the
// counters. They are few.
func (s *Store) countTokens(ctx context.Context, f storage.CountFilter) ([]storage.TokenCount, error) {
	var all []storage.TokenCount
	var c storage.TokenCount
	tenant := s.dialect.ID(f.Tenant)
	err := s.each(ctx, `SELECT q.set_id, q.type, CAST(SUM(q.n) AS bigint) FROM (
			SELECT c.set_id, c.type, c.n FROM vault_token_counts c WHERE c.tenant_id = ?
			UNION ALL SELECT t.set_id, t.type, -1 FROM vault_tokens t WHERE t.tenant_id = ? AND t.expires_at <= ?
		) q GROUP BY q.set_id, q.type HAVING SUM(q.n) > 0`, []any{tenant, tenant, f.Now.UnixMicro()},
		[]Field{{&c.Set}, {&c.Type}, {&c.N}}, func() { all = append(all, c) })
	return all, err
}

// countJobs looks at no more than f.UpTo jobs.
func (s *Store) countJobs(ctx context.Context, f storage.CountFilter, n *storage.Counts) error {
	var state, count int
	return s.each(ctx, `SELECT f.state, count(*) FROM (
			SELECT CASE WHEN j.dead THEN 0 WHEN j.lease_until > ? THEN 1 ELSE 2 END AS state
			FROM vault_jobs j WHERE j.tenant_id = ? LIMIT ?
		) f GROUP BY f.state`, []any{f.Now.UnixMicro(), s.dialect.ID(f.Tenant), f.UpTo},
		[]Field{{&state}, {&count}}, func() {
			*[]*int{&n.Dead, &n.Running, &n.Waiting}[state] = count
		})
}

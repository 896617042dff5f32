package sqlstore

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

var claimColumns = ClaimRow.Without("key").Names("")

const claimByKey = `vault_claims WHERE tenant_id = ? AND key = ?`

// Claim implements [storage.Queue].
func (s *Store) Claim(ctx context.Context, tenant storage.ID, key storage.Key) (storage.Claim, error) {
	c := storage.Claim{Key: key}
	dest := []Field{{&c.Owner}, {&c.LeaseUntil}, {&c.ExpiresAt}, {&c.KeyVersion}, {&c.Answer}}
	ok, err := s.one(s.of(ctx, tenant), pointClaim, into(dest), s.dialect.ID(tenant), key[:])
	switch {
	case err != nil:
		return storage.Claim{}, err
	case !ok:
		return storage.Claim{}, storage.ErrNotFound
	}
	return c, nil
}

// dueTenantsQuery steps from tenant to tenant through the index of live jobs,
// so its cost depends on the number of tenants, not of jobs. A subquery that is a value
// keeps their order: PostgreSQL may turn EXISTS into a join, in any order.
const dueTenantsQuery = `
WITH RECURSIVE waiting(tenant) AS (
	SELECT * FROM (SELECT j.tenant_id FROM vault_jobs j WHERE j.tenant_id > ? AND NOT j.dead ORDER BY j.tenant_id LIMIT 1) AS first
	UNION ALL
	SELECT (SELECT j.tenant_id FROM vault_jobs j WHERE j.tenant_id > waiting.tenant AND NOT j.dead ORDER BY j.tenant_id LIMIT 1)
	FROM waiting WHERE waiting.tenant IS NOT NULL
)
SELECT waiting.tenant FROM waiting WHERE waiting.tenant IS NOT NULL AND (
	SELECT 1 FROM vault_jobs j WHERE j.tenant_id = waiting.tenant AND NOT j.dead AND j.run_at <= ?
	AND (j.lease_until IS NULL OR j.lease_until <= ?) LIMIT 1
) = 1 LIMIT ?`

// DueTenants implements [storage.Queue].
func (s *Store) DueTenants(ctx context.Context, now time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	at := now.UnixMicro()
	return s.tenants(ctx, cmp.Or(s.dialect.DueTenants, dueTenantsQuery), s.dialect.ID(after), at, at, max(limit, 0))
}

// tenants returns the tenants that a query finds, whose first argument is the tenant
// before them. It leaves out what is no id, so that a row with it does not hide tenants.
func (s *Store) tenants(ctx context.Context, query string, args ...any) (tenants []storage.ID, err error) {
	for more := true; more && err == nil; {
		var last []byte
		more = false
		err = s.each(ctx, query, args, []Field{{&last}}, func() {
			if args[0], more = last, true; len(last) == len(storage.ID{}) {
				tenants = append(tenants, storage.ID(last))
			}
		})
		more = more && len(tenants) == 0
	}
	return tenants, err
}

// SealedRows implements [storage.Queue].
func (s *Store) SealedRows(ctx context.Context, f storage.SealedFilter) ([]storage.Sealed, error) {
	sealed := storage.Sealed{Kind: f.Kind}
	key := Field{&sealed.Key}
	var after any = f.After[:]
	query := `SELECT key, key_version, answer FROM vault_claims` + s.inOrder() + `
		WHERE tenant_id = ? AND answer IS NOT NULL AND length(key) = 32 AND key > ? ORDER BY key LIMIT ?`
	if f.Kind == storage.SealedJobs {
		id := len(storage.ID{})
		key, after = Field{(*storage.ID)(sealed.Key[:id])}, s.dialect.ID(storage.ID(f.After[:id]))
		query = `SELECT id, key_version, payload FROM vault_jobs` + s.inOrder() + `
			WHERE tenant_id = ? AND length(payload) > 0 AND length(id) = 16 AND id > ? ORDER BY id LIMIT ?`
	}
	found, err := readRows(s.of(ctx, f.Tenant), s, nil, s.piece, clause{query, []any{s.dialect.ID(f.Tenant), after, max(f.Limit, 0)}},
		&sealed, []Field{key, {&sealed.KeyVersion}, {&sealed.Body}},
		func(r *storage.Sealed) int { return len(r.Body) })
	return found, inPieces(err)
}

// Jobs implements [storage.Queue].
func (s *Store) Jobs(ctx context.Context, f storage.JobFilter) ([]storage.Job, error) {
	query := `SELECT ` + JobColumns + ` FROM vault_jobs WHERE tenant_id = ? AND dead = ? AND length(id) = 16`
	args := []any{s.dialect.ID(f.Tenant), f.Dead}
	if !f.ID.IsZero() {
		query, args = query+` AND id = ?`, append(args, s.dialect.ID(f.ID))
	}
	if !f.Before.IsZero() {
		query, args = query+` AND id < ?`, append(args, s.dialect.ID(f.Before))
	}
	job := storage.Job{Tenant: f.Tenant}
	found, err := readRows(s.of(ctx, f.Tenant), s, nil, s.piece, clause{query + ` ORDER BY id DESC LIMIT ?`, append(args, max(f.Limit, 0))},
		&job, JobDest(&job), func(j *storage.Job) int { return len(j.Payload) })
	return found, inPieces(err)
}

// JobColumns are the columns that JobDest scans. Backends use them to lease
// jobs.
var JobColumns = JobRow.Names("")

// JobDest returns the destinations for scanning JobColumns.
func JobDest(j *storage.Job) []Field {
	return []Field{
		{&j.ID}, {&j.Kind}, {&j.RunAt}, {&j.Attempts}, {&j.Dead},
		{&j.Owner}, {&j.LeaseUntil}, {&j.KeyVersion}, {&j.Payload},
	}
}

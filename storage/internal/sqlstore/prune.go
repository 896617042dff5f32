package sqlstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// logTenantsQuery steps from tenant to tenant through the key of logs, so its
// cost depends on the number of tenants, not of entries. For each tenant it
// looks for one entry below the id. A scalar subquery, unlike EXISTS, never
// becomes a join, which could read all old entries.
const logTenantsQuery = `
WITH RECURSIVE logged(tenant) AS (
	SELECT * FROM (SELECT l.tenant_id FROM vault_logs l WHERE l.tenant_id > ? ORDER BY l.tenant_id LIMIT 1) AS first
	UNION ALL
	SELECT (SELECT l.tenant_id FROM vault_logs l WHERE l.tenant_id > logged.tenant ORDER BY l.tenant_id LIMIT 1)
	FROM logged WHERE logged.tenant IS NOT NULL
)
SELECT logged.tenant FROM logged WHERE logged.tenant IS NOT NULL AND (
	SELECT 1 FROM vault_logs l WHERE l.tenant_id = logged.tenant AND l.id < ? AND l.created_at < ? ORDER BY l.id LIMIT 1
) = 1 LIMIT ?`

// countedTenantsQuery does the same through log_counts, from type to type of
// each tenant, if the key of logs has the type before the id.
const countedTenantsQuery = `
WITH RECURSIVE logged(tenant) AS (
	SELECT * FROM (SELECT c.tenant_id FROM vault_log_counts c WHERE c.tenant_id > ? ORDER BY c.tenant_id LIMIT 1) AS first
	UNION ALL
	SELECT (SELECT c.tenant_id FROM vault_log_counts c WHERE c.tenant_id > logged.tenant ORDER BY c.tenant_id LIMIT 1)
	FROM logged WHERE logged.tenant IS NOT NULL
)
SELECT logged.tenant FROM logged WHERE logged.tenant IS NOT NULL AND (
	WITH RECURSIVE types(name) AS (
		SELECT MIN(c.entity_type) FROM vault_log_counts c WHERE c.tenant_id = logged.tenant
		UNION ALL
		SELECT (SELECT MIN(c.entity_type) FROM vault_log_counts c WHERE c.tenant_id = logged.tenant AND c.entity_type > types.name)
		FROM types WHERE types.name IS NOT NULL
	)
	SELECT 1 FROM types CROSS JOIN vault_logs l
	WHERE l.tenant_id = logged.tenant AND l.entity_type = types.name AND l.id < ? AND l.created_at < ? LIMIT 1
) = 1 LIMIT ?`

// LogTenants implements [storage.Pruner].
func (s *Store) LogTenants(ctx context.Context, before time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	query := logTenantsQuery
	switch {
	case s.dialect.LogTenants != "":
		query = s.dialect.LogTenants
	case s.dialect.LogsByType:
		query = countedTenantsQuery
	}
	first, at := LogsBefore(before)
	return s.tenants(ctx, query, s.dialect.ID(after), s.dialect.ID(first), at, max(limit, 0))
}

// LogsBefore returns the bounds of the entries that were created before a time.
// Their ids are lower than first, and their created_at is lower than micros.
func LogsBefore(t time.Time) (first storage.ID, micros int64) {
	micros = max(microsUp(t), 0)
	return idOfMillis((micros + perMilli - 1) / perMilli), micros
}

const (
	perMilli = int64(time.Millisecond / time.Microsecond)
	// maxMillis is the latest time that a UUIDv7 can hold.
	maxMillis = int64(1)<<48 - 1
)

// idOfMillis returns an id that is lower than every UUIDv7 of a time, and
// higher than every UUIDv7 before it.
func idOfMillis(millis int64) (id storage.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(min(millis, maxMillis))<<16)
	return id
}

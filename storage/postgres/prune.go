package postgres

import (
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// deleteLogsText deletes entries in the order of their key. What another node
// is deleting is passed over, so that nodes which sweep at once share the work.
// The array is made once; as part of a join, which IN would become, the entries
// could be looked for again for each row, and be more than the limit.
const deleteLogsText = `DELETE FROM logs WHERE tenant_id = $1 AND id = ANY(ARRAY(
	SELECT id FROM logs WHERE tenant_id = $1 AND id < $2 AND created_at < $3::bigint
	ORDER BY id LIMIT $4::bigint FOR UPDATE SKIP LOCKED))`

// DeleteLogs implements [storage.Writer]. The entries stay in the files until
// the server vacuums them.
func (s *Store) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	first, at := sqlstore.LogsBefore(before)
	n, err := s.delete(ctx, deleteLogsText, tenant[:], first[:], at, int64(max(limit, 0)))
	return int(n), err
}

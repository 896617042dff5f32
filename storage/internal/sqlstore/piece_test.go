package sqlstore

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// If rows are large, a sweep or a rotation gets as many as fit in memory, and
// the rest with the next call.
func TestLargeRowsComeInPieces(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const rows, size = 5, 1000
	s.piece = 2*size + 1
	for i := range rows {
		for _, insert := range []string{
			`INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, expires_at, created_at, rev, body)
				VALUES (?, ?, hex(randomblob(9)), 'token', zeroblob(16), '/', zeroblob(32), zeroblob(16), x'', 1, 1, 1, 1, zeroblob(?))`,
			`INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_version, expires_at, created_at, rev, body)
				VALUES (?, 'session', ?, '', '', 1, 1, 1, 1, zeroblob(?))`,
			`INSERT INTO vault_jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload) VALUES (?, ?, 'react', 1, 0, 0, 1, zeroblob(?))`,
		} {
			id := storage.ID{byte(i + 1)}
			must.Get(s.db.ExecContext(t.Context(), insert, someTenant[:], id[:], size))(t)
		}
	}
	due, err := s.Expired(t.Context(), storage.ExpiredFilter{Now: time.Now(), Limit: rows})
	if err != nil || len(due.Tokens) != 3 || len(due.Records) != 3 {
		t.Errorf("%d tokens and %d records of half a piece each, %v, want 3 of each", len(due.Tokens), len(due.Records), err)
	}
	jobs := must.Get(s.SealedRows(t.Context(), storage.SealedFilter{Tenant: someTenant, Kind: storage.SealedJobs, Limit: rows}))(t)
	must.Same(t, "jobs of half a piece each", 3, len(jobs))
}

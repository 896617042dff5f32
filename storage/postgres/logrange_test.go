package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestLogsBesideABrokenRow reads a page of entries although a row between them cannot be
// read.
func TestLogsBesideABrokenRow(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := storage.ID{15: 1}
	c := &storage.Change{Tenant: tenant}
	var refs []storage.LogRef
	for i := range 100 {
		l := storage.Log{ID: storage.ID{0: 1, 14: byte(i), 15: 1}, CreatedAt: time.UnixMicro(1), EntityType: "token", EntityID: "x", Operation: "create"}
		c.Logs = append(c.Logs, l)
		refs = append(refs, storage.LogRef{ID: l.ID, Seq: storage.AnySeq})
	}
	must.Do(t, s.Write(t.Context(), c))
	const broken = 50
	id := slices.Clone(refs[broken].ID[:])
	refs = slices.Delete(refs, broken, broken+1)
	for _, change := range []string{`actor_id = '\x07'`, `actor_id = NULL, id = substring(id FOR 15)`} {
		must.Get(db.ExecContext(t.Context(), `UPDATE vault_logs SET `+change+` WHERE id = $1`, id))(t)
		found := must.Get(s.LogsByRef(t.Context(), tenant, refs))(t)
		must.Same(t, "entries beside a row with "+change, len(refs), len(found))
	}
}

package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// TestLargeTokenIsLoggedWhenItsBodyIsRead runs the statement for readings on a
// token whose body it leaves out. If the token were deleted before its body is
// read, it would not have been read, so there must be no log entry yet.
func TestLargeTokenIsLoggedWhenItsBodyIsRead(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(t.Context(), Vaults.URL(t)))(t)
	defer s.Close()
	tenant, now := storage.ID{1}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	large := storage.Token{Ord: storage.ID{2}, ID: "large", Type: "token", Body: bytes.Repeat([]byte("b"), statements.MaxSharedBody+1), CreatedAt: now, Rev: 1}
	must.Do(t, s.Write(t.Context(), &storage.Change{Tenant: tenant, Now: now, InsertTokens: []storage.Token{large}}))
	asked := storage.Reading{Tenant: tenant, ID: large.ID, Entry: storage.Log{ID: storage.ID{3}, CreatedAt: now}}
	entries := func() int {
		_, total, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: tenant, Limit: 1})
		must.Do(t, err)
		return total
	}
	p := &pending{class: readings, reading: &reading{Reading: statements.Reading{Reading: asked}, ctx: t.Context()}}
	if err := s.queue.do(t.Context(), p); err != nil || !p.reading.Found || p.reading.Token.Body != nil || entries() != 0 {
		t.Errorf("%v, found %t, %d bytes, %d entries", err, p.reading.Found, len(p.reading.Token.Body), entries())
	}
	if token, err := s.ReadToken(t.Context(), asked); err != nil || !bytes.Equal(token.Body, large.Body) || entries() != 1 {
		t.Errorf("%v, %d bytes, %d entries", err, len(token.Body), entries())
	}
}

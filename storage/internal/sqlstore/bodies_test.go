package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestPageIsReadWholeIfTokensChange reads a page with a large body. In some cases the
// read of the body finds another state of the token than the query of the page did. If
// that happens every time, the page is read with one query at last.
func TestPageIsReadWholeIfTokensChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, new string // in the statement that reads the token with the large body
		queries  int
	}{
		"the same":            {"", "", 1},
		"changed":             {"t.rev", "t.rev + 1", 2},
		"deleted":             {"WHERE", "WHERE 1 = 2 AND", 2},
		"another with its id": {"t.ord,", "zeroblob(16),", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOfBodies(t)
			s.texts[pointTokenByID] = strings.Replace(s.texts[pointTokenByID], tc.old, tc.new, 1)
			queries := 0
			page := must.Get(s.pageTokens(t.Context(), &storage.TokenFilter{Tenant: someTenant, MaxBytes: 21}, func(columns string) string {
				queries++
				return byOrd(columns)
			}, nil))(t)
			got := map[string]int{}
			for i := range page {
				got[page[i].ID] = len(page[i].Body)
			}
			must.Same(t, "sizes of bodies", map[string]int{"small": 10, "large": 11}, got)
			must.Same(t, "queries", tc.queries, queries)
		})
	}
}

// TestLargeBodiesWaitForTheirTurn reads a page while others read as many large bodies
// as are allowed at once.
func TestLargeBodiesWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	s := storeOfBodies(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.bodies <- struct{}{}
	cancel()
	must.Fail(s.large(ctx, &storage.Token{Tenant: someTenant, ID: "large"}))(t, "canceled while others read", context.Canceled)
	s.dialect.Outage.Until = func(context.Context) time.Time { return time.Now() }
	if _, err := s.large(t.Context(), &storage.Token{Tenant: someTenant, ID: "large"}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("no turn in time: %v", err)
	}
	s.dialect.Outage.Until = func(context.Context) (never time.Time) { return never }
	<-s.bodies
	found, err := s.large(t.Context(), &storage.Token{Tenant: someTenant, ID: "large"})
	if err != nil || len(found) != 1 || len(s.bodies) != 0 {
		t.Errorf("%d tokens, %v; %d places still taken", len(found), err, len(s.bodies))
	}
	if _, err := s.pageTokens(t.Context(), &storage.TokenFilter{Tenant: someTenant, MaxBytes: 20}, byOrd, nil); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("more bytes than allowed: %v", err)
	}
}

// byOrd is the query of a page of all tokens.
func byOrd(columns string) string {
	return `SELECT ` + columns + ` FROM vault_tokens t ORDER BY t.ord`
}

// storeOfBodies returns a Store with a small and a large body.
func storeOfBodies(t *testing.T) *Store {
	t.Helper()
	s := newStore(t)
	s.dialect.SmallBody, s.dialect.Prepared = 10, false
	for id, size := range map[string]int{"small": 10, "large": 11} {
		must.Get(s.db.ExecContext(t.Context(),
			`INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, created_at, rev, body)
				VALUES (?, randomblob(16), ?, 'token', zeroblob(16), '/', zeroblob(32), zeroblob(16), x'', 1, 1, 1, zeroblob(?))`, someTenant[:], id, size))(t)
	}
	return s
}

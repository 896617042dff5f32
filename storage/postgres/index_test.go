package postgres_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestEveryIndexIsRead runs lists by each condition and the statements that change many
// rows, and looks for an index that none of them has read. Such an index costs every
// create, and is of no use unless it keeps its entries unique.
func TestEveryIndexIsRead(t *testing.T) {
	t.Parallel()
	s := newTouched(t, pgtest.URL(t), 5000, touchedCases()[0].hashes, "loaded")
	other := s.addOther(t)
	store := must.Get(postgres.OpenOptions(t.Context(), with(t, s.address, "application_name", s.name), nil))(t)
	defer store.Close()
	postgres.NoBackground(store)
	s.outlast(t)
	for name, read := range s.firstReads() {
		if found, err := read(t.Context(), store); err != nil || !found {
			t.Errorf("first read of %s: found %t, %v", name, found, err)
		}
	}
	most := s.tenant
	s.tenant = other
	s.lists(t, store)
	s.tenant = most
	for _, step := range s.steps() {
		step.do(t, store)
	}
	must.Do(t, store.Close())
	s.settle(t)
	var unread []string
	rows := must.Get(s.db.QueryContext(t.Context(), `SELECT u.indexrelname FROM pg_stat_user_indexes u JOIN pg_index i USING (indexrelid)
		WHERE u.schemaname = $1 AND u.idx_scan = 0 AND NOT i.indisunique ORDER BY 1`, pgtest.SchemaOf(t, s.address)))(t)
	defer rows.Close()
	for rows.Next() {
		var name string
		must.Do(t, rows.Scan(&name))
		unread = append(unread, name)
	}
	must.Do(t, rows.Err())
	if len(unread) > 0 {
		t.Errorf("nothing reads %v", unread)
	}
}

// rareSet is the set of one in a hundred tokens of a tenant. The tokens of this tenant
// do not expire before expiredEarly; tokens of the other tenant do.
var rareSet = storage.Hash(bytes.Repeat([]byte{2}, len(storage.Hash{})))

const expiredEarly = 5000

// addOther loads that tenant.
func (s *touched) addOther(t *testing.T) storage.ID {
	t.Helper()
	most := s.tenant
	defer func() { s.tenant = most }()
	s.tenant = newID()
	s.load(t, 1_000_000, 1_000_000+expiredEarly, touchedCases()[0].hashes)
	for _, table := range []string{"vault_tokens", "vault_token_counts"} {
		where := map[string]string{"vault_tokens": "expires_at", "vault_token_counts": "shard"}[table]
		s.exec(t, fmt.Sprintf(`UPDATE %s SET set_id = '\x%x' WHERE tenant_id = '\x%x' AND %s %% 100 = 0`, table, rareSet[:], s.tenant[:], where))
	}
	s.exec(t, eachTable("ANALYZE %I"))
	return s.tenant
}

// lists reads lists by each condition that has an index.
func (s *touched) lists(t *testing.T, store *postgres.Store) {
	t.Helper()
	for _, where := range []storage.Cond{
		nil, storage.SetIn{rareSet}, storage.HashIs{}, storage.FingerprintIs{}, storage.IDPrefix("token 1"),
		storage.TimeIn{Field: storage.ModifiedAt, From: s.now},
	} {
		_, _, err := store.ListTokens(t.Context(), storage.TokenFilter{Tenant: s.tenant, Where: where, Limit: 20, Count: true, Now: time.UnixMicro(expiredEarly)})
		must.Do(t, err)
	}
	for _, f := range []storage.LogFilter{{EntityID: "token 1"}, {Operation: "delete"}, {EntityType: "application"}} {
		f.Tenant, f.Limit, f.CountUpTo = s.tenant, 20, 100
		_, _, err := store.ListLogs(t.Context(), f)
		must.Do(t, err)
	}
	_, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Kind: "session", Limit: 20})
	must.Do(t, err)
	must.Get(store.TreeEvents(t.Context(), storage.EventQuery{To: 10, About: &s.tenant, Limit: 20}))(t)
}

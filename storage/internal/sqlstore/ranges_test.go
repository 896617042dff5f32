package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// rangeCases are lists whose conditions reject entries of an index.
var rangeCases = map[string]deepCase{
	"two hashes":              {storage.And{storage.HashIs(most), storage.HashIs(alsoTenth)}, func(i int) bool { return i%10 == 1 }},
	"two hashes apart":        {storage.And{storage.HashIs(tenth), storage.HashIs(alsoTenth)}, func(int) bool { return false }},
	"a hash and a type":       {storage.And{storage.HashIs(tenth), storage.TypeIn{"card"}}, func(i int) bool { return i%20 == 0 }},
	"a hash and most types":   {storage.And{storage.HashIs(most), storage.TypeIn{"token"}}, func(i int) bool { return i%10 != 0 && i%4 != 0 }},
	"a hash under rules":      {storage.And{evenSets, storage.HashIs(most)}, func(i int) bool { return i%10 != 0 && i%2 == 0 }},
	"not a hash, under rules": {storage.And{evenSets, storage.Not{Cond: storage.HashIs(tenth)}}, func(i int) bool { return i%10 != 0 && i%2 == 0 }},
	"neither of two":          {storage.And{storage.Not{Cond: storage.HashIs(most)}, storage.Not{Cond: storage.HashIs(hundredth)}}, func(i int) bool { return i%10 == 0 && i%100 != 0 }},
	"one and not another":     {storage.And{storage.HashIs(tenth), storage.Not{Cond: storage.HashIs(hundredth)}}, func(i int) bool { return i%10 == 0 && i%100 != 0 }},
	"a hash, a type and not another hash": {storage.And{storage.HashIs(most), storage.TypeIn{"token"}, storage.Not{Cond: storage.HashIs(alsoTenth)}},
		func(i int) bool { return i%10 > 1 && i%4 != 0 }},
	"two hashes between two times": {storage.And{storage.HashIs(most), storage.HashIs(alsoTenth), between(5, 25)},
		func(i int) bool { return i%10 == 1 && 5000 <= i && i < 25_000 }},
}

// between returns the condition for tokens created between two seconds after
// loadedFrom.
func between(from, to int) storage.TimeIn {
	return storage.TimeIn{Field: storage.CreatedAt, ExcludeTo: true,
		From: loadedFrom.Add(time.Duration(from) * time.Second), To: loadedFrom.Add(time.Duration(to) * time.Second)}
}

// TestRanges compares pages of lists that are read range by range with the
// expected tokens: by offset, by cursor, and in the other order.
func TestRanges(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, deepTokens)
			for name, c := range rangeCases {
				want := c.ids()
				for _, offset := range []int{0, 1234, len(want) / 2, max(len(want)-1, 0)} {
					t.Run(fmt.Sprintf("%s, offset %d", name, offset), func(t *testing.T) {
						c.hold(t, s, want, offset, 0)
						c.hold(t, s, want, offset, upTo)
						c.holdAfter(t, s, want, offset)
					})
				}
			}
		})
	}
}

// TestRangesInAllSets lists tokens under a condition on sets that all tokens meet.
// There are too many pairs of set and type to notice that before.
func TestRangesInAllSets(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, deepTokens)
			set := setOf(0)
			for i := range maxPairs + 1 {
				s.store.db.MustExec(s.store.db.Rebind(`INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES (?, ?, ?, 0, 1)`),
					someTenant[:], set[:], fmt.Sprint("type ", i))
			}
			c := deepCase{storage.And{storage.Not{Cond: storage.SetIn{setOf(99)}}, storage.HashIs(most)}, func(i int) bool { return i%10 != 0 }}
			want := c.ids()
			c.hold(t, s, want, 0, 0)
			c.hold(t, s, want, 1234, upTo)
			c.holdAfter(t, s, want, 1234)
		})
	}
}

// holdAfter reads the page behind a token, in both orders.
func (c *deepCase) holdAfter(t *testing.T, s *shelf, want []string, offset int) {
	t.Helper()
	if offset >= len(want) {
		return
	}
	at, err := s.store.Tokens(t.Context(), someTenant, []string{want[offset]})
	if err != nil || len(at) != 1 {
		t.Fatalf("%d tokens, %v", len(at), err)
	}
	f := storage.TokenFilter{Tenant: someTenant, Where: c.where, Now: sometime, Limit: shown, Before: at[0].Ord}
	older := want[offset+1 : min(offset+1+shown, len(want))]
	newer := slices.Clone(want[max(offset-shown, 0):offset])
	slices.Reverse(newer)
	for oldestFirst, want := range map[bool][]string{false: older, true: newer} {
		f.OldestFirst = oldestFirst
		page, _, err := s.store.ListTokens(t.Context(), f)
		must.Do(t, err)
		if got := idsOf(page); !slices.Equal(got, want) {
			t.Errorf("behind %s, oldest first %t: got %q, want %q", at[0].ID, oldestFirst, got, want)
		}
	}
}

// TestStatementsAreBounded lists tokens under conditions that none meets, as the last
// scan of a rotation does, and records. Each statement touches a bounded number of
// rows, however many the tenant has.
func TestStatementsAreBounded(t *testing.T) {
	t.Parallel()
	const tokens = 3 * lastRange
	s := postgresShelf(t, tokens)
	s.knowing[2].set()
	nobody := storage.ByIs{Field: storage.CreatedBy, ID: storage.ID{9}}
	for name, where := range map[string]storage.Cond{
		"an older key":                  storage.KeyBelow(1),
		"a creator":                     nobody,
		"a creator, under rules":        storage.And{evenSets, nobody},
		"a hash and a creator":          storage.And{storage.HashIs(most), nobody},
		"two hashes":                    storage.And{storage.HashIs(most), storage.HashIs(tenth)},
		"a hash or a prefix":            storage.And{storage.Or{storage.HashIs(most), storage.IDPrefix("token")}, nobody},
		"a prefix and a creator":        storage.And{storage.IDPrefix("token"), nobody},
		"modified, not under any rules": storage.And{storage.Not{Cond: evenSets}, storage.TimeIn{Field: storage.ModifiedAt, From: loadedFrom}},
	} {
		s.to.take()
		page, total, err := s.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: someTenant, Where: where, Now: sometime, Limit: shown, Count: true, CountUpTo: upTo})
		if len(page) != 0 || total != 0 || err != nil {
			t.Errorf("%s: got %d of %d tokens, %v", name, len(page), total, err)
		}
		s.bounded(t, name, 5*lastRange/2)
	}
	s.store.db.MustExec(`INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_version, body, created_at, rev)
		SELECT $1, CASE WHEN i = 0 THEN 'application' ELSE 'session' END, decode(lpad(to_hex(i), 32, '0'), 'hex'), '', '', 1, '', 0, 1
		FROM generate_series(0, $2 - 1) AS i`, someTenant[:], tokens)
	for name, f := range map[string]storage.RecordFilter{
		"records": {Limit: shown}, "records behind one": {Limit: shown, Before: storage.ID{1}}, "sessions": {Limit: shown, Kind: "session"},
	} {
		f.Tenant = someTenant
		s.to.take()
		page, total, err := s.store.ListRecords(t.Context(), f)
		if want := map[string]int{"records": tokens, "sessions": tokens - 1}[name]; len(page) != shown || total != want || err != nil {
			t.Errorf("%s: got %d of %d, %v, want %d", name, len(page), total, err, want)
		}
		s.bounded(t, name, 2*lastRange)
	}
}

// bounded checks how many rows each statement since the last call touches.
func (s *shelf) bounded(t *testing.T, name string, most int) {
	t.Helper()
	for _, q := range s.to.take() {
		if rows := s.work(t, q); rows > most {
			t.Errorf("%s: %d rows: %s", name, rows, q.text)
		}
	}
}

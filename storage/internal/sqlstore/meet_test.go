package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// meetCases are lists that can be read from two indexes.
var meetCases = map[string]deepCase{
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

// TestMeetings compares pages of lists from two indexes with the expected
// tokens: by offset, by cursor, and in the other order.
func TestMeetings(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, deepTokens)
			for name, c := range meetCases {
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

// TestMeetingInAllSets lists tokens under a condition on sets that all tokens meet.
// There are too many pairs of set and type to notice that before.
func TestMeetingInAllSets(t *testing.T) {
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

// TestMeetingShrinks deletes tokens after a list has found the ranges of its page.
// The page must still be full.
func TestMeetingShrinks(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := load(t, deepTokens), meetCases["not a hash, under rules"]
			want := c.ids()
			const deleted = 5000
			s.to.before = func(query string) {
				if strings.Contains(query, "t.key_version") { // the page
					s.to.before = nil
					s.store.db.MustExec(s.store.db.Rebind(`DELETE FROM vault_tokens WHERE tenant_id = ? AND created_at >= ?`),
						someTenant[:], loadedFrom.Add((deepTokens-deleted)*time.Millisecond).UnixMicro())
				}
			}
			page, _, err := s.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: someTenant, Where: c.where, Now: sometime, Limit: shown})
			if err != nil {
				t.Fatal(err)
			}
			want = slices.DeleteFunc(want, func(id string) bool {
				var i int
				_, err := fmt.Sscanf(id, "token %d", &i)
				return err != nil || i >= deepTokens-deleted
			})
			if got := idsOf(page); !slices.Equal(got, want[:shown]) {
				t.Errorf("got %q, want %q", got, want[:shown])
			}
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
		if err != nil {
			t.Fatal(err)
		}
		if got := idsOf(page); !slices.Equal(got, want) {
			t.Errorf("behind %s, oldest first %t: got %q, want %q", at[0].ID, oldestFirst, got, want)
		}
	}
}

// holdMeetingPage reads a page without a total. Some of the sets in its rules
// have no token of the list, which must not matter.
func (s *shelf) holdMeetingPage(t *testing.T) {
	c := meetCases["not a hash, under rules"]
	s.to.take()
	start := time.Now()
	page, _, err := s.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: someTenant, Where: c.where, Now: sometime, Limit: shown})
	if len(page) != shown || err != nil {
		t.Errorf("got %d tokens, %v", len(page), err)
	}
	s.within(t, 20*shown, time.Since(start))
}

// holdLookups reads a page and its total, and the page behind a token. It may look
// up the tokens of the pages, and begin a few scans for each range of a meeting,
// but it must not look up every entry of an index.
func (s *shelf) holdLookups(t *testing.T, n int, c deepCase) {
	before := idOfMillis(loadedFrom.UnixMilli() + int64(n)/2)
	most := 20*shown + n/400
	s.to.take()
	for _, f := range []storage.TokenFilter{{Count: true}, {Before: before}} {
		f.Tenant, f.Where, f.Now, f.Limit = someTenant, c.where, sometime, shown
		if _, _, err := s.store.ListTokens(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	lookups := 0
	for _, q := range s.to.take() {
		lookups += s.lookups(t, q)
	}
	t.Logf("%d of %d", lookups, most)
	if lookups > most {
		t.Errorf("%d scans began, want at most %d", lookups, most)
	}
}

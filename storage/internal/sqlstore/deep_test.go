package sqlstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// deepCase is a condition, and whether it holds for the token with a number.
type deepCase struct {
	where storage.Cond
	is    func(i int) bool
}

var deepCases = map[string]deepCase{
	"all":          {nil, func(int) bool { return true }},
	"under rules":  {evenSets, func(i int) bool { return i%2 == 0 }},
	"a type":       {storage.TypeIn{"card"}, func(i int) bool { return i%4 == 0 }},
	"set and type": {storage.And{storage.SetIn{setOf(3)}, storage.TypeIn{"token"}}, func(i int) bool { return i%10 == 3 }},
	"not a hash":   {storage.Not{Cond: storage.HashIs(tenth)}, func(i int) bool { return i%10 != 0 }},
	"two hashes from a time on that is not whole": {storage.And{storage.HashIs(most), storage.HashIs(alsoTenth),
		storage.TimeIn{Field: storage.CreatedAt, From: loadedFrom.Add(5*time.Second + time.Microsecond)}},
		func(i int) bool { return i%10 == 1 && i > 5000 }},
}

var evenSets = storage.SetIn{setOf(0), setOf(2), setOf(4), setOf(6), setOf(8)}

// TestDeepPages compares pages far into a list with the expected tokens.
func TestDeepPages(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, deepTokens)
			for name, c := range deepCases {
				want := c.ids()
				for _, offset := range []int{skipFrom - 1, skipFrom, 2222, 12_000, len(want) / 2, len(want) - shown, len(want) - 1, len(want)} {
					for _, most := range []int{0, upTo, deepTokens} {
						t.Run(fmt.Sprintf("%s, offset %d, counted up to %d", name, offset, most), func(t *testing.T) {
							c.hold(t, s, want, offset, most)
						})
					}
				}
			}
		})
	}
}

// deepTokens is the number of tokens in the tests of deepCases.
const deepTokens = 30_000

// ids returns the ids of the tokens, newest first, without the expired ones.
func (c *deepCase) ids() (ids []string) {
	for i := deepTokens - 1; i >= 0; i-- {
		if i%5000 != 77 && c.is(i) {
			ids = append(ids, fmt.Sprint("token ", i))
		}
	}
	return ids
}

func (c *deepCase) hold(t *testing.T, s *shelf, want []string, offset, most int) {
	page, total, err := s.store.ListTokens(t.Context(), storage.TokenFilter{
		Tenant: someTenant, Where: c.where, Now: sometime, Limit: shown, Offset: offset, Count: true, CountUpTo: most,
	})
	must.Do(t, err)
	if total != len(want) && (most == 0 || total < most) {
		t.Errorf("the total is %d, want %d", total, len(want))
	}
	want = want[min(offset, len(want)):min(offset+shown, len(want))]
	if got := idsOf(page); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func idsOf(page []storage.Token) (ids []string) {
	for i := range page {
		ids = append(ids, page[i].ID)
	}
	return ids
}

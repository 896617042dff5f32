package sqlstore

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	shown = 20
	few   = 100 // fixed work of every list
)

// upTo is where the total of a search ends. It is a fraction of all tokens, so
// that counting them all would show.
var upTo = long.Rounds(1001, 10_001)

// TestRowsTouched compares the cost of every kind of list with a budget. A list
// may touch a constant number of rows for each row that it shows, and for each
// row counted for the total of a search, up to upTo. If an exact total is
// required, it may also touch each index entry of the rarest term. Nothing else
// may grow with the vault, whatever statistics the database plans with.
func TestRowsTouched(t *testing.T) {
	t.Parallel()
	sizes := []int{20_000}
	if long.Run {
		sizes = []int{10_000, 200_000}
	}
	if n, err := strconv.Atoi(os.Getenv("VAULT_TEST_TOKENS")); err == nil {
		sizes = []int{n}
	}
	for name, load := range map[string]func(*testing.T, int) *shelf{"SQLite": sqliteShelf, "PostgreSQL": postgresShelf} {
		for _, n := range sizes {
			t.Run(name+"/"+strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				s := load(t, n)
				for _, k := range s.knowing {
					k.set()
					t.Run(k.name, func(t *testing.T) { s.holdAll(t, n) })
				}
			})
		}
	}
}

func (s *shelf) holdAll(t *testing.T, n int) {
	for _, test := range tokenCases(n) {
		t.Run(test.name, func(t *testing.T) { s.hold(t, test) })
	}
	s.holdSearches(t, n)
	t.Run("ids", func(t *testing.T) { s.holdIDs(t) })
	t.Run("count", func(t *testing.T) { s.holdCount(t, n) })
	t.Run("a token behind the last", func(t *testing.T) { s.holdBehind(t, n) })
	for _, test := range logCases(n) {
		t.Run("log, "+test.name, func(t *testing.T) { s.holdLog(t, test) })
	}
}

// holdIDs reads tokens by their ids.
func (s *shelf) holdIDs(t *testing.T) {
	s.to.take()
	start := time.Now()
	tokens, err := s.store.Tokens(t.Context(), someTenant, []string{"token 5", "token 7", "token 5", "no token"})
	took := time.Since(start)
	if len(tokens) != 2 || err != nil {
		t.Errorf("got %d tokens, %v", len(tokens), err)
	}
	s.within(t, 2, took)
}

// tokenCase is a list, with the number of its tokens and the number of rows it
// may touch.
type tokenCase struct {
	name   string
	filter storage.TokenFilter
	total  int
	budget int
}

func (s *shelf) hold(t *testing.T, test tokenCase) {
	f := test.filter
	f.Tenant, f.Limit, f.Count, f.Now = someTenant, shown, true, sometime
	s.to.take()
	start := time.Now()
	page, total, err := s.store.ListTokens(t.Context(), f)
	took := time.Since(start)
	must.Do(t, err)
	must.Same(t, "tokens are shown", min(shown, max(test.total-f.Offset, 0)), len(page))
	if f.CountUpTo > 0 && test.total >= f.CountUpTo {
		if total < f.CountUpTo {
			t.Errorf("the total is %d, want at least %d", total, f.CountUpTo)
		}
	} else if total != test.total {
		t.Errorf("the total is %d, want %d", total, test.total)
	}
	s.within(t, test.budget, took)
}

// holdBehind looks for a token beyond the last one. That must not touch any
// tokens, above all not tokens of other tenants.
func (s *shelf) holdBehind(t *testing.T, n int) {
	l := must.Get(s.store.newTokenList(t.Context(), storage.TokenFilter{Tenant: someTenant}))(t)
	s.to.take()
	start := time.Now()
	place, err := l.tokenAt(t.Context(), nil, n+100)
	if err != nil || !place.IsZero() {
		t.Errorf("found %v, %v", place, err)
	}
	s.within(t, shown, time.Since(start))
}

// holdCount counts everything. It may touch only the expired tokens, one in
// 5,000.
func (s *shelf) holdCount(t *testing.T, n int) {
	expired := n / 5000
	s.to.take()
	start := time.Now()
	counts, err := s.store.Count(t.Context(), storage.CountFilter{Tenant: someTenant, Now: sometime, Kind: "session", UpTo: shown})
	took := time.Since(start)
	must.Do(t, err)
	tokens := 0
	for _, c := range counts.Tokens {
		tokens += c.N
	}
	if tokens != n-expired || counts.Logs != n {
		t.Errorf("%d tokens and %d entries, want %d and %d", tokens, counts.Logs, n-expired, n)
	}
	s.within(t, expired, took)
}

// within checks the work of the queries since the last call.
func (s *shelf) within(t *testing.T, budget int, took time.Duration) {
	t.Helper()
	work, queries := 0, s.to.take()
	for _, q := range queries {
		work += s.work(t, q)
	}
	t.Logf("%d of %d in %v", work, s.each*(budget+few), took)
	if work > s.each*(budget+few) {
		t.Errorf("the work is %d, want at most %d for %d rows", work, s.each*(budget+few), budget)
		for _, q := range queries {
			t.Logf("%d: %s", s.work(t, q), q.text)
		}
	}
}

func tokenCases(n int) []tokenCase {
	// live counts the tokens that match and have not expired.
	live := func(is func(i int) bool) (total int) {
		for i := range n {
			if i%5000 != 77 && is(i) {
				total++
			}
		}
		return total
	}
	every := func(m int) func(int) bool { return func(i int) bool { return i%m == 0 } }
	all := func(int) bool { return true }
	search := storage.TokenFilter{CountUpTo: upTo}
	with := func(f storage.TokenFilter, where storage.Cond) storage.TokenFilter {
		f.Where = where
		return f
	}
	at := func(f storage.TokenFilter, offset int) storage.TokenFilter {
		f.Offset = offset
		return f
	}
	ruled := storage.SetIn{setOf(0), setOf(2), setOf(4), setOf(6), setOf(8)}
	even := func(i int) bool { return i%2 == 0 }
	after := storage.TimeIn{Field: storage.CreatedAt, From: loadedFrom.Add(time.Millisecond)}
	between := storage.TimeIn{Field: storage.CreatedAt, From: loadedFrom.Add(500 * time.Millisecond), To: loadedFrom.Add(700 * time.Millisecond), ExcludeTo: true}
	odd := storage.TimeIn{Field: storage.CreatedAt, From: loadedFrom.Add(500*time.Millisecond + 300*time.Microsecond), To: loadedFrom.Add(700*time.Millisecond - 300*time.Microsecond)}
	modified := storage.TimeIn{Field: storage.ModifiedAt, From: sometime.Add(-time.Hour)}
	list := storage.TokenFilter{}
	return []tokenCase{
		{"all", list, live(all), shown},
		{"under rules", with(list, ruled), live(even), shown},
		{"a type", with(list, storage.TypeIn{"card"}), live(every(4)), shown},
		{"one filter", with(list, storage.HashIs(tenth)), live(every(10)), n / 10},
		{"two filters", with(list, storage.And{storage.HashIs(tenth), storage.HashIs(thousandth)}), live(every(1000)), n / 1000},
		{"two filters, the other way", with(list, storage.And{storage.HashIs(thousandth), storage.HashIs(tenth)}), live(every(1000)), n / 1000},
		{"three filters", with(list, storage.And{storage.HashIs(most), storage.HashIs(tenth), storage.HashIs(hundredth)}), 0, 3 * n / 100},
		{"two filters that are alike", with(list, storage.And{storage.HashIs(tenth), storage.HashIs(alsoTenth)}), 0, 2 * n / 10},
		{"a filter under rules", with(list, storage.And{ruled, storage.HashIs(thousandth)}), live(every(1000)), n / 1000},
		{"a filter under rules that leave nothing", with(list, storage.And{storage.SetIn{setOf(3)}, storage.HashIs(thousandth)}), 0, n / 1000},
		{"the last page", at(list, (live(all)-1)/shown*shown), live(all), shown},
		{"the last page under rules", at(with(list, ruled), (live(even)-1)/shown*shown), live(even), shown},
		{"the last page of a filter", at(with(list, storage.HashIs(tenth)), (live(every(10))-1)/shown*shown), live(every(10)), n / 10},
		{"behind the last page", at(list, n), live(all), shown},
		{"page 200", at(list, 200*shown), live(all), 200 * shown},
		{"page 200 under rules", at(with(list, ruled), 200*shown), live(even), 200 * shown},
		{"page 100 of a type", at(with(list, storage.TypeIn{"card"}), 100*shown), live(every(4)), 200 * shown},
		{"page 40 of a set and type", at(with(list, storage.And{storage.SetIn{setOf(3)}, storage.TypeIn{"token"}}), 40*shown),
			live(func(i int) bool { return i%10 == 3 }), 80 * shown},

		{"search: page 100 under rules", at(with(search, ruled), 100*shown), live(even), upTo + 200*shown},
		{"search: page 600 under rules", at(with(search, ruled), 600*shown), live(even), upTo + 1200*shown},
		{"search: a hash", with(search, storage.HashIs(tenth)), live(every(10)), upTo},
		{"search: a rare hash", with(search, storage.HashIs(thousandth)), live(every(1000)), n / 1000},
		{"search: a hash and every type", with(search, storage.And{storage.HashIs(tenth), storage.TypeIn{"card", "token"}}), live(every(10)), upTo},
		{"search: a hash and a type", with(search, storage.And{storage.HashIs(tenth), storage.TypeIn{"card"}}), live(every(20)), 2 * upTo},
		{"search: a rare hash and a common one", with(search, storage.And{storage.HashIs(most), storage.HashIs(thousandth)}), 0, n / 1000},
		{"search: not a hash", with(search, storage.Not{Cond: storage.HashIs(tenth)}), live(func(i int) bool { return i%10 != 0 }), 2 * upTo},
		{"search: not a hash, under rules", with(search, storage.And{ruled, storage.Not{Cond: storage.HashIs(tenth)}}), live(func(i int) bool { return i%2 == 0 && i%10 != 0 }), 3 * upTo},
		{"search: not a common hash", with(search, storage.Not{Cond: storage.HashIs(most)}), live(every(10)), 25 * upTo},
		{"search: one and not another", with(search, storage.And{storage.HashIs(hundredth), storage.Not{Cond: storage.HashIs(thousandth)}}), live(func(i int) bool { return i%100 == 0 && i%1000 != 0 }), n / 100},
		{"search: from a time on", with(search, after), live(all) - 1, upTo},
		{"search: between two times", with(search, between), live(func(i int) bool { return 500 <= i && i < 700 }), 200},
		{"search: between two times that are not whole", with(search, odd), live(func(i int) bool { return 500 < i && i < 700 }), 200},
		{"search: a hash from a time on", with(search, storage.And{storage.HashIs(tenth), after}), live(every(10)) - 1, upTo},
		{"search: a hash between two times", with(search, storage.And{storage.HashIs(tenth), between}), live(func(i int) bool { return 500 <= i && i < 700 && i%10 == 0 }), 200},
		{"search: modified", with(search, modified), live(every(1000)), n / 1000},
		{"search: modified, and a creator", with(search, storage.And{modified, storage.ByIs{Field: storage.CreatedBy, ID: storage.ID{9}}}), 0, n / 1000},
		{"search: modified, under rules", with(search, storage.And{ruled, modified}), live(every(1000)), n / 1000},
		{"search: either of two", with(search, storage.Or{storage.HashIs(tenth), storage.HashIs(alsoTenth)}), live(func(i int) bool { return i%10 < 2 }), 2 * upTo},
		{"search: either of two rare ones", with(search, storage.Or{storage.HashIs(hundredth), storage.HashIs(thousandth)}), live(every(100)), n/100 + n/1000},
		{"search: a hash or a type", with(search, storage.Or{storage.HashIs(thousandth), storage.TypeIn{"card"}}), live(every(4)), n/1000 + 2*upTo},
		{"search: an id", with(search, storage.IDIn{"token 5"}), 1, 1},
		{"search: ids with a prefix", with(search, storage.IDPrefix("token 5")), live(func(i int) bool { return strconv.Itoa(i)[0] == '5' }), 2 * upTo},
	}
}

// logCase is a list of log entries.
type logCase struct {
	name   string
	filter storage.LogFilter
	total  int
	budget int
}

func (s *shelf) holdLog(t *testing.T, test logCase) {
	f := test.filter
	f.Tenant, f.Limit = someTenant, shown
	s.to.take()
	start := time.Now()
	page, total, err := s.store.ListLogs(t.Context(), f)
	took := time.Since(start)
	want := test.total
	if f.CountUpTo > 0 {
		want = min(want, f.CountUpTo)
	}
	if err != nil || len(page) != min(shown, want) || total != want {
		t.Errorf("got %d entries of %d (%v), want %d", len(page), total, err, want)
	}
	s.within(t, test.budget, took)
}

func logCases(n int) []logCase {
	return []logCase{
		{"all", storage.LogFilter{}, n, shown},
		{"a type", storage.LogFilter{EntityType: "token"}, n - n/4 - n/1000, shown},
		{"a type that is rare", storage.LogFilter{EntityType: "application"}, n / 1000, n / 1000},
		{"an operation", storage.LogFilter{Operation: "create", CountUpTo: upTo}, n - n/1000, upTo},
		{"an operation that is rare", storage.LogFilter{Operation: "delete", CountUpTo: upTo}, n / 1000, n / 1000},
		{"an operation that is rare, and a type", storage.LogFilter{Operation: "delete", EntityType: "token", CountUpTo: upTo}, n / 1000, n / 1000},
		{"an operation and a type that exclude each other", storage.LogFilter{Operation: "delete", EntityType: "card", CountUpTo: upTo}, 0, n / 1000},
		{"an entity", storage.LogFilter{EntityID: "token 7"}, 1, shown},
		{"from a day on", storage.LogFilter{From: loadedFrom}, n, shown},
		{"a type from a day on", storage.LogFilter{EntityType: "token", From: loadedFrom, To: sometime}, n - n/4 - n/1000, shown},
		{"between two times", storage.LogFilter{From: loadedFrom.Add(time.Second), To: loadedFrom.Add(2 * time.Second)}, 1000, 2000},
	}
}

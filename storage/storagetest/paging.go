package storagetest

import (
	"bytes"
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

func pagingRules() []rule {
	return []rule{
		{"ListTokens returns the newest (highest Ord) first, under equal times too", tokenOrder},
		{"pages are stable and lack nothing", tokenPages},
		{"a page may start deep, or beyond the end", deepOffset},
		{"a page of no rows still has its total", emptyPage},
		{"Before keeps the tokens with a lower Ord", beforeKeyset},
		{"OldestFirst turns order and Before around", oldestFirst},
		{"pages by Before are stable while tokens come and go", beforeWhileWriting},
		{"Now leaves out the tokens that have expired at it", pagesWithoutExpired},
		{"a page of several tokens that hold more than MaxBytes is ErrTooLarge", tokenPageBytes},
		{"a page of several records that hold more than MaxBytes is ErrTooLarge", recordPageBytes},
	}
}

// shuffledTokens stores n tokens of the same time, not in the order of their
// Ord. It returns their ids, newest first.
func (w *world) shuffledTokens(tenant storage.ID, n int) []string {
	w.Helper()
	tokens := w.tokenSeries("t", n)
	want := reversed(tokenIDs(tokens))
	mixed := make([]storage.Token, n)
	for i := range tokens {
		mixed[i*37%n] = tokens[i]
	}
	for part := range slices.Chunk(mixed, 1+n/3) {
		w.write(insert(tenant, part...))
	}
	return want
}

func tokenOrder(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 25)
	page, _ := w.list(storage.TokenFilter{Tenant: tenant, Limit: 100})
	w.same("ids", tokenIDs(page), want)
	page, _ = w.list(storage.TokenFilter{Tenant: tenant, Where: storage.TypeIn{"token"}, Limit: 100})
	w.same("ids under a condition", tokenIDs(page), want)
	page, _ = w.list(storage.TokenFilter{Tenant: tenant, Where: storage.IDIn(want), Limit: 100})
	w.same("ids by ids", tokenIDs(page), want)
}

func oldestFirst(w *world) {
	tenant := w.id()
	newest := w.shuffledTokens(tenant, 23)
	want := reversed(newest)
	bySet := storage.Or{storage.SetIn{sets[0].Set, sets[1].Set}, storage.IDPrefix("t")}
	for _, where := range []storage.Cond{nil, storage.IDPrefix("t"), storage.TypeIn{"token"}, storage.IDIn(want), bySet} {
		for _, size := range []int{1, 5, 23, 50} {
			var got []string
			f := storage.TokenFilter{Tenant: tenant, Where: where, Limit: size, OldestFirst: true}
			for page, _ := w.list(f); len(page) > 0; page, _ = w.list(f) {
				got = append(got, tokenIDs(page)...)
				f.Before = page[len(page)-1].Ord
			}
			w.sameFor("ids over all pages", f, got, want)
		}
	}
}

func tokenPages(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 23)
	w.shuffledTokens(w.id(), 5)
	for _, where := range []storage.Cond{nil, storage.IDPrefix("t")} {
		for _, size := range []int{1, 5, 23, 50} {
			var got []string
			for offset := 0; offset < 30; offset += size {
				page, total := w.list(storage.TokenFilter{
					Tenant: tenant, Where: where, Offset: offset, Limit: size, Count: true,
				})
				got = append(got, tokenIDs(page)...)
				w.same("total", total, 23)
			}
			w.same("ids over all pages", got, want)
		}
	}
}

func deepOffset(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 301)
	for _, offset := range []int{0, 150, 299, 300, 301, 302, 100_000} {
		page, total := w.list(storage.TokenFilter{Tenant: tenant, Offset: offset, Limit: 2, Count: true})
		w.same("page", tokenIDs(page), want[min(offset, 301):min(offset+2, 301)])
		w.same("total", total, 301)
	}
}

func emptyPage(w *world) {
	tenant := w.id()
	w.shuffledTokens(tenant, 3)
	page, total := w.list(storage.TokenFilter{Tenant: tenant, Count: true})
	w.same("page", page, []storage.Token(nil))
	w.same("total", total, 3)
}

func beforeKeyset(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 20)
	all := w.tokens(tenant, want...)
	for _, where := range []storage.Cond{nil, storage.Not{Cond: storage.TypeIn{"card"}}} {
		for i, token := range all {
			page, _ := w.list(storage.TokenFilter{Tenant: tenant, Where: where, Before: token.Ord, Limit: 4})
			w.same("page", tokenIDs(page), want[i+1:min(i+5, 20)])
		}
		page, _ := w.list(storage.TokenFilter{Tenant: tenant, Where: where, Before: all[3].Ord, Offset: 2, Limit: 3})
		w.same("page with an offset", tokenIDs(page), want[6:9])
	}
}

func beforeWhileWriting(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 12)
	var got []string
	before := storage.ID{}
	for {
		page, _ := w.list(storage.TokenFilter{Tenant: tenant, Before: before, Limit: 3})
		if len(page) == 0 {
			break
		}
		got = append(got, tokenIDs(page)...)
		before = page[len(page)-1].Ord
		w.write(&storage.Change{
			Tenant: tenant, InsertTokens: []storage.Token{w.token("new" + page[0].ID)},
			DeleteTokens: []storage.TokenDelete{deleteOf(page[0])},
		})
	}
	w.same("ids", got, want)
}

func pagesWithoutExpired(w *world) {
	tenant := w.id()
	tokens := w.tokenSeries("t", 9)
	var want []string
	for i := range tokens {
		switch i % 3 {
		case 0:
			tokens[i].ExpiresAt = now
		case 1:
			tokens[i].ExpiresAt = later
			want = append(want, tokens[i].ID)
		default:
			want = append(want, tokens[i].ID)
		}
	}
	want = reversed(want)
	w.write(insert(tenant, tokens...))
	for _, where := range []storage.Cond{nil, storage.IDPrefix("t"), storage.Not{Cond: storage.HashIs(w.hash())}} {
		for offset := range 8 {
			page, total := w.list(storage.TokenFilter{
				Tenant: tenant, Where: where, Now: now, Offset: offset, Limit: 2, Count: true,
			})
			w.same("page", tokenIDs(page), want[min(offset, 6):min(offset+2, 6)])
			w.same("total", total, 6)
		}
		w.same("total with the expired", w.count(storage.TokenFilter{Tenant: tenant, Where: where}), 9)
	}
}

// Rows of 100 bytes, and whether a page of them fits.
var pageBounds = []struct {
	limit, maxBytes int
	fits            bool
}{
	{4, 0, true},
	{4, 400, true},
	{4, 399, false},
	{3, 399, true},
	{2, 100, false},
	{1, 100, true},
	{1, 1, true}, // a single row is never too large
	{100, 400, true},
}

func tokenPageBytes(w *world) {
	for _, unit := range []int{1, 1 << 10} { // small and large bodies
		tenant := w.id()
		tokens := w.tokenSeries("t", 4)
		for i := range tokens {
			tokens[i].Body = bytes.Repeat([]byte{byte(i)}, 100*unit)
		}
		tokens[2].Body, tokens[2].CVC, tokens[2].CVCExpiresAt = tokens[2].Body[:70*unit], bytes.Repeat([]byte("c"), 30*unit), later
		w.write(insert(tenant, tokens...))
		for _, where := range []storage.Cond{nil, storage.IDPrefix("t")} {
			for _, b := range pageBounds {
				page, total, err := w.store.ListTokens(w.Context(), storage.TokenFilter{
					Tenant: tenant, Where: where, Limit: b.limit, MaxBytes: b.maxBytes * unit, Count: true,
				})
				w.pageFits(b.fits, err, len(page), total, min(b.limit, 4))
				for i := range page {
					if want := &tokens[len(tokens)-1-i]; err == nil && !bytes.Equal(page[i].Body, want.Body) {
						w.Errorf("the body of token %s has %d bytes, want those %d that were written", page[i].ID, len(page[i].Body), len(want.Body))
					}
				}
			}
		}
	}
}

func recordPageBytes(w *world) {
	tenant := w.id()
	for range 4 {
		record := w.record("proxy", "p")
		record.Body = bytes.Repeat([]byte("b"), 100)
		w.insertRecords(tenant, record)
	}
	for _, b := range pageBounds {
		page, total, err := w.store.ListRecords(w.Context(), storage.RecordFilter{Tenant: tenant, Limit: b.limit, MaxBytes: b.maxBytes})
		w.pageFits(b.fits, err, len(page), total, min(b.limit, 4))
	}
}

// pageFits compares a page of a list of four rows with the expected result.
func (w *world) pageFits(fits bool, err error, rows, total, wanted int) {
	w.Helper()
	switch {
	case !fits && (!errors.Is(err, storage.ErrTooLarge) || rows != 0):
		w.Errorf("%d rows and %v, want ErrTooLarge and none", rows, err)
	case fits && (err != nil || rows != wanted || total != 4):
		w.Errorf("%d of %d rows and %v, want %d of 4", rows, total, err, wanted)
	}
}

package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func listRules() []rule {
	return []rule{
		{"ids are compared byte for byte", idsAreBytes},
		{"Name matches the whole name, without regard to case", recordNames},
		{"a page may start deep, or beyond the end", deepOffset},
		{"pages by Before are stable while tokens come and go", beforeWhileWriting},
		{"a page of several tokens that hold more than MaxBytes is ErrTooLarge", tokenPageBytes},
		{"a page of several records that hold more than MaxBytes is ErrTooLarge", recordPageBytes},
		{"conditions may be deep and wide", wideConditions},
		{"IDPrefix holds for tokens whose id starts with it, byte for byte", filterPrefix},
		{"HashIs finds a token by each of its hashes, however many they are", filterManyHashes},
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

func deepOffset(w *world) {
	tenant := w.id()
	want := w.shuffledTokens(tenant, 301)
	for _, offset := range []int{0, 150, 299, 300, 301, 302, 100_000} {
		page, total := w.list(storage.TokenFilter{Tenant: tenant, Offset: offset, Limit: 2, Count: true})
		w.same("page", tokenIDs(page), want[min(offset, 301):min(offset+2, 301)])
		w.same("total", total, 301)
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

func wideConditions(w *world) {
	tenant := w.id()
	w.write(insert(tenant, w.token("a"), w.token("b"), w.token("c")))
	deep, ids, wide := storage.Cond(storage.IDIn{"a", "b"}), storage.IDIn{"b"}, storage.Or{storage.IDIn{"c"}}
	for range 10 {
		deep = storage.Not{Cond: storage.And{storage.Or{deep, storage.Or{}}, storage.And{}}}
	}
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("id%d", i))
	}
	for i := range 200 {
		wide = append(wide, storage.IDIn{ids[i]})
	}
	w.same("tokens by a deep condition", w.found(tenant, deep), []string{"b", "a"})
	w.same("tokens by many ids", w.found(tenant, ids), []string{"b"})
	w.same("tokens by many conditions", w.found(tenant, wide), []string{"c", "b"})
	w.same("tokens by the opposite", w.found(tenant, storage.Not{Cond: wide}), []string{"a"})
}

func filterPrefix(w *world) {
	tenant := w.id()
	ids := []string{
		"abc", "ABC", "abd", "ab", "a%c", "a_c", `a\c`, "a'c", "a*c", "äb", "Äb", "日本語", "日本", "🙂x",
		"x\u007f", "x\u007fy", "x\u0080", "y\ud7ff!", "y\ue000", "z\U0010ffff", "z\U0010ffffz", "\U0010ffff",
	}
	var tokens []storage.Token
	for _, id := range ids {
		tokens = append(tokens, w.token(id))
	}
	w.write(insert(tenant, tokens...))
	for prefix, want := range map[string][]string{
		"":               ids,
		"a":              {"abc", "abd", "ab", "a%c", "a_c", `a\c`, "a'c", "a*c"},
		"ab":             {"abc", "abd", "ab"},
		"abc":            {"abc"},
		"abcd":           nil,
		"AB":             {"ABC"},
		"a%":             {"a%c"},
		"a_":             {"a_c"},
		`a\`:             {`a\c`},
		"a'":             {"a'c"},
		"a*":             {"a*c"},
		"ä":              {"äb"},
		"日":              {"日本語", "日本"},
		"🙂":              {"🙂x"},
		"x\u007f":        {"x\u007f", "x\u007fy"},
		"y\ud7ff":        {"y\ud7ff!"},
		"y":              {"y\ud7ff!", "y\ue000"},
		"z\U0010ffff":    {"z\U0010ffff", "z\U0010ffffz"},
		"\U0010ffff":     {"\U0010ffff"},
		"%":              nil,
		"z\U0010ffffz\t": nil,
	} {
		w.same("ids that start with "+prefix, reversed(w.found(tenant, storage.IDPrefix(prefix))), want)
		got := w.found(tenant, storage.Not{Cond: storage.IDPrefix(prefix)})
		w.same("number of other ids", len(got), len(ids)-len(want))
	}
}

// filterManyHashes creates single tokens with different numbers of hashes, and
// updates them.
func filterManyHashes(w *world) {
	tenant := w.id()
	for _, n := range []int{0, 1, 2, 3, 7, 8, 15, 16, 17, 70} {
		token := w.token(fmt.Sprint("hashes", n))
		token.Hashes = nil
		for range n {
			token.Hashes = append(token.Hashes, w.hash())
		}
		given := token.Hashes
		token.Hashes = append(token.Hashes, token.Hashes...) // repeated hashes count once
		created := insert(tenant, token)
		created.Logs = []storage.Log{w.log("token", token.ID)}
		for _, c := range []*storage.Change{created, {Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(token, token)}}} {
			w.write(c)
			for _, h := range given {
				w.same(fmt.Sprintf("token of %d hashes by one of them", n), w.found(tenant, storage.HashIs(h)), []string{token.ID})
			}
		}
	}
}

// oddIDs differ only in ways that a database may ignore, or contain characters
// that it may take for syntax.
var oddIDs = []string{
	"abc", "ABC", "abc ", "a%c", "a_c", "aXc", `a\c`, "a'c", `a"c`, "a--c", "a;c", "a$1c", "a?c", "a:c", "a{}c",
	"\u00e9", "e\u0301", "ß", "ss", "SS", "ﬁ", "fi", "日本", "🙂", "🙃", "a\u200bc", "01", "1", "1.0", "NULL",
	strings.Repeat("🙂", 400), strings.Repeat("🙂", 399) + "🙃",
}

func idsAreBytes(w *world) {
	tenant := w.id()
	var tokens []storage.Token
	for _, id := range oddIDs {
		tokens = append(tokens, w.token(id))
	}
	w.write(insert(tenant, tokens...))
	w.hasTokens(tenant, tokens...)
	for _, id := range oddIDs {
		w.same("token by id", tokenIDs(w.tokens(tenant, id)), []string{id})
		w.same("token by condition", w.found(tenant, storage.IDIn{id}), []string{id})
	}
}

// changed returns a token that differs from a stored one in all columns that an
// update replaces.
func (w *world) changed(stored storage.Token) storage.Token {
	next := w.token(stored.ID)
	next.Ord, next.Type, next.CreatedBy, next.CreatedAt = stored.Ord, stored.Type, stored.CreatedBy, stored.CreatedAt
	next.Dedup, next.CVC, next.CVCExpiresAt, next.ExpiresAt = w.hash(), []byte("new cvc"), later, later
	next.Rev = 77 // ignored
	return next
}

func (w *world) duplicate(tenant storage.ID, d storage.Duplicate) *storage.Token {
	w.Helper()
	return must(w.store.Duplicate(w.Context(), tenant, d))(w, "duplicate")
}

func (w *world) insertRecords(tenant storage.ID, rows ...storage.Record) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertRecords: rows})
}

func reversed[T any](rows []T) []T {
	out := make([]T, 0, len(rows))
	for i := range rows {
		out = append(out, rows[len(rows)-1-i])
	}
	return out
}

func recordNames(w *world) {
	tenant := w.id()
	names := []string{
		"Stripe", "stripe", "Stripe EU", "My Stripe", "100%", "100x", "a_b", "axb", `a\b`, "a*b", "[ab]", "a?b", "line\nbreak",
		"ÄPFEL und Öl", "Москва", "日本語", "it's", "",
	}
	for _, name := range names {
		w.insertRecords(tenant, w.record("proxy", name))
	}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"stripe", []string{"Stripe", "stripe"}},
		{"STRIPE", []string{"Stripe", "stripe"}},
		{"strip", nil},
		{"stripe*", []string{"Stripe", "stripe", "Stripe EU"}},
		{"*stripe", []string{"Stripe", "stripe", "My Stripe"}},
		{"*stripe*", []string{"Stripe", "stripe", "Stripe EU", "My Stripe"}},
		{"s*e*u", []string{"Stripe EU"}},
		{"s**e", []string{"Stripe", "stripe"}},
		{"100%", []string{"100%"}},
		{"%", nil},
		{"a_b", []string{"a_b"}},
		{`a\b`, []string{`a\b`}},
		{`a\*`, []string{`a\b`}},
		{"a*b", []string{"a_b", "axb", `a\b`, "a*b", "a?b"}},
		{"a?b", []string{"a?b"}},
		{"[ab]", []string{"[ab]"}},
		{"l*k", []string{"line\nbreak"}},
		{"äpfel UND öl", []string{"ÄPFEL und Öl"}},
		{"ä*ÖL", []string{"ÄPFEL und Öl"}},
		{"мОСКВА", []string{"Москва"}},
		{"日*", []string{"日本語"}},
		{"it's", []string{"it's"}},
		{"**l***k**", []string{"line\nbreak"}},
		{"*", names},
		{"", names},
	} {
		page, total := w.records(storage.RecordFilter{Tenant: tenant, Name: c.pattern, Limit: 100})
		var got []string
		for _, row := range reversed(page) {
			got = append(got, row.Name)
		}
		w.same("names like "+c.pattern, got, c.want)
		w.same("total of names like "+c.pattern, total, len(c.want))
	}
}

func (w *world) writeLogs(tenant storage.ID, entries ...storage.Log) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Logs: entries})
}

package storagetest

import (
	"fmt"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// deepOffset stores tokens of the same time, not in the order of their Ord.
func deepOffset(w *dbTest) {
	const n = 301
	tenant, tokens, mixed := w.id(), w.tokenSeries("t", n), make([]storage.Token, n)
	for i := range tokens {
		mixed[i*37%n] = tokens[i]
	}
	for part := range slices.Chunk(mixed, 1+n/3) {
		w.write(insert(tenant, part...))
	}
	want := tokenIDs(tokens)
	slices.Reverse(want)
	for _, offset := range []int{0, 150, 299, 300, 301, 302, 100_000} {
		page, total := w.list(storage.TokenFilter{Tenant: tenant, Offset: offset, Limit: 2, Count: true})
		w.same("page", tokenIDs(page), want[min(offset, n):min(offset+2, n)])
		w.same("total", total, n)
	}
}

func wideConditions(w *dbTest) {
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

// changed returns a token that differs from a stored one in all columns that an
// update replaces.
func (w *dbTest) changed(stored storage.Token) storage.Token {
	next := w.token(stored.ID)
	next.Ord, next.Type, next.CreatedBy, next.CreatedAt = stored.Ord, stored.Type, stored.CreatedBy, stored.CreatedAt
	next.Dedup, next.CVC, next.CVCExpiresAt, next.ExpiresAt = w.hash(), []byte("new cvc"), later, later
	next.Rev = 77 // ignored
	return next
}

func (w *dbTest) duplicate(tenant storage.ID, d storage.Duplicate) *storage.Token {
	w.Helper()
	return must(w.store.Duplicate(w.Context(), tenant, d))(w, "duplicate")
}

func (w *dbTest) writeLogs(tenant storage.ID, entries ...storage.Log) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Logs: entries})
}

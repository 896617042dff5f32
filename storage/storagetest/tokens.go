package storagetest

import (
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

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

package storagetest

import (
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func tokenRules() []rule {
	return []rule{
		{"a token comes back as it was written", tokenComesBack},
		{"ids that do not exist are left out", missingIDsAreLeftOut},
		{"ids are compared byte for byte", idsAreBytes},
		{"a token may have many hashes, and the same one twice", manyHashes},
	}
}

func tokenComesBack(w *world) {
	tenant := w.id()
	bare := w.token("bare")
	bare.ModifiedBy, bare.ModifiedAt = storage.ID{}, bare.ExpiresAt
	full := w.token("full")
	full.Dedup, full.CVC, full.CVCExpiresAt, full.ExpiresAt = w.hash(), []byte("sealed cvc \x00"), later, later
	loose := w.token("loose")
	loose.Set, loose.Containers = w.hash(), nil
	w.write(insert(tenant, bare, full, loose))
	w.hasTokens(tenant, bare, full, loose)
	got := w.tokens(tenant, "bare", "full", "loose")
	w.same("tokens", got, []storage.Token{ofTenant(tenant, bare), ofTenant(tenant, full), ofTenant(tenant, loose)})
	if got[0].CVC != nil {
		w.Errorf("the CVC of a token without one is %v, want nil", got[0].CVC)
	}
}

func missingIDsAreLeftOut(w *world) {
	tenant, token := w.id(), w.token("there")
	w.write(insert(tenant, token))
	w.same("tokens", w.tokens(tenant, "there", "missing", ""), []storage.Token{ofTenant(tenant, token)})
	w.same("no tokens", w.tokens(tenant, "missing"), []storage.Token(nil))
	w.same("tokens of no ids", w.tokens(tenant), []storage.Token(nil))
	w.same("an id asked for twice", tokenIDs(w.tokens(tenant, "there", "there")), []string{"there"})
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

func manyHashes(w *world) {
	tenant, token, other := w.id(), w.token("a"), w.token("b")
	for range 70 {
		token.Hashes = append(token.Hashes, w.hash())
	}
	token.Hashes = append(token.Hashes, token.Hashes[3], token.Hashes[3])
	other.Hashes = []storage.Hash{token.Hashes[3]}
	w.write(insert(tenant, token, other))
	for _, h := range token.Hashes[4:] {
		if h != token.Hashes[3] {
			w.same("tokens by one of many hashes", w.found(tenant, storage.HashIs(h)), []string{"a"})
		}
	}
	w.same("tokens by the hash that was given twice", w.found(tenant, storage.HashIs(token.Hashes[3])), []string{"b", "a"})

	u := updateOf(token, token)
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
	w.same("tokens by the hash, updated twice", w.found(tenant, storage.HashIs(token.Hashes[3])), []string{"b", "a"})
}

func (w *world) duplicate(tenant storage.ID, d storage.Duplicate) *storage.Token {
	w.Helper()
	token, err := w.store.Duplicate(w.Context(), tenant, d)
	if err != nil {
		w.Fatalf("duplicate: %v", err)
	}
	return token
}

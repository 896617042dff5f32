package storagetest

import (
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func tokenRules() []rule {
	return []rule{
		{"a token comes back as it was written", tokenComesBack},
		{"an insert stores the revision as given", insertKeepsRevision},
		{"ids that do not exist are left out", missingIDsAreLeftOut},
		{"Tokens returns expired ones too", tokensReturnsExpired},
		{"ids are compared byte for byte", idsAreBytes},
		{"an update replaces the row", updateReplaces},
		{"the stored revision becomes Rev+1", updateCountsRevision},
		{"an update does not change Ord, ID, Type, CreatedBy and CreatedAt", updateKeepsOrigin},
		{"an update replaces the hashes", updateReplacesHashes},
		{"KeepHashes keeps the stored hashes", updateKeepsHashes},
		{"a token may have many hashes, and the same one twice", manyHashes},
		{"a delete removes the row and its hashes", deleteRemoves},
		{"an id and a Dedup hash are free again after a delete", deleteFrees},
		{"ContainerSets returns every set that a token has ever been in", containerSets},
		{"Duplicate returns the oldest token", duplicateIsOldest},
		{"Duplicate returns nil without a match", duplicateNeedsBothHashes},
		{"Duplicate leaves out the token with id except", duplicateExcept},
		{"Duplicate leaves out what has expired at Now, unless zero", duplicateNotExpired},
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

func insertKeepsRevision(w *world) {
	tenant, token := w.id(), w.token("a")
	token.Rev = 41
	w.write(insert(tenant, token))
	w.hasTokens(tenant, token)
}

func missingIDsAreLeftOut(w *world) {
	tenant, token := w.id(), w.token("there")
	w.write(insert(tenant, token))
	w.same("tokens", w.tokens(tenant, "there", "missing", ""), []storage.Token{ofTenant(tenant, token)})
	w.same("no tokens", w.tokens(tenant, "missing"), []storage.Token(nil))
	w.same("tokens of no ids", w.tokens(tenant), []storage.Token(nil))
	w.same("an id asked for twice", tokenIDs(w.tokens(tenant, "there", "there")), []string{"there"})
}

func tokensReturnsExpired(w *world) {
	tenant, token := w.id(), w.token("old")
	token.ExpiresAt = earlier
	w.write(insert(tenant, token))
	w.same("tokens", w.tokens(tenant, "old"), []storage.Token{ofTenant(tenant, token)})
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

func updateReplaces(w *world) {
	tenant := w.id()
	first, other := w.token("a"), w.token("b")
	w.write(insert(tenant, first, other))
	next := w.changed(first)
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(first, next)}})
	next.Rev = 2
	w.hasTokens(tenant, next, other)

	cleared := w.token("a")
	cleared.Ord, cleared.CreatedBy, cleared.Rev = first.Ord, first.CreatedBy, 3
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(next, cleared)}})
	w.hasTokens(tenant, cleared, other)
	if got := w.tokens(tenant, "a"); got[0].CVC != nil {
		w.Errorf("the CVC is %v after an update without one, want nil", got[0].CVC)
	}
}

func updateCountsRevision(w *world) {
	tenant, token := w.id(), w.token("a")
	token.Rev = 7
	w.write(insert(tenant, token))
	for rev := int64(7); rev < 10; rev++ {
		u := updateOf(token, token)
		u.Rev, u.Token.Rev = rev, 99
		w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
		w.same("revision", w.tokens(tenant, "a")[0].Rev, rev+1)
	}
}

func updateKeepsOrigin(w *world) {
	tenant, token := w.id(), w.token("a")
	w.write(insert(tenant, token))
	u := updateOf(token, token)
	u.Token.ID, u.Token.Type, u.Token.CreatedBy, u.Token.CreatedAt = "b", "card", w.id(), later
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
	token.Rev = 2
	w.same("token", w.tokens(tenant, "a", "b"), []storage.Token{ofTenant(tenant, token)})
}

func updateReplacesHashes(w *world) {
	tenant, token, other := w.id(), w.token("a"), w.token("b")
	kept := token.Hashes[0]
	other.Hashes = token.Hashes
	w.write(insert(tenant, token, other))
	u := updateOf(token, token)
	u.Token.Hashes = []storage.Hash{kept, w.hash()}
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
	w.same("by the hash that was kept", w.found(tenant, storage.HashIs(kept)), []string{"b", "a"})
	w.same("by the hash that was dropped", w.found(tenant, storage.HashIs(token.Hashes[1])), []string{"b"})
	w.same("by the hash that was added", w.found(tenant, storage.HashIs(u.Token.Hashes[1])), []string{"a"})

	last := u
	last.Rev, last.Token.Hashes = 2, nil
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{last}})
	w.same("after all were dropped", w.found(tenant, storage.HashIs(kept)), []string{"b"})
}

func updateKeepsHashes(w *world) {
	tenant, token := w.id(), w.token("a")
	w.write(insert(tenant, token))
	u := updateOf(token, w.changed(token))
	u.KeepHashes, u.Token.Hashes = true, nil
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
	for _, h := range token.Hashes {
		w.same("tokens by a hash that was kept", w.found(tenant, storage.HashIs(h)), []string{"a"})
	}
	w.same("body", w.tokens(tenant, "a")[0].Body, u.Token.Body)
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

func deleteRemoves(w *world) {
	tenant, token, other := w.id(), w.token("a"), w.token("b")
	other.Hashes, other.Fingerprint, other.Expression = token.Hashes, token.Fingerprint, token.Expression
	w.write(insert(tenant, token, other))
	w.write(&storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(token)}})
	w.hasTokens(tenant, other)
	w.same("tokens", w.tokens(tenant, "a"), []storage.Token(nil))
	for _, where := range []storage.Cond{
		storage.HashIs(token.Hashes[0]), storage.HashIs(token.Hashes[1]), storage.FingerprintIs(token.Fingerprint),
	} {
		w.same("tokens found", w.found(tenant, where), []string{"b"})
	}
}

func deleteFrees(w *world) {
	tenant, token := w.id(), w.token("a")
	token.Dedup = w.hash()
	w.write(insert(tenant, token))
	w.write(&storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(token)}})
	next := w.token("a")
	next.Dedup = token.Dedup
	w.write(insert(tenant, next))
	w.hasTokens(tenant, next)
	w.same("tokens by the hash of the deleted one", w.found(tenant, storage.HashIs(token.Hashes[0])), []string{})

	u := updateOf(next, next)
	u.Token.Dedup = storage.Hash{}
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{u}})
	third := w.token("b")
	third.Dedup = token.Dedup
	w.write(insert(tenant, third))
}

func containerSets(w *world) {
	tenant := w.id()
	w.same("sets of a new tenant", w.containers(tenant), []string(nil))
	inSet := func(id string, i int) storage.Token {
		token := w.token(id)
		token.Set, token.Containers = sets[i].Set, sets[i].Containers
		return token
	}
	a, b, c := inSet("a", 0), inSet("b", 1), inSet("c", 1)
	w.write(insert(tenant, a, b, c))
	two := w.containers(tenant)
	if len(two) != 2 {
		w.Fatalf("got the sets %q, want two", two)
	}
	moved := inSet("c", 2)
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(c, moved)}})
	three := w.containers(tenant)
	c.Rev = 2
	c.Set = moved.Set
	w.write(&storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(a), deleteOf(c)}})
	w.same("sets after deletes", w.containers(tenant), three)
	got, err := w.store.ContainerSets(w.Context(), tenant)
	if err != nil || len(got) != 3 {
		w.Fatalf("container sets: got %d, %v, want 3", len(got), err)
	}
	for _, set := range got {
		for _, want := range sets {
			if want.Set == set.Set {
				w.same("containers", set.Containers, want.Containers)
			}
		}
	}
}

func (w *world) duplicate(tenant storage.ID, d storage.Duplicate) *storage.Token {
	w.Helper()
	token, err := w.store.Duplicate(w.Context(), tenant, d)
	if err != nil {
		w.Fatalf("duplicate: %v", err)
	}
	return token
}

// alike returns tokens with the same content, oldest first, and the query that
// finds them.
func (w *world) alike(n int) ([]storage.Token, storage.Duplicate) {
	tokens := w.tokenSeries("same", n)
	for i := range tokens {
		tokens[i].Fingerprint, tokens[i].Expression = tokens[0].Fingerprint, tokens[0].Expression
	}
	return tokens, storage.Duplicate{Fingerprint: tokens[0].Fingerprint, Expression: tokens[0].Expression, Now: now}
}

func duplicateIsOldest(w *world) {
	tenant := w.id()
	tokens, d := w.alike(3)
	w.write(insert(tenant, tokens[2]))
	w.write(insert(tenant, tokens[0]))
	w.write(insert(tenant, tokens[1]))
	want := ofTenant(tenant, tokens[0])
	w.same("duplicate", w.duplicate(tenant, d), &want)
}

func duplicateNeedsBothHashes(w *world) {
	tenant, token := w.id(), w.token("a")
	w.write(insert(tenant, token))
	for _, d := range []storage.Duplicate{
		{Fingerprint: token.Fingerprint, Expression: w.hash(), Now: now},
		{Fingerprint: w.key(), Expression: token.Expression, Now: now},
		{Now: now},
	} {
		w.same("duplicate", w.duplicate(tenant, d), (*storage.Token)(nil))
	}
}

func duplicateExcept(w *world) {
	tenant := w.id()
	tokens, d := w.alike(2)
	w.write(insert(tenant, tokens...))
	d.Except = tokens[0].ID
	w.same("id of the duplicate", w.duplicate(tenant, d).ID, tokens[1].ID)
	w.write(&storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(tokens[1])}})
	w.same("duplicate of itself alone", w.duplicate(tenant, d), (*storage.Token)(nil))
}

func duplicateNotExpired(w *world) {
	tenant := w.id()
	tokens, d := w.alike(3)
	tokens[0].ExpiresAt = earlier
	tokens[1].ExpiresAt = now
	tokens[2].ExpiresAt = later
	w.write(insert(tenant, tokens[:2]...))
	w.same("duplicate among the expired", w.duplicate(tenant, d), (*storage.Token)(nil))
	always := storage.Duplicate{Fingerprint: d.Fingerprint, Expression: d.Expression}
	w.same("id of the duplicate at no time", w.duplicate(tenant, always).ID, tokens[0].ID)
	w.write(insert(tenant, tokens[2]))
	w.same("id of the duplicate", w.duplicate(tenant, d).ID, tokens[2].ID)
}

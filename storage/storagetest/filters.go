package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func filterRules() []rule {
	return []rule{
		{"And holds when every one of its conditions does", filterAnd},
		{"Or holds when one of its conditions does", filterOr},
		{"Not holds when its condition does not", filterNot},
		{"conditions nest", filterNesting},
		{"SetIn holds for tokens whose containers are one of these sets", filterSets},
		{"TypeIn holds for tokens of one of these types", filterTypes},
		{"IDIn holds for tokens with one of these ids", filterIDs},
		{"IDPrefix holds for tokens whose id starts with it, byte for byte", filterPrefix},
		{"HashIs holds for tokens that were stored with this hash", filterHash},
		{"HashIs finds a token by each of its hashes, however many they are", filterManyHashes},
		{"FingerprintIs holds for tokens with this fingerprint", filterFingerprint},
		{"ByIs holds for tokens that this actor made, or last changed", filterActor},
		{"TimeIn holds for tokens whose time lies between From and To", filterTime},
		{"a token that was never modified is in no range of ModifiedAt", filterNeverModified},
		{"KeyBelow holds for tokens that are sealed under an older key", filterKeyBelow},
	}
}

// abc stores the tokens a, b and c, after a function has set them up.
func (w *world) abc(set func(t []storage.Token)) (tenant storage.ID, t []storage.Token) {
	w.Helper()
	tenant = w.id()
	t = []storage.Token{w.token("a"), w.token("b"), w.token("c")}
	set(t)
	w.write(insert(tenant, t...))
	return tenant, t
}

// holdsFor checks for which of the tokens a, b and c a condition holds, and
// that its negation holds for the others.
func (w *world) holdsFor(tenant storage.ID, where storage.Cond, want string) {
	w.Helper()
	text := func(where storage.Cond) string {
		var s string
		for _, id := range reversed(w.found(tenant, where)) {
			s += id
		}
		return s
	}
	rest := ""
	for _, id := range "abc" {
		if !slices.Contains([]rune(want), id) {
			rest += string(id)
		}
	}
	w.sameFor("tokens", where, text(where), want)
	w.sameFor("tokens by the opposite", where, text(storage.Not{Cond: where}), rest)
}

func id(ids ...string) storage.Cond { return storage.IDIn(ids) }

func filterAnd(w *world) {
	tenant, _ := w.abc(func([]storage.Token) {})
	w.holdsFor(tenant, storage.And{}, "abc")
	w.holdsFor(tenant, storage.And(nil), "abc")
	w.holdsFor(tenant, storage.And{id("a", "b")}, "ab")
	w.holdsFor(tenant, storage.And{id("a", "b"), id("b", "c")}, "b")
	w.holdsFor(tenant, storage.And{id("a"), id("b"), id("a")}, "")
}

func filterOr(w *world) {
	tenant, _ := w.abc(func([]storage.Token) {})
	w.holdsFor(tenant, storage.Or{}, "")
	w.holdsFor(tenant, storage.Or(nil), "")
	w.holdsFor(tenant, storage.Or{id("a")}, "a")
	w.holdsFor(tenant, storage.Or{id("a"), id("b"), id("a")}, "ab")
	w.holdsFor(tenant, storage.Or{id("x"), id("y")}, "")
}

func filterNot(w *world) {
	tenant, _ := w.abc(func([]storage.Token) {})
	w.holdsFor(tenant, storage.Not{Cond: id("a")}, "bc")
	w.holdsFor(tenant, storage.Not{Cond: storage.Not{Cond: id("a")}}, "a")
	w.holdsFor(tenant, storage.Not{Cond: storage.And{}}, "")
	w.holdsFor(tenant, storage.Not{Cond: storage.Or{}}, "abc")
	w.holdsFor(tenant, storage.Not{Cond: storage.Or{id("a"), storage.And{id("b", "c"), id("c")}}}, "b")
}

func filterNesting(w *world) {
	tenant, _ := w.abc(func([]storage.Token) {})
	w.holdsFor(tenant, storage.Or{storage.And{id("a"), storage.Or{}}, id("c")}, "c")
	w.holdsFor(tenant, storage.And{storage.Or{id("a"), id("b")}, storage.Or{id("b"), id("c")}}, "b")
	w.holdsFor(tenant, storage.Or{storage.And{id("a"), id("a")}, storage.And{id("b"), id("c")}, id("b")}, "ab")
	deep := id("a", "b")
	for range 10 {
		deep = storage.Not{Cond: storage.And{storage.Or{deep, storage.Or{}}, storage.And{}}}
	}
	w.holdsFor(tenant, deep, "ab")
	var wide storage.Or
	for i := range 200 {
		wide = append(wide, id(fmt.Sprintf("id%d", i)))
	}
	w.holdsFor(tenant, append(wide, id("c")), "c")
}

func filterSets(w *world) {
	tenant, _ := w.abc(func(t []storage.Token) {
		for i := range t {
			t[i].Set, t[i].Containers = sets[i%2].Set, sets[i%2].Containers
		}
	})
	w.holdsFor(tenant, storage.SetIn{sets[0].Set}, "ac")
	w.holdsFor(tenant, storage.SetIn{sets[1].Set, sets[2].Set}, "b")
	w.holdsFor(tenant, storage.SetIn{sets[1].Set, sets[0].Set, sets[1].Set}, "abc")
	w.holdsFor(tenant, storage.SetIn{w.hash()}, "")
	w.holdsFor(tenant, storage.SetIn{}, "")
	w.holdsFor(tenant, storage.And{storage.SetIn{sets[0].Set}, storage.SetIn{sets[1].Set}}, "")
}

func filterTypes(w *world) {
	tenant, _ := w.abc(func(t []storage.Token) { t[0].Type, t[1].Type, t[2].Type = "card", "bank", "card" })
	w.holdsFor(tenant, storage.TypeIn{"card"}, "ac")
	w.holdsFor(tenant, storage.TypeIn{"Card"}, "")
	w.holdsFor(tenant, storage.TypeIn{"token", "bank"}, "b")
	w.holdsFor(tenant, storage.TypeIn{"bank", "card", "bank"}, "abc")
	w.holdsFor(tenant, storage.TypeIn{}, "")
}

func filterIDs(w *world) {
	tenant, _ := w.abc(func([]storage.Token) {})
	w.holdsFor(tenant, storage.IDIn{"c", "a", "missing", "a"}, "ac")
	w.holdsFor(tenant, storage.IDIn{"A"}, "")
	w.holdsFor(tenant, storage.IDIn{}, "")
	many := storage.IDIn{"b"}
	for i := range 1000 {
		many = append(many, fmt.Sprintf("id%d", i))
	}
	w.holdsFor(tenant, many, "b")
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

func filterHash(w *world) {
	tenant, t := w.abc(func(t []storage.Token) { t[2].Hashes = append(t[2].Hashes, t[0].Hashes[1]) })
	w.holdsFor(tenant, storage.HashIs(t[0].Hashes[0]), "a")
	w.holdsFor(tenant, storage.HashIs(t[0].Hashes[1]), "ac")
	w.holdsFor(tenant, storage.HashIs(w.hash()), "")
	w.holdsFor(tenant, storage.HashIs{}, "")
	w.holdsFor(tenant, storage.And{storage.HashIs(t[2].Hashes[0]), storage.HashIs(t[2].Hashes[2])}, "c")
	w.holdsFor(tenant, storage.Or{storage.HashIs(t[0].Hashes[1]), storage.HashIs(t[2].Hashes[0])}, "ac")
}

// filterManyHashes creates single tokens with different numbers of hashes.
func filterManyHashes(w *world) {
	tenant := w.id()
	for n := range 20 {
		token := w.token(fmt.Sprint("hashes", n))
		token.Hashes = nil
		for range n {
			token.Hashes = append(token.Hashes, w.hash())
		}
		given := token.Hashes
		token.Hashes = append(token.Hashes, token.Hashes...) // repeated hashes count once
		created := insert(tenant, token)
		created.Logs = []storage.Log{w.log("token", token.ID)}
		w.write(created)
		for _, h := range given {
			w.same(fmt.Sprintf("token of %d hashes by one of them", n), w.found(tenant, storage.HashIs(h)), []string{token.ID})
		}
	}
}

func filterFingerprint(w *world) {
	tenant, t := w.abc(func(t []storage.Token) { t[2].Fingerprint = t[0].Fingerprint })
	w.holdsFor(tenant, storage.FingerprintIs(t[0].Fingerprint), "ac")
	w.holdsFor(tenant, storage.FingerprintIs(t[1].Fingerprint), "b")
	w.holdsFor(tenant, storage.FingerprintIs(w.key()), "")
}

func filterActor(w *world) {
	alice, bob := w.id(), w.id()
	tenant, _ := w.abc(func(t []storage.Token) {
		t[0].CreatedBy, t[0].ModifiedBy, t[0].ModifiedAt = alice, storage.ID{}, time.Time{}
		t[1].CreatedBy, t[1].ModifiedBy = alice, bob
		t[2].CreatedBy, t[2].ModifiedBy = bob, alice
	})
	w.holdsFor(tenant, storage.ByIs{Field: storage.CreatedBy, ID: alice}, "ab")
	w.holdsFor(tenant, storage.ByIs{Field: storage.CreatedBy, ID: bob}, "c")
	w.holdsFor(tenant, storage.ByIs{Field: storage.ModifiedBy, ID: alice}, "c")
	w.holdsFor(tenant, storage.ByIs{Field: storage.ModifiedBy, ID: bob}, "b")
	w.holdsFor(tenant, storage.ByIs{Field: storage.ModifiedBy, ID: w.id()}, "")
}

func filterTime(w *world) {
	tick := func(n int) time.Time { return now.Add(time.Duration(n) * time.Microsecond) }
	tenant, _ := w.abc(func(t []storage.Token) {
		for i := range t {
			t[i].CreatedAt, t[i].ModifiedAt = tick(i), tick(i)
		}
	})
	for _, field := range []storage.Field{storage.CreatedAt, storage.ModifiedAt} {
		for _, c := range []struct {
			in   storage.TimeIn
			want string
		}{
			{storage.TimeIn{}, "abc"},
			{storage.TimeIn{ExcludeFrom: true, ExcludeTo: true}, "abc"},
			{storage.TimeIn{From: tick(1)}, "bc"},
			{storage.TimeIn{From: tick(1), ExcludeFrom: true}, "c"},
			{storage.TimeIn{To: tick(1)}, "ab"},
			{storage.TimeIn{To: tick(1), ExcludeTo: true}, "a"},
			{storage.TimeIn{From: tick(0), To: tick(2)}, "abc"},
			{storage.TimeIn{From: tick(0), To: tick(2), ExcludeFrom: true, ExcludeTo: true}, "b"},
			{storage.TimeIn{From: tick(1), To: tick(1)}, "b"},
			{storage.TimeIn{From: tick(1), To: tick(1), ExcludeTo: true}, ""},
			{storage.TimeIn{From: tick(2), To: tick(0)}, ""},
			{storage.TimeIn{From: later}, ""},
		} {
			c.in.Field = field
			w.holdsFor(tenant, c.in, c.want)
		}
	}
}

func filterNeverModified(w *world) {
	tenant, _ := w.abc(func(t []storage.Token) { t[1].ModifiedBy, t[1].ModifiedAt = storage.ID{}, time.Time{} })
	for _, in := range []storage.TimeIn{
		{}, {From: earlier}, {To: later}, {From: earlier, To: later}, {To: later, ExcludeTo: true},
	} {
		in.Field = storage.ModifiedAt
		w.holdsFor(tenant, in, "ac")
		w.holdsFor(tenant, storage.Not{Cond: storage.Or{in, id("x")}}, "b")
	}
}

func filterKeyBelow(w *world) {
	tenant, _ := w.abc(func(t []storage.Token) { t[0].KeyVersion, t[1].KeyVersion, t[2].KeyVersion = 1, 2, 3 })
	for version, want := range []string{"", "", "a", "ab", "abc", "abc"} {
		w.holdsFor(tenant, storage.KeyBelow(version), want)
	}
}

package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func countRules() []rule {
	return []rule{
		{"totals under sets and types are exact after inserts, updates and deletes", countsThroughLife},
		{"totals have no expired tokens at Now, and all without Now", countsOfExpired},
		{"totals are not changed by a refused change", countsAfterRefusal},
		{"totals do not depend on the page", countsOfPages},
		{"totals are exact below CountUpTo, and at least that from there on", countsUpTo},
	}
}

var types = []string{"token", "card", "bank"}

// census has the tokens that the totals of a tenant should count.
type census []storage.Token

// check compares totals with the expected tokens, by set and type and by
// conditions that have no counters.
func (c census) check(w *world, tenant storage.ID, at time.Time) {
	w.Helper()
	count := func(where storage.Cond, holds func(*storage.Token) bool) {
		w.Helper()
		want := 0
		for i := range c {
			alive := at.IsZero() || c[i].ExpiresAt.IsZero() || c[i].ExpiresAt.After(at)
			if alive && holds(&c[i]) {
				want++
			}
		}
		got := w.count(storage.TokenFilter{Tenant: tenant, Where: where, Now: at})
		w.sameFor("total", where, got, want)
	}
	count(nil, func(*storage.Token) bool { return true })
	count(storage.Or{}, func(*storage.Token) bool { return false })
	for i, set := range sets {
		typ := types[i]
		inSet := func(t *storage.Token) bool { return t.Set == set.Set }
		count(storage.SetIn{set.Set}, inSet)
		count(storage.Not{Cond: storage.SetIn{set.Set}}, func(t *storage.Token) bool { return !inSet(t) })
		count(storage.And{storage.SetIn{set.Set}, storage.TypeIn{typ}},
			func(t *storage.Token) bool { return inSet(t) && t.Type == typ })
		count(storage.Or{storage.SetIn{set.Set}, storage.TypeIn{typ}},
			func(t *storage.Token) bool { return inSet(t) || t.Type == typ })
	}
	count(storage.TypeIn{"card", "bank"}, func(t *storage.Token) bool { return t.Type != "token" })
	count(storage.And{storage.TypeIn{"card"}, storage.IDPrefix("t")}, func(t *storage.Token) bool { return t.Type == "card" })
}

// mixedTokens returns tokens of all types and sets, some of which expire.
func (w *world) mixedTokens(n int) []storage.Token {
	tokens := w.tokenSeries("t", n)
	for i := range tokens {
		set := sets[i%2]
		tokens[i].Set, tokens[i].Containers = set.Set, set.Containers
		tokens[i].Type = types[i%3]
		tokens[i].ExpiresAt = []time.Time{{}, earlier, now, later}[i%4]
	}
	return tokens
}

func countsThroughLife(w *world) {
	tenant := w.id()
	tokens := w.mixedTokens(30)
	census(nil).check(w, tenant, time.Time{})
	w.write(insert(tenant, tokens[:20]...))
	for i := 20; i < 30; i++ {
		w.write(insert(tenant, tokens[i]))
	}
	census(tokens).check(w, tenant, time.Time{})

	var updates []storage.TokenUpdate
	for i := range tokens[:12] {
		next := tokens[i]
		next.Set, next.Containers = sets[(i+1)%3].Set, sets[(i+1)%3].Containers
		updates = append(updates, updateOf(tokens[i], next))
		tokens[i] = next
		tokens[i].Rev = 2
	}
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: updates})
	census(tokens).check(w, tenant, time.Time{})

	var deletes []storage.TokenDelete
	for _, token := range tokens[5:25] {
		deletes = append(deletes, deleteOf(token))
	}
	tokens = slices.Delete(tokens, 5, 25)
	w.write(&storage.Change{Tenant: tenant, DeleteTokens: deletes})
	census(tokens).check(w, tenant, time.Time{})
	census(tokens).check(w, tenant, now)
}

func countsOfExpired(w *world) {
	tenant := w.id()
	tokens := w.mixedTokens(24)
	w.write(insert(tenant, tokens...))
	for _, at := range []time.Time{{}, earlier.Add(-time.Microsecond), earlier, now, later} {
		census(tokens).check(w, tenant, at)
	}
	next := tokens[0]
	next.ExpiresAt = earlier
	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(tokens[0], next)}})
	tokens[0] = next
	census(tokens).check(w, tenant, now)
}

func countsAfterRefusal(w *world) {
	tenant := w.id()
	tokens := w.mixedTokens(12)
	w.write(insert(tenant, tokens...))
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		batch := w.mixedTokens(4)
		for i := range batch {
			batch[i].ID = fmt.Sprintf("t-new%d", i)
		}
		batch[random.IntN(4)].ID = tokens[random.IntN(12)].ID
		if err := w.store.Write(w.Context(), insert(tenant, batch...)); err == nil {
			w.Fatal("a taken id was accepted")
		}
	}
	census(tokens).check(w, tenant, time.Time{})
}

func countsOfPages(w *world) {
	tenant := w.id()
	w.write(insert(tenant, w.mixedTokens(15)...))
	for _, where := range []storage.Cond{nil, storage.SetIn{sets[0].Set, sets[1].Set}, storage.IDPrefix("t")} {
		for _, size := range []int{0, 1, 15, 99} {
			for _, offset := range []int{0, 3, 15, 99} {
				_, total := w.list(storage.TokenFilter{
					Tenant: tenant, Where: where, Offset: offset, Limit: size, Count: true,
				})
				w.same("total", total, 15)
			}
		}
	}
}

func countsUpTo(w *world) {
	tenant := w.id()
	w.write(insert(tenant, w.mixedTokens(15)...))
	var entries []storage.Log
	for range 10 {
		entries = append(entries, w.log("token", "t"))
	}
	w.writeLogs(tenant, entries...)
	for _, upTo := range []int{0, 1, 9, 10, 11, 15, 16, 99} {
		for _, where := range []storage.Cond{nil, storage.SetIn{sets[0].Set, sets[1].Set}, storage.IDPrefix("t"), storage.Not{Cond: storage.IDIn{"none"}}} {
			for _, offset := range []int{0, 14, 99} {
				_, total := w.list(storage.TokenFilter{Tenant: tenant, Where: where, Offset: offset, Limit: 1, Count: true, CountUpTo: upTo})
				w.sameTotal(where, upTo, total, 15)
			}
		}
		_, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 1, CountUpTo: upTo})
		w.sameTotal("logs", upTo, total, 10)
		_, total = w.logs(storage.LogFilter{Tenant: tenant, Operation: "create", Limit: 1, CountUpTo: upTo})
		w.sameTotal("logs of an operation", upTo, total, 10)
	}
}

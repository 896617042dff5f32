package storagetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func conflictRules() []rule {
	return []rule{
		{"TokenIDTaken, DuplicateTaken: the change has the key twice", tokenIDTwice},
		{"an Ord is a key too and is never overwritten", ordTaken},
		{"DuplicateTaken: UpdateTokens, the Dedup hash is taken", dedupTakenByUpdate},
		{"KeyTaken: a record's key is taken, by any tenant", recordKeyTaken},
		{"KeyTaken: UpdateRecords, a key is taken", recordKeyTakenByUpdate},
		{"ErrLate: the record that a change holds has another revision, or is missing", holdStale},
		{"guards are judged before anything is written", guardsComeFirst},
		{"errors never carry a column's content", errorsHaveNoContent},
	}
}

func holdStale(w *world) {
	tenant, ring := w.id(), w.record("ring", "")
	w.write(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{ring}})
	held := storage.Hold{Kind: ring.Kind, ID: ring.ID, Rev: ring.Rev}
	stale, missing := held, held
	stale.Rev--
	missing.ID = w.id()
	w.unchanged(tenant, func() {
		for _, n := range []int{1, 2, 1500} {
			for _, h := range []storage.Hold{stale, missing} {
				c := insert(tenant, w.tokenSeries("stale", n)...)
				c.Hold, c.Logs = &h, []storage.Log{w.log("token", "")}
				if err := w.store.Write(w.Context(), c); !errors.Is(err, storage.ErrLate) {
					w.Errorf("%d tokens: got %v, want ErrLate", n, err)
				}
			}
		}
	})
	var written []storage.Token
	for _, n := range []int{1, 2} {
		c := insert(tenant, w.tokenSeries(fmt.Sprintf("held%d-", n), n)...)
		c.Hold, c.Logs = &held, []storage.Log{w.log("token", "")}
		w.write(c)
		written = append(written, c.InsertTokens...)
	}
	w.hasTokens(tenant, written...)
}

func tokenIDTwice(w *world) {
	tenant, tokens := w.id(), w.tokenSeries("new", 4)
	tokens[3].ID = tokens[1].ID
	w.refused(insert(tenant, tokens...), storage.TokenIDTaken, 1, 3)
	twice := w.tokenSeries("new", 3)
	twice[0].Dedup = w.hash()
	twice[2].Dedup = twice[0].Dedup
	w.refused(insert(tenant, twice...), storage.DuplicateTaken, 0, 2)
	w.hasTokens(tenant)
}

func ordTaken(w *world) {
	tenant, first, second := w.id(), w.token("first"), w.token("second")
	second.Ord = first.Ord
	w.write(insert(tenant, first))
	if err := w.store.Write(w.Context(), insert(tenant, second)); err == nil {
		w.Error("a second token with the same Ord was accepted")
	}
	w.hasTokens(tenant, first)
	w.same("tokens by the hash of the refused one", w.found(tenant, storage.HashIs(second.Hashes[0])), []string{})
}

func dedupTakenByUpdate(w *world) {
	tenant, tokens := w.id(), w.tokenSeries("t", 3)
	for i := range tokens {
		tokens[i].Dedup = w.hash()
	}
	w.write(insert(tenant, tokens...))
	own, foreign := updateOf(tokens[0], tokens[0]), updateOf(tokens[1], tokens[1])
	foreign.Token.Dedup = tokens[2].Dedup
	w.refused(&storage.Change{
		Tenant: tenant, UpdateTokens: []storage.TokenUpdate{own, foreign},
	}, storage.DuplicateTaken, 1)
	w.hasTokens(tenant, tokens...)

	w.write(&storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{own}})
	tokens[0].Rev = 2
	w.hasTokens(tenant, tokens...)
}

func recordKeyTaken(w *world) {
	a, b := w.id(), w.id()
	taken := w.record("session", "taken")
	w.write(&storage.Change{Tenant: a, InsertRecords: []storage.Record{taken}})
	for _, tenant := range []storage.ID{a, b} {
		for _, key := range []storage.Key{taken.Key, taken.AltKey} {
			byKey, byAlt := w.record("session", "n"), w.record("application", "n")
			byKey.Key, byAlt.AltKey = key, key
			fresh := w.record("proxy", "fresh")
			w.refused(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{fresh, byKey}}, storage.KeyTaken, 1)
			w.refused(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{byAlt, fresh}}, storage.KeyTaken, 0)
			w.same("lookup of a refused record", w.lookup(fresh.Key), (*storage.Record)(nil))
		}
	}
	one, two := w.record("proxy", "one"), w.record("proxy", "two")
	two.AltKey = one.Key
	w.refused(&storage.Change{Tenant: b, InsertRecords: []storage.Record{one, two}}, storage.KeyTaken, 0, 1)
	if _, n := w.records(storage.RecordFilter{Limit: 10}); n != 1 {
		w.Errorf("got %d records, want the earlier record", n)
	}
	w.same("name of the record that has the key", w.lookup(taken.Key).Name, "taken")
}

func recordKeyTakenByUpdate(w *world) {
	a, b := w.id(), w.id()
	taken, mine := w.record("proxy", "taken"), w.record("proxy", "mine")
	w.write(&storage.Change{Tenant: a, InsertRecords: []storage.Record{taken}})
	w.write(&storage.Change{Tenant: b, InsertRecords: []storage.Record{mine}})
	next := mine
	next.Name, next.AltKey = "changed", taken.Key
	w.refused(&storage.Change{
		Tenant: b, UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: next}},
	}, storage.KeyTaken, 0)
	w.same("name", w.lookup(mine.Key).Name, "mine")
	w.same("lookup by the key that was to be replaced", w.lookup(mine.AltKey).Name, "mine")
	w.same("lookup by the key that was to be taken", w.lookup(taken.Key).Name, "taken")
}

// guardsComeFirst writes changes that would be accepted if a part of them were
// written before the other guards are checked.
func guardsComeFirst(w *world) {
	tenant, token, record := w.id(), w.token("a"), w.record("proxy", "a")
	token.Dedup = w.hash()
	w.write(&storage.Change{
		Tenant: tenant, InsertTokens: []storage.Token{token}, InsertRecords: []storage.Record{record},
	})
	w.unchanged(tenant, func() {
		sameID := w.token("a")
		w.refused(&storage.Change{
			Tenant: tenant, InsertTokens: []storage.Token{sameID},
			DeleteTokens: []storage.TokenDelete{deleteOf(token)},
		}, storage.TokenIDTaken, 0)
		sameContent := w.token("b")
		sameContent.Dedup = token.Dedup
		w.refused(&storage.Change{
			Tenant: tenant, InsertTokens: []storage.Token{sameContent},
			DeleteTokens: []storage.TokenDelete{deleteOf(token)},
		}, storage.DuplicateTaken, 0)
		sameKey := w.record("proxy", "b")
		sameKey.Key = record.Key
		w.refused(&storage.Change{
			Tenant: tenant, InsertRecords: []storage.Record{sameKey},
			DeleteRecords: []storage.RecordDelete{{Kind: record.Kind, ID: record.ID, Rev: 1}},
		}, storage.KeyTaken, 0)
	})
}

func errorsHaveNoContent(w *world) {
	const canary = "canary4242"
	tenant := w.id()
	e := w.example(canary)
	e.token.Type, e.record.Name, e.record.Kind, e.log.Message = canary, canary, canary, canary
	w.write(e.insert(tenant))
	sameOrd := w.token(canary + "2")
	sameOrd.Ord = e.token.Ord
	for name, c := range map[string]*storage.Change{
		"all":    e.insert(tenant),
		"token":  insert(tenant, e.token),
		"ord":    insert(tenant, sameOrd),
		"record": {Tenant: tenant, InsertRecords: []storage.Record{e.record}},
		"stale":  {Tenant: tenant, DeleteRecords: []storage.RecordDelete{{Kind: canary, ID: e.record.ID, Rev: 9}}},
	} {
		err := w.store.Write(w.Context(), c)
		if err == nil || strings.Contains(err.Error(), "4242") {
			w.Errorf("%s: got error %v, want one without a value in it", name, err)
		}
	}
}

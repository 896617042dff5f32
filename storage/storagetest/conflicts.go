package storagetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func holdStale(w *dbTest) {
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

func ordTaken(w *dbTest) {
	tenant, first, second := w.id(), w.token("first"), w.token("second")
	second.Ord = first.Ord
	w.write(insert(tenant, first))
	if err := w.store.Write(w.Context(), insert(tenant, second)); err == nil {
		w.Error("a second token with the same Ord was accepted")
	}
	w.hasTokens(tenant, first)
	w.same("tokens by the hash of the refused one", w.found(tenant, storage.HashIs(second.Hashes[0])), []string{})
}

// guardsComeFirst writes changes that would be accepted if a part of them were
// written before the other guards are checked.
func guardsComeFirst(w *dbTest) {
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

func errorsHaveNoContent(w *dbTest) {
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

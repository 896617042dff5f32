package storagetest

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

func txStrangers(w *txWorld) {
	if !w.txStorage().Beside() {
		return
	}
	tenant, mine := w.id(), w.token("mine")
	tx, in := w.begin()
	w.apply(in, insert(tenant, mine))
	alike := w.tokenSeries("alike", 30)
	errs := try(len(alike), func(i int) error {
		t := alike[i]
		t.Type, t.Set, t.Containers = mine.Type, mine.Set, mine.Containers
		alike[i] = t
		of := tenant
		if i%3 == 0 {
			of = storage.ID{0xff}
		}
		return w.store.Write(w.Context(), insert(of, t))
	})
	if err := errors.Join(errs...); err != nil { // writes that wait for the transaction give up
		w.Errorf("others waited: %v", err)
	}
	w.commit(tx)
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), 21)
}

func txWaits(w *txWorld) {
	tenant, mine := w.id(), w.token("mine")
	tx, in := w.begin()
	w.apply(in, insert(tenant, mine))
	sent := make(chan struct{}, 4)
	done := make(chan []error, 1)
	go func() {
		done <- try(4, func(i int) error {
			sent <- struct{}{}
			if i == 0 {
				return w.store.Write(w.Context(), insert(tenant, w.token("mine"))) // the same id
			}
			return w.store.Write(w.Context(), insert(tenant, w.token("other"+string(rune('a'+i)))))
		})
	}()
	for range 4 {
		<-sent
	}
	w.apply(in, insert(tenant, w.token("more")))
	w.commit(tx)
	errs := <-done
	w.isConflict(errs[0], storage.TokenIDTaken, 0)
	if err := errors.Join(errs[1:]...); err != nil {
		w.Error(err)
	}
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), 5)
}

func txShared(w *txWorld) {
	tenant, tokens := w.id(), w.tokenSeries("t", 12)
	tx, in := w.begin()
	errs := try(len(tokens), func(i int) error {
		if i%4 == 3 { // rejected, between others that are accepted
			_ = in.Write(w.Context(), &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(tokens[i])}})
		}
		if _, err := in.Tokens(w.Context(), tenant, []string{tokens[i].ID}); err != nil {
			return err
		}
		return in.Write(w.Context(), insert(tenant, tokens[i]))
	})
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
	w.commit(tx)
	w.hasTokens(tenant, tokens...)
}

package storagetest

import (
	"bytes"
	"fmt"

	"github.com/seed-72ea4aab/vault/storage"
)

func bigRows(w *dbTest) {
	tenant, e := w.id(), w.example("big")
	body := bytes.Repeat([]byte("0123456789abcde\xff"), 5<<20/16)
	part := body[:1<<20]
	e.token.Body, e.record.Body, e.job.Payload, e.claim.Answer = body, part, part, part
	w.write(e.insert(tenant))
	jobs := w.lease(tenant, w.id(), 1)
	if len(jobs) != 1 {
		w.Fatalf("got %d jobs, want one", len(jobs))
	}
	if got := w.tokens(tenant, "big")[0].Body; !bytes.Equal(got, body) {
		w.Errorf("the body of the token came back different, with %d bytes", len(got))
	}
	for what, got := range map[string][]byte{
		"record": w.lookup(e.record.Key).Body,
		"job":    jobs[0].Payload,
		"claim":  w.claimed(tenant, e.claim.Key).Answer,
	} {
		if !bytes.Equal(got, part) {
			w.Errorf("the body of the %s came back different, with %d bytes", what, len(got))
		}
	}
}

func (w *dbTest) bigBatch(n int) []storage.Token {
	tokens := w.tokenSeries("t", n)
	for i := range tokens {
		tokens[i].Set, tokens[i].Containers = sets[i%2].Set, sets[i%2].Containers
		tokens[i].Type = types[i%3]
		tokens[i].Hashes = tokens[i].Hashes[:1]
	}
	return tokens
}

func bigChange(w *dbTest) {
	const n = 10_000
	tenant, tokens := w.id(), w.bigBatch(n)
	w.write(insert(tenant, tokens...))
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), n)
	inSet := storage.And{storage.SetIn{sets[1].Set}, storage.TypeIn{"card"}}
	w.same("total of a set and type", w.count(storage.TokenFilter{Tenant: tenant, Where: inSet}), 1667)
	for _, i := range []int{0, 1, n / 2, n - 1} {
		w.same("token", w.tokens(tenant, tokens[i].ID), []storage.Token{ofTenant(tenant, tokens[i])})
		w.same("token by hash", w.found(tenant, storage.HashIs(tokens[i].Hashes[0])), []string{tokens[i].ID})
	}
	page, _ := w.list(storage.TokenFilter{Tenant: tenant, Offset: n - 10, Limit: 2})
	w.same("deep page", tokenIDs(page), []string{"t0009", "t0008"})
}

func bigRefusal(w *dbTest) {
	tenant, taken := w.id(), w.token("t0777")
	w.write(insert(tenant, taken))
	w.refused(insert(tenant, w.bigBatch(2000)...), storage.TokenIDTaken, 777)
	w.hasTokens(tenant, taken)
}

func manyIDs(w *dbTest) {
	tenant := w.id()
	tokens := w.tokenSeries("t", 1500)
	w.write(insert(tenant, tokens...))
	ids := tokenIDs(tokens)
	for i := range 500 {
		ids = append(ids, fmt.Sprintf("missing%d", i))
	}
	got, err := w.store.Tokens(w.Context(), tenant, ids)
	if err != nil || len(got) != 1500 {
		w.Errorf("got %d tokens, %v, want 1500", len(got), err)
	}
}

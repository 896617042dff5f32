package storagetest

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

func ownershipRules() []rule {
	return []rule{
		{"arguments belong to the backend only until the call returns", argumentsAreTheCallers},
		{"returned slices and the bytes in them belong to the caller", resultsAreTheCallers},
		{"a call does not change its arguments", argumentsAreNotChanged},
	}
}

// scribble overwrites everything that a change points to.
func scribble(c *storage.Change) {
	for i := range c.InsertTokens {
		token := &c.InsertTokens[i]
		clear(token.Body)
		clear(token.CVC)
		for j := range token.Hashes {
			token.Hashes[j] = storage.Hash{0xee}
		}
		for j := range token.Containers {
			token.Containers[j] = "scribbled"
		}
		*token = storage.Token{ID: "scribbled"}
	}
	for i := range c.InsertRecords {
		clear(c.InsertRecords[i].Body)
		c.InsertRecords[i] = storage.Record{Name: "scribbled"}
	}
	for i := range c.InsertJobs {
		clear(c.InsertJobs[i].Payload)
		c.InsertJobs[i] = storage.Job{Kind: "scribbled"}
	}
	clear(c.Claim.Answer)
	*c.Claim = storage.ClaimChange{}
	clear(c.Logs)
}

// copyOf returns a change that shares no memory with the given one.
func copyOf(c *storage.Change) *storage.Change {
	out := *c
	out.InsertTokens = slices.Clone(c.InsertTokens)
	for i := range out.InsertTokens {
		token := &out.InsertTokens[i]
		token.Body, token.CVC = slices.Clone(token.Body), slices.Clone(token.CVC)
		token.Hashes, token.Containers = slices.Clone(token.Hashes), slices.Clone(token.Containers)
	}
	out.InsertRecords = slices.Clone(c.InsertRecords)
	for i := range out.InsertRecords {
		out.InsertRecords[i].Body = slices.Clone(out.InsertRecords[i].Body)
	}
	out.InsertJobs = slices.Clone(c.InsertJobs)
	for i := range out.InsertJobs {
		out.InsertJobs[i].Payload = slices.Clone(out.InsertJobs[i].Payload)
	}
	claim := *c.Claim
	claim.Answer = slices.Clone(claim.Answer)
	out.Claim = &claim
	out.Logs = slices.Clone(c.Logs)
	return &out
}

func argumentsAreTheCallers(w *world) {
	tenant := w.id()
	c := w.full(tenant, "t")
	for i := range c.InsertTokens {
		c.InsertTokens[i].CVC = []byte("sealed cvc")
	}
	kept := copyOf(c)
	given := copyOf(c)
	w.write(given)
	before := w.state(tenant)
	scribble(given)
	w.same("state", w.state(tenant), before)
	w.hasTokens(tenant, kept.InsertTokens...)
	for _, token := range kept.InsertTokens {
		w.same("tokens by hash", w.found(tenant, storage.HashIs(token.Hashes[1])), []string{token.ID})
	}
	w.same("claim", w.claimed(tenant, kept.Claim.Key), &kept.Claim.Claim)
}

func resultsAreTheCallers(w *world) {
	tenant := w.id()
	c := w.full(tenant, "t")
	w.write(copyOf(c))
	first := w.state(tenant)
	kept := w.state(tenant)
	for i := range first.Tokens {
		clear(first.Tokens[i].Body)
		clear(first.Tokens[i].Containers)
		first.Tokens[i] = storage.Token{}
	}
	for i := range first.Records {
		clear(first.Records[i].Body)
	}
	for i := range first.Answers {
		clear(first.Answers[i].Body)
	}
	for i := range first.Payloads {
		clear(first.Payloads[i].Body)
	}
	containerSets, err := w.store.ContainerSets(w.Context(), tenant)
	if err != nil {
		w.Fatal(err)
	}
	for _, set := range containerSets {
		clear(set.Containers)
	}
	clear(w.lookup(c.InsertRecords[0].Key).Body)
	clear(w.claimed(tenant, c.Claim.Key).Answer)
	for _, token := range w.tokens(tenant, "t0000", "t0001") {
		clear(token.Body)
		clear(token.Containers)
	}
	w.same("state", w.state(tenant), kept)
	w.same("claim", w.claimed(tenant, c.Claim.Key), &c.Claim.Claim)
	w.hasTokens(tenant, c.InsertTokens...)
}

func argumentsAreNotChanged(w *world) {
	tenant := w.id()
	c := w.full(tenant, "t")
	slices.Reverse(c.InsertTokens)
	kept := copyOf(c)
	w.write(c)
	w.same("change", c, kept)
	c.InsertTokens[2].ID = "new"
	kept = copyOf(c)
	if err := w.store.Write(w.Context(), c); err == nil {
		w.Fatal("taken ids were accepted")
	}
	w.same("refused change", c, kept)

	ids := []string{"t0002", "t0000", "t0001"}
	where := storage.And{storage.IDIn(slices.Clone(ids)), storage.Not{Cond: storage.TypeIn{"z", "a"}}}
	w.list(storage.TokenFilter{Tenant: tenant, Where: where, Limit: 10, Count: true})
	if _, err := w.store.Tokens(w.Context(), tenant, ids); err != nil {
		w.Fatal(err)
	}
	w.same("ids", ids, []string{"t0002", "t0000", "t0001"})
	w.same("condition", where, storage.And{storage.IDIn(ids), storage.Not{Cond: storage.TypeIn{"z", "a"}}})
}

package storagetest

import (
	"slices"
	"strings"

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

// stands checks that the rows of a change are stored unchanged.
func (w *world) stands(c *storage.Change) {
	w.Helper()
	w.hasTokens(c.Tenant, c.InsertTokens...)
	for _, token := range c.InsertTokens {
		w.same("tokens by hash", w.found(c.Tenant, storage.HashIs(token.Hashes[1])), []string{token.ID})
	}
	for _, record := range c.InsertRecords {
		record.Tenant = c.Tenant
		w.same("record", w.lookup(record.Key), &record)
	}
	w.same("claim", w.claimed(c.Tenant, c.Claim.Key), &c.Claim.Claim)
	payloads := w.sealed(c.Tenant, storage.SealedJobs, 10)
	w.same("number of jobs", len(payloads), len(c.InsertJobs))
	for i, job := range c.InsertJobs {
		w.same("payload", payloads[i].Body, job.Payload)
	}
	logs, _ := w.logs(storage.LogFilter{Tenant: c.Tenant, Limit: 10})
	w.same("logs", logs, reversed(c.Logs))
}

func argumentsAreTheCallers(w *world) {
	c := w.full(w.id(), "t")
	for i := range c.InsertTokens {
		c.InsertTokens[i].CVC = []byte("sealed cvc")
	}
	given := copyOf(c)
	w.write(given)
	scribble(given)
	w.stands(c)
	if got := w.containers(c.Tenant); strings.Contains(strings.Join(got, " "), "scribbled") {
		w.Errorf("got the sets %q, which were written after the call", got)
	}
}

func resultsAreTheCallers(w *world) {
	c := w.full(w.id(), "t")
	w.write(copyOf(c))
	sets := w.containers(c.Tenant)
	first := w.state(c.Tenant)
	for _, token := range append(first.Tokens, w.tokens(c.Tenant, "t0000", "t0001")...) {
		clear(token.Body)
		clear(token.Containers)
	}
	records, err := w.store.Records(w.Context(), c.Tenant, "proxy", []storage.ID{c.InsertRecords[1].ID})
	if err != nil {
		w.Fatal(err)
	}
	for _, record := range append(first.Records, append(records, *w.lookup(c.InsertRecords[0].Key))...) {
		clear(record.Body)
	}
	for _, row := range append(first.Answers, first.Payloads...) {
		clear(row.Body)
	}
	containerSets, err := w.store.ContainerSets(w.Context(), c.Tenant)
	if err != nil {
		w.Fatal(err)
	}
	for _, set := range containerSets {
		clear(set.Containers)
	}
	clear(w.claimed(c.Tenant, c.Claim.Key).Answer)
	for _, job := range w.lease(c.Tenant, w.id(), 10) {
		clear(job.Payload)
	}
	w.stands(c)
	w.same("sets", w.containers(c.Tenant), sets)
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

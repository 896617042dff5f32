package storagetest

import (
	"bytes"
	"encoding/gob"
	"errors"
	"reflect"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// scribble overwrites everything that a value points to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	default: // shares no memory
	}
}

// copyOf returns a change that shares no memory with the given one.
func copyOf(w *world, c *storage.Change) *storage.Change {
	w.Helper()
	var text bytes.Buffer
	out := new(storage.Change)
	w.ok("copy", errors.Join(gob.NewEncoder(&text).Encode(c), gob.NewDecoder(&text).Decode(out)))
	return out
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
	given := copyOf(w, c)
	w.write(given)
	sets := w.containers(c.Tenant)
	scribble(reflect.ValueOf(given))
	w.stands(c)
	w.same("sets", w.containers(c.Tenant), sets)
}

func resultsAreTheCallers(w *world) {
	c := w.full(w.id(), "t")
	w.write(copyOf(w, c))
	sets := w.containers(c.Tenant)
	for _, read := range []any{
		w.state(c.Tenant), w.tokens(c.Tenant, "t0000", "t0001"), w.lookup(c.InsertRecords[0].Key),
		w.recordsByID(c.Tenant, "proxy", []storage.ID{c.InsertRecords[1].ID}),
		must(w.store.ContainerSets(w.Context(), c.Tenant))(w, "container sets"),
		w.claimed(c.Tenant, c.Claim.Key), w.lease(c.Tenant, w.id(), 10),
	} {
		scribble(reflect.ValueOf(read))
	}
	w.stands(c)
	w.same("sets", w.containers(c.Tenant), sets)
}

func argumentsAreNotChanged(w *world) {
	tenant := w.id()
	c := w.full(tenant, "t")
	slices.Reverse(c.InsertTokens)
	kept := copyOf(w, c)
	w.write(c)
	w.same("change", c, kept)
	c.InsertTokens[2].ID = "new"
	kept = copyOf(w, c)
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

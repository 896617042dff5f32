package storagetest

import (
	"fmt"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest/internal/model"
)

// propertyRules compare the backend with a model in memory, on histories and
// queries made from a seed.
func propertyRules() []rule {
	var rules []rule
	for seed := range uint64(3) {
		rules = append(rules, rule{
			fmt.Sprintf("a history and all reads of it agree with the model, seed %d", seed),
			func(w *world) { agreesWithModel(w, seed) },
		})
	}
	return rules
}

// Fuzz compares a backend with a model of the contract on random histories and
// random queries, including conditions of any shape. A backend calls it from a
// fuzz target. Run checks only a few fixed seeds.
func Fuzz(f *testing.F, b Backend) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { agreesWithModel(newWorld(t, b), seed) })
}

// agreesWithModel writes a history to the backend and to the model, and
// compares the results of queries on both.
func agreesWithModel(w *world, seed uint64) {
	w.Logf("seed %d", seed)
	m := &world{T: w.T, source: w.source, store: model.New().Open()}
	g := newGenerator(seed)
	tenants := []storage.ID{g.actors[0], g.actors[1]}
	for step := range 40 {
		c := g.change(tenants[g.IntN(2)])
		got, want := w.store.Write(w.Context(), c), m.store.Write(w.Context(), c)
		if (got == nil) != (want == nil) {
			w.Fatalf("step %d: got error %v, the model has %v for %s", step, got, want, describe(c))
		}
		if want == nil {
			g.written(c)
		}
		if g.IntN(10) == 0 {
			tenant, before := tenants[g.IntN(2)], g.moment()
			w.sameFor("deleted log entries", before, w.deleteLogs(tenant, before, 1000), m.deleteLogs(tenant, before, 1000))
		}
	}
	for _, tenant := range tenants {
		w.same("state", w.state(tenant), m.state(tenant))
		for range 40 {
			agreeOnTokens(w, m, g.tokenFilter(tenant))
		}
		for range 10 {
			agreeOnRecords(w, m, g.recordFilter(tenant))
			agreeOnLogs(w, m, g.logFilter(tenant))
			d := g.duplicate()
			w.sameFor("duplicate", d, w.duplicate(tenant, d), m.duplicate(tenant, d))
		}
	}
}

// describe summarizes a change for failure messages.
func describe(c *storage.Change) string {
	return fmt.Sprintf("a change with %d/%d/%d tokens and %d/%d/%d records inserted/updated/deleted",
		len(c.InsertTokens), len(c.UpdateTokens), len(c.DeleteTokens),
		len(c.InsertRecords), len(c.UpdateRecords), len(c.DeleteRecords))
}

func agreeOnTokens(w, m *world, f storage.TokenFilter) {
	w.Helper()
	got, gotTotal := w.list(f)
	want, wantTotal := m.list(f)
	w.sameFor("page", f, got, want)
	// A list that starts at a token has no defined total.
	if f.Count && f.Before.IsZero() {
		w.sameTotal(f, f.CountUpTo, gotTotal, wantTotal)
	}
}

// sameTotal compares totals, which may have been counted only up to a limit.
func (w *world) sameTotal(filter any, upTo, got, want int) {
	w.Helper()
	if upTo > 0 && want >= upTo && upTo <= got && got <= want {
		return
	}
	w.sameFor("total", filter, got, want)
}

func agreeOnRecords(w, m *world, f storage.RecordFilter) {
	w.Helper()
	got, gotTotal := w.records(f)
	want, wantTotal := m.records(f)
	w.sameFor("page", f, got, want)
	if f.Before.IsZero() {
		w.sameFor("total", f, gotTotal, wantTotal)
	}
}

func agreeOnLogs(w, m *world, f storage.LogFilter) {
	w.Helper()
	got, gotTotal := w.logs(f)
	want, wantTotal := m.logs(f)
	w.sameFor("page", f, got, want)
	w.sameTotal(f, f.CountUpTo, gotTotal, wantTotal)
}

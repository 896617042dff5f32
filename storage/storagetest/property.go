package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest/internal/model"
)

// propertyRules compare the backend with a model in memory, on histories and
// queries made from a seed.
func propertyRules() []rule {
	var rules []rule
	for seed := range uint64(6) {
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
// compares the results of queries on both. A follower of each tenant's log begins
// before the history.
func agreesWithModel(w *world, seed uint64) {
	w.Logf("seed %d", seed)
	m := &world{T: w.T, source: w.source, store: model.New().Open()}
	g := newGenerator(seed, m)
	var followers [2]*follower
	for i, tenant := range g.tenants {
		followers[i] = w.follower(storage.LogFollowing{Tenant: tenant, Limit: 1 + g.IntN(9)})
		followers[i].step()
	}
	for range 60 {
		tenant, at := pick(g, g.tenants), g.around()
		switch g.IntN(20) {
		case 0:
			at = g.day()
			w.agree(m, "deleted log entries", at, func(w *world) any { return w.deleteLogs(tenant, at, 1000) })
		case 1, 2:
			l := storage.Lease{Tenant: tenant, Owner: pick(g, g.actors), Now: at, Until: g.finer(g.around()), Limit: g.limit()}
			w.agree(m, "leased jobs", l, func(w *world) any { return w.leaseAt(l) })
		case 3:
			w.agree(m, "more to sweep", at, func(w *world) any { return w.sweepAt(at, 1000) })
		default:
			agreeOnChange(w, m, g.change(tenant))
		}
	}
	for i, tenant := range g.tenants {
		agreeOnReads(w, m, g, tenant)
		agreeOnFollowing(m, g, followers[i])
	}
}

// agreeOnFollowing compares what a follower from the beginning gets, in the order of
// changes, and what followers get that begin afterwards.
func agreeOnFollowing(m *world, g *generator, f *follower) {
	w := f.world
	past := func(w *world, from time.Time, ids bool) *follower {
		return w.follower(storage.LogFollowing{Tenant: f.Tenant, From: from, Limit: f.Limit, IDsOnly: ids})
	}
	want := past(m, time.UnixMicro(1), false).all()
	w.same("followed entries", f.until(len(want)), want)
	from := g.day()
	since := sortedLogs(past(m, from, false).all())
	later := past(w, from, false)
	w.sameFor("entries", from, sortedLogs(later.until(len(since))), since)
	ids := past(w, time.UnixMicro(1), true)
	whole := sortedLogs(f.got)
	for i, l := range sortedLogs(ids.until(len(want))) {
		if l.ID != whole[i].ID || l.Seq != whole[i].Seq {
			w.Errorf("id %d is %x with number %d, want %x with %d", i, l.ID, l.Seq, whole[i].ID, whole[i].Seq)
		}
	}
	ids.IDsOnly = false
	for _, f := range []*follower{f, later, ids} {
		if f.step() {
			w.Error("got more entries than there are")
		}
	}
}

// agree compares the result of a read with the result of the model.
func (w *world) agree(m *world, what string, question any, read func(*world) any) {
	w.Helper()
	w.sameFor(what, question, read(w), read(m))
}

// agreeOnChange writes a change to both. If the guards of the change do not
// hold, the backend must report a failed guard that the model finds too.
func agreeOnChange(w, m *world, c *storage.Change) {
	w.Helper()
	conflicts := m.store.(*model.Store).Conflicts(c)
	got, want := w.store.Write(w.Context(), c), m.store.Write(w.Context(), c)
	found := slices.ContainsFunc(conflicts, func(k storage.Conflict) bool { return conflictProblem(got, k.Kind, k.Index) == "" })
	late := errors.Is(got, storage.ErrLate) && errors.Is(want, storage.ErrLate)
	if (got == nil) != (want == nil) || got != nil && !found && !late {
		w.Fatalf("got error %v, the model has %v and %v for %#v", got, want, conflicts, c)
	}
}

// agreeOnReads compares everything that can be read of a tenant.
func agreeOnReads(w, m *world, g *generator, tenant storage.ID) {
	w.agree(m, "state", nil, func(w *world) any { return w.state(tenant) })
	w.agree(m, "counts", nil, func(w *world) any {
		return w.counts(storage.CountFilter{Tenant: tenant, Now: now, Kind: "proxy", UpTo: 1000})
	})
	for range 40 {
		agreeOnTokens(w, m, g.tokenFilter(tenant))
	}
	for range 10 {
		agreeOnRecords(w, m, g.recordFilter(tenant))
		agreeOnLogs(w, m, g.logFilter(tenant))
		d, key, id, at := g.duplicate(), g.claimKey(), g.tokenID(), g.around()
		w.agree(m, "duplicate", d, func(w *world) any { return w.duplicate(tenant, d) })
		w.agree(m, "claim", key, func(w *world) any { return w.claimed(tenant, key) })
		w.agree(m, "tokens", id, func(w *world) any { return w.tokens(tenant, id, "ia", "ib", id) })
		key, ids := pick(g, []storage.Key{{}, g.recordKey(), g.recordKey(), g.recordKey()}), g.recordFilter(tenant).IDs
		w.agree(m, "records", ids, func(w *world) any { return w.recordsByID(tenant, "proxy", ids) })
		w.agree(m, "record by key", key, func(w *world) any { return w.lookup(key) })
		jobs, sealed := g.jobFilter(tenant), g.sealedFilter(tenant)
		w.agree(m, "jobs", jobs, func(w *world) any { return w.jobs(jobs) })
		w.agree(m, "sealed rows", sealed, func(w *world) any { return w.sealedRows(sealed) })
		w.agree(m, "expired rows", at, func(w *world) any { return w.expiredAt(at) })
		expired := g.expiredFilter()
		w.agree(m, "a page of expired rows", expired, func(w *world) any { return w.expired(expired) })
		after, limit, old := pick(g, []storage.ID{{}, tenant}), g.limit(), g.day()
		w.agree(m, "due tenants", at, func(w *world) any { return w.dueAt(at, after, limit) })
		w.agree(m, "tenants with entries", old, func(w *world) any { return w.logTenants(old, after, limit) })
	}
}

func agreeOnTokens(w, m *world, f storage.TokenFilter) {
	w.Helper()
	got, gotTotal, err := w.store.ListTokens(w.Context(), f)
	want, wantTotal, tooLarge := m.store.ListTokens(w.Context(), f)
	if !errors.Is(err, tooLarge) {
		w.Fatalf("got error %v for %#v, the model has %v", err, f, tooLarge)
	}
	w.sameFor("page", f, got, want)
	if err != nil {
		return
	}
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
	got, gotTotal, err := w.store.ListRecords(w.Context(), f)
	want, wantTotal, tooLarge := m.store.ListRecords(w.Context(), f)
	if !errors.Is(err, tooLarge) {
		w.Fatalf("got error %v for %#v, the model has %v", err, f, tooLarge)
	}
	w.sameFor("page", f, got, want)
	if f.Before.IsZero() && err == nil {
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

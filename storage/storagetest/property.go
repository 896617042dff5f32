package storagetest

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

// propertyRules compare the backend with a model in memory, on histories and
// queries made from a seed.
func propertyRules() []rule {
	var rules []rule
	for seed := range uint64(4) {
		rules = append(rules, rule{
			fmt.Sprintf("a history and all reads of it agree with the model, seed %d", seed),
			func(w *dbTest) { agreesWithModel(w, seed) },
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
	f.Fuzz(func(t *testing.T, seed uint64) { agreesWithModel(newDbTest(t, b), seed) })
}

// agreesWithModel writes a history to the backend and to the model, and
// compares the results of queries on both. A follower of each tenant's log begins
// before the history.
func agreesWithModel(w *dbTest, seed uint64) {
	w.Logf("seed %d", seed)
	m := w.mirrored().model
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
			agreeOnPruning(w, m, g, tenant)
		case 1, 2:
			l := storage.Lease{Tenant: tenant, Owner: pick(g, g.actors), Now: at, Until: g.finer(g.around()), Limit: g.limit()}
			w.agree(m, "leased jobs", l, func(w *dbTest) any { return w.leaseAt(l) })
		case 3:
			w.agree(m, "more to sweep", at, func(w *dbTest) any { return w.sweepAt(at, 1000) })
		default:
			agreeOnChange(w, m, g.change(tenant))
		}
	}
	for i, tenant := range g.tenants {
		agreeOnReads(w, m, g, tenant)
		agreeOnFollowing(m, g, followers[i])
		agreeOnPruning(w, m, g, tenant)
	}
}

// agreeOnPruning deletes the log entries before a time. If more are due than the limit
// allows, the backend chooses, and the model deletes the same entries.
func agreeOnPruning(w, m *dbTest, g *generator, tenant storage.ID) {
	w.Helper()
	before, limit := pick(g, []time.Time{g.day(), g.day(), g.moment()}), pick(g, []int{0, 1, 3, 5, 7, 1000})
	for deleted := limit; deleted == limit; {
		due := slices.DeleteFunc(m.allLogs(tenant), func(l storage.Log) bool { return !l.CreatedAt.Before(before) })
		deleted = w.deleteLogs(tenant, before, limit)
		w.sameFor("deleted log entries", before, deleted, min(limit, len(due)))
		left := w.allLogs(tenant)
		m.store.(*model.Store).KeepLogs(tenant, before, left)
		w.sameFor("log entries left", before, left, m.allLogs(tenant))
		for range 5 {
			agreeOnLogs(w, m, g.logFilter(tenant))
		}
		if limit == 0 {
			return
		}
	}
}

// agreeOnFollowing compares what a follower from the beginning gets, in the order of
// changes, and what followers get that begin afterwards.
func agreeOnFollowing(m *dbTest, g *generator, f *follower) {
	w := f.dbTest
	past := func(w *dbTest, from time.Time, ids bool) *follower {
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
func (w *dbTest) agree(m *dbTest, what string, question any, read func(*dbTest) any) {
	w.Helper()
	got := read(w)
	w.sameFor(what, question, got, read(m))
	scribble(reflect.ValueOf(got))
}

// scribble overwrites everything that a value points to. The result of a read belongs
// to its caller, and a change is the caller's again after the call. A backend that
// keeps either then differs from the model.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				scribble(v.Index(i))
			}
		}
		v.Clear()
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	default: // shares no memory
	}
}

// encoded returns everything that a change has.
func (w *dbTest) encoded(c *storage.Change) []byte {
	w.Helper()
	var text bytes.Buffer
	w.ok("encode", gob.NewEncoder(&text).Encode(c))
	return text.Bytes()
}

// agreeOnChange writes a change to both. If the guards of the change do not
// hold, the backend must report a failed guard that the model finds too. The backend
// gets a copy, which it must not change.
func agreeOnChange(w, m *dbTest, c *storage.Change) {
	w.Helper()
	text, given := w.encoded(c), new(storage.Change)
	w.ok("copy", gob.NewDecoder(bytes.NewReader(text)).Decode(given))
	conflicts := m.store.(*model.Store).Conflicts(c)
	got, want := w.store.Write(w.Context(), given), m.store.Write(w.Context(), c)
	if !bytes.Equal(w.encoded(given), text) {
		w.Errorf("Write made %#v of %#v", given, c)
	}
	scribble(reflect.ValueOf(given))
	found := slices.ContainsFunc(conflicts, func(k storage.Conflict) bool { return conflictProblem(got, k.Kind, k.Index) == "" })
	late := errors.Is(got, storage.ErrLate) && errors.Is(want, storage.ErrLate)
	if (got == nil) != (want == nil) || got != nil && !found && !late {
		w.Fatalf("got error %v, the model has %v and %v for %#v", got, want, conflicts, c)
	}
}

// agreeOnState compares all rows of a tenant and their numbers.
func (w *dbTest) agreeOnState(m *dbTest, tenant storage.ID) {
	w.Helper()
	w.agree(m, "state", nil, func(w *dbTest) any { return w.state(tenant) })
	w.agree(m, "counts", nil, func(w *dbTest) any {
		return w.counts(storage.CountFilter{Tenant: tenant, Now: now, Kind: "proxy", UpTo: 1000})
	})
}

// agreeOnReads compares everything that can be read of a tenant.
func agreeOnReads(w, m *dbTest, g *generator, tenant storage.ID) {
	w.agreeOnState(m, tenant)
	agreeOnRows(w, m, g, tenant)
	for range 10 {
		key, at := g.claimKey(), g.around()
		w.agree(m, "claim", key, func(w *dbTest) any { return w.claimed(tenant, key) })
		jobs, sealed := g.jobFilter(tenant), g.sealedFilter(tenant)
		w.agree(m, "jobs", jobs, func(w *dbTest) any { return w.jobs(jobs) })
		w.agree(m, "sealed rows", sealed, func(w *dbTest) any { return w.sealedRows(sealed) })
		after, limit, old := pick(g, []storage.ID{{}, tenant}), g.limit(), pick(g, []time.Time{g.day(), g.moment()})
		w.agree(m, "due tenants", at, func(w *dbTest) any { return w.dueAt(at, after, limit) })
		w.agree(m, "tenants with entries", old, func(w *dbTest) any { return w.logTenants(old, after, limit) })
	}
}

// agreeOnRows compares the rows of a tenant that a transaction can read.
func agreeOnRows(w, m *dbTest, g *generator, tenant storage.ID) {
	w.Helper()
	w.agree(m, "container sets", nil, func(w *dbTest) any { return w.containers(tenant) })
	for range 40 {
		agreeOnTokens(w, m, g.tokenFilter(tenant))
	}
	for range 10 {
		agreeOnRecords(w, m, g.recordFilter(tenant))
		agreeOnLogs(w, m, g.logFilter(tenant))
		d, id, at, expired := g.duplicate(), g.tokenID(), g.around(), g.expiredFilter()
		w.agree(m, "duplicate", d, func(w *dbTest) any { return w.duplicate(tenant, d) })
		w.agree(m, "tokens", id, func(w *dbTest) any { return w.tokens(tenant, id, "ia", "ib", id) })
		key, ids := pick(g, []storage.Key{{}, g.recordKey(), g.recordKey(), g.recordKey()}), g.recordFilter(tenant).IDs
		w.agree(m, "records", ids, func(w *dbTest) any { return w.recordsByID(tenant, "proxy", ids) })
		w.agree(m, "record by key", key, func(w *dbTest) any { return w.lookup(key) })
		w.agree(m, "expired rows", at, func(w *dbTest) any { return w.expiredAt(at) })
		w.agree(m, "a page of expired rows", expired, func(w *dbTest) any { return w.expired(expired) })
	}
}

func agreeOnTokens(w, m *dbTest, f storage.TokenFilter) {
	w.Helper()
	// A list that starts at a token has no defined total.
	agreeOnPage(w, m, f, f.Count && f.Before.IsZero(), f.CountUpTo, func(s storage.Storage) ([]storage.Token, int, error) {
		return s.ListTokens(w.Context(), f)
	})
}

func agreeOnRecords(w, m *dbTest, f storage.RecordFilter) {
	w.Helper()
	agreeOnPage(w, m, f, f.Before.IsZero(), 0, func(s storage.Storage) ([]storage.Record, int, error) {
		return s.ListRecords(w.Context(), f)
	})
}

func agreeOnLogs(w, m *dbTest, f storage.LogFilter) {
	w.Helper()
	agreeOnPage(w, m, f, true, f.CountUpTo, func(s storage.Storage) ([]storage.Log, int, error) { return s.ListLogs(w.Context(), f) })
}

// agreeOnPage compares a page, and its total if counted, with the model. A
// total may have been counted only up to a limit, if that is not zero.
func agreeOnPage[T any](w, m *dbTest, filter any, counted bool, upTo int, list func(storage.Storage) ([]T, int, error)) {
	w.Helper()
	given := fmt.Sprintf("%#v", filter)
	got, gotTotal, err := list(w.store)
	w.same("filter after the call", fmt.Sprintf("%#v", filter), given)
	want, wantTotal, tooLarge := list(m.store)
	if !errors.Is(err, tooLarge) {
		w.Fatalf("got error %v for %#v, the model has %v", err, filter, tooLarge)
	}
	w.sameFor("page", filter, got, want)
	limited := upTo > 0 && wantTotal >= upTo && upTo <= gotTotal && gotTotal <= wantTotal
	if counted && err == nil && !limited {
		w.sameFor("total", filter, gotTotal, wantTotal)
	}
	scribble(reflect.ValueOf(got))
}

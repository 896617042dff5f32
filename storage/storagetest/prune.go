package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// logAt returns an entry with a time.
func (s *source) logAt(entityType, entityID string, at time.Time) storage.Log {
	entry := s.log(entityType, entityID)
	entry.ID, entry.CreatedAt = idAt(at, s.last.Add(1)), at
	return entry
}

// deleteLogs deletes entries older than a time, and checks that it deletes no
// more than the limit.
func (w *world) deleteLogs(tenant storage.ID, before time.Time, limit int) int {
	w.Helper()
	deleted := must(w.store.DeleteLogs(w.Context(), tenant, before, limit))(w, "delete logs")
	if deleted < 0 || deleted > limit {
		w.Fatalf("%d entries were deleted, with a limit of %d", deleted, limit)
	}
	return deleted
}

func (w *world) allLogs(tenant storage.ID) []storage.Log {
	w.Helper()
	all, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10_000})
	w.same("total of all entries", total, len(all))
	return all
}

func (w *world) logTenants(before time.Time, after storage.ID, limit int) []storage.ID {
	w.Helper()
	return must(w.store.LogTenants(w.Context(), before, after, limit))(w, "log tenants")
}

// checkLogs compares lists of the tenant's log with lists of a model that has
// the expected entries. A page of one entry does not reveal the total.
func (w *world) checkLogs(tenant storage.ID, all []storage.Log) {
	w.Helper()
	m := w.mirrored().model
	m.writeLogs(tenant, all...)
	filters := []storage.LogFilter{{}, {EntityID: "x"}, {EntityID: "y"}, {EntityType: "card", EntityID: "x"}}
	for i, kind := range types {
		filters = append(filters, storage.LogFilter{EntityType: kind}, storage.LogFilter{EntityType: kind, From: now.AddDate(0, 0, -i)})
	}
	for day := -4; day <= 1; day++ {
		at := now.AddDate(0, 0, day)
		midnight := at.Truncate(24 * time.Hour)
		filters = append(filters,
			storage.LogFilter{From: at}, storage.LogFilter{To: at}, storage.LogFilter{From: midnight, To: at},
			storage.LogFilter{EntityType: "token", From: midnight, To: midnight.AddDate(0, 0, 1)})
	}
	for _, f := range filters {
		f.Tenant, f.Limit = tenant, 1
		agreeOnLogs(w, m, f)
	}
}

func sortedLogs(entries []storage.Log) []storage.Log {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b storage.Log) int { return compareIDs(a.ID, b.ID) })
	return entries
}

func deleteLogsLimit(w *world) {
	tenant := w.id()
	for i := range 10 { // some of them at the same time
		w.writeLogs(tenant, w.logAt(types[i%3], "x", earlier.Add(-time.Duration(i/4)*time.Second)))
	}
	for _, before := range []time.Time{{}, time.Unix(0, 0), time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), earlier.Add(-time.Hour)} {
		w.same("deleted before all of them", w.deleteLogs(tenant, before, 10), 0)
		w.same("tenants", w.logTenants(before, storage.ID{}, 10), []storage.ID(nil))
	}
	w.writeLogs(tenant, w.logAt("card", "kept", now))
	w.same("deleted with a limit of zero", w.deleteLogs(tenant, now, 0), 0)
	for _, want := range []int{4, 4, 2, 0} {
		w.same("deleted", w.deleteLogs(tenant, now, 4), want)
	}
	w.same("entries", len(w.allLogs(tenant)), 1)
}

// days writes entries of several types, entities and days, up to now.
func (w *world) days(tenant storage.ID) []storage.Log {
	w.Helper()
	var entries []storage.Log
	for i := range 90 {
		at := now.Add(-time.Duration(i) * time.Hour)
		entries = append(entries, w.logAt(types[i%3], []string{"x", "y"}[i%2], at))
	}
	w.writeLogs(tenant, entries[:60]...)
	w.writeLogs(tenant, entries[60:]...)
	return entries
}

func deleteLogsCounts(w *world) {
	tenants := []storage.ID{w.id(), w.id()}
	for _, tenant := range tenants {
		w.checkLogs(tenant, reversed(sortedLogs(w.days(tenant))))
	}
	left := 90
	for _, before := range []time.Time{now.AddDate(0, 0, -3), now.Add(-30 * time.Hour).Truncate(24 * time.Hour), now} {
		for {
			deleted := w.deleteLogs(tenants[0], before, 11)
			all := w.allLogs(tenants[0])
			left -= deleted
			w.same("entries left", len(all), left)
			w.checkLogs(tenants[0], all)
			if deleted < 11 {
				break
			}
		}
		for _, e := range w.allLogs(tenants[0]) {
			if e.CreatedAt.Before(before) {
				w.Errorf("an entry of %v is left, before %v", e.CreatedAt, before)
			}
		}
	}
	w.same("entries left in the end", left, 1)
	w.same("entries of the other tenant", len(w.allLogs(tenants[1])), 90)
}

// deleteLogsInParallel lets two nodes delete while others write entries, of
// which some are already old.
func deleteLogsInParallel(w *world) {
	const writers, rounds = 4, 10
	nodes, tenant := w.nodes(), w.id()
	w.days(tenant)
	entries := make([]storage.Log, 2*writers*rounds)
	for i := range entries {
		entries[i] = w.logAt(types[i%3], "x", []time.Time{earlier, now}[i%2])
	}
	var deleted atomic.Int64
	errs := try(2*writers, func(i int) error {
		node := nodes[i%len(nodes)]
		for round := range rounds {
			if i < writers {
				at := 2 * (i*rounds + round)
				if err := node.Write(w.Context(), &storage.Change{Tenant: tenant, Now: now, Logs: entries[at : at+2]}); err != nil {
					return fmt.Errorf("write: %w", err)
				}
				continue
			}
			n, err := node.DeleteLogs(w.Context(), tenant, now, 3)
			if err != nil {
				return fmt.Errorf("delete: %w", err)
			}
			deleted.Add(int64(n))
		}
		return nil
	})
	w.ok("write and delete", errors.Join(errs...))
	all := w.allLogs(tenant)
	w.checkLogs(tenant, all)
	w.same("deleted and left", int(deleted.Load())+len(all), 90+len(entries))
	rest := w.deleteLogs(tenant, now, 1000)
	w.same("left in the end", len(all)-rest, 1+len(entries)/2)
	w.checkLogs(tenant, w.allLogs(tenant))
}

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
func (w *dbTest) deleteLogs(tenant storage.ID, before time.Time, limit int) int {
	w.Helper()
	deleted := must(w.store.DeleteLogs(w.Context(), tenant, before, limit))(w, "delete logs")
	if deleted < 0 || deleted > limit {
		w.Fatalf("%d entries were deleted, with a limit of %d", deleted, limit)
	}
	return deleted
}

func (w *dbTest) allLogs(tenant storage.ID) []storage.Log {
	w.Helper()
	all, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10_000})
	w.same("total of all entries", total, len(all))
	return all
}

func (w *dbTest) logTenants(before time.Time, after storage.ID, limit int) []storage.ID {
	w.Helper()
	return must(w.store.LogTenants(w.Context(), before, after, limit))(w, "log tenants")
}

func sortedLogs(entries []storage.Log) []storage.Log {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b storage.Log) int { return compareIDs(a.ID, b.ID) })
	return entries
}

// days writes entries of several types, entities and days, up to now.
func (w *dbTest) days(tenant storage.ID) []storage.Log {
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

// deleteLogsInParallel lets two nodes delete while others write entries, of
// which some are already old.
func deleteLogsInParallel(w *dbTest) {
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
	m := w.mirrored().model
	m.writeLogs(tenant, all...)
	g := newGenerator(0, m)
	for range 80 {
		agreeOnLogs(w, m, g.logFilter(tenant))
	}
	w.same("deleted and left", int(deleted.Load())+len(all), 90+len(entries))
	rest := w.deleteLogs(tenant, now, 1000)
	w.same("left in the end", len(all)-rest, 1+len(entries)/2)
	w.same("entries left", len(w.allLogs(tenant)), len(all)-rest)
}

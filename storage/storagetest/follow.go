package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// follower reads the log from a place on.
type follower struct {
	*dbTest
	storage.LogFollowing
	got []storage.Log
}

func (w *dbTest) follower(f storage.LogFollowing) *follower {
	if f.Limit == 0 {
		f.Limit = 100
	}
	return &follower{dbTest: w, LogFollowing: f}
}

// step reads once and reports whether there were entries.
func (f *follower) step() bool {
	f.Helper()
	page, next, err := f.store.FollowLogs(f.Context(), f.LogFollowing)
	if err != nil {
		f.Fatalf("follow logs: %v", err)
	}
	if len(page) > f.Limit || len(next) == 0 || len(next) > 64 {
		f.Fatalf("got %d entries and a place of %d bytes, want at most %d and 64", len(page), len(next), f.Limit)
	}
	f.After = next
	f.got = append(f.got, page...)
	return len(page) > 0
}

// until reads until it has n entries, because a transaction of another test may
// hold them back.
func (f *follower) until(n int) []storage.Log {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(f.got) < n {
		if f.step() {
			continue
		}
		select {
		case <-tick.C:
		case <-f.Context().Done():
			f.Fatalf("got %d entries, want %d", len(f.got), n)
		}
	}
	return f.got
}

// all reads until there are no more entries.
func (f *follower) all() []storage.Log {
	f.Helper()
	for f.step() {
	}
	return f.got
}

func (w *dbTest) manyLogs(n int) []storage.Log {
	all := make([]storage.Log, n)
	for i := range all {
		all[i] = w.log(types[i%len(types)], fmt.Sprint(i))
	}
	return all
}

func followFromNow(w *dbTest) {
	tenant, entries := w.id(), w.manyLogs(4)
	w.writeLogs(tenant, entries[0])
	before := w.follower(storage.LogFollowing{Tenant: tenant, From: earlier})
	before.until(1)
	// A follower does not get earlier entries, except once more while an older
	// transaction is open.
	f := w.follower(storage.LogFollowing{Tenant: tenant})
	f.step()
	w.writeLogs(tenant, entries[1], entries[2])
	w.writeLogs(tenant, entries[3])
	got := f.until(3)
	if got[0].ID == entries[0].ID {
		got = f.until(4)[1:]
	}
	w.same("entries", got, entries[1:])
}

func followNowhere(w *dbTest) {
	f := storage.LogFollowing{Tenant: w.id(), After: storage.LogPlace("nowhere"), Limit: 1}
	if _, _, err := w.store.FollowLogs(w.Context(), f); err == nil {
		w.Error("got no error")
	}
}

// followCatchUp reads a page of the past before others write, and the rest
// while they write.
func followCatchUp(w *dbTest) {
	const past = 40
	tenant := w.id()
	w.writeLogs(tenant, w.manyLogs(past)...)
	f := w.follower(storage.LogFollowing{Tenant: tenant, From: earlier, Limit: 3})
	f.until(1)
	w.writeLogs(tenant, w.manyLogs(past)...)
	f.once(w.writeMeanwhile(tenant), 2*past)
}

// once reads the entries that several nodes write, and those from before. It
// expects each entry once.
func (f *follower) once(done <-chan []error, before int) {
	f.Helper()
	want := before + writers*eachWrites
	got := f.until(want)
	f.ok("write", errors.Join(<-done...))
	last := f.log("token", "last") // all earlier entries come before it
	f.writeLogs(f.Tenant, last)
	for want++; !slices.ContainsFunc(got, func(l storage.Log) bool { return l.ID == last.ID }); {
		got = f.until(len(f.got) + 1)
	}
	seen := map[storage.ID]bool{}
	for _, entry := range got {
		seen[entry.ID] = true
	}
	f.same("distinct entries", len(seen), want)
	f.same("entries", len(got), want)
}

// eachWrites is how many entries each writer writes.
const eachWrites = 20

// writeMeanwhile lets several nodes write entries concurrently.
func (w *dbTest) writeMeanwhile(tenant storage.ID) <-chan []error {
	nodes := w.nodes()
	changes := make([][]storage.Change, writers)
	for i := range changes {
		changes[i] = make([]storage.Change, eachWrites)
		for j := range changes[i] {
			changes[i][j] = storage.Change{Tenant: tenant, Now: now, Logs: []storage.Log{w.log("token", fmt.Sprintf("%d-%d", i, j))}, Relaxed: j%2 == 0}
		}
	}
	done := make(chan []error, 1)
	go func() {
		done <- try(writers, func(i int) error {
			for j := range changes[i] {
				if err := nodes[i%len(nodes)].Write(w.Context(), &changes[i][j]); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return done
}

func (w *dbTest) counts(f storage.CountFilter) storage.Counts {
	w.Helper()
	n := must(w.store.Count(w.Context(), f))(w, "count")
	slices.SortFunc(n.Tokens, func(a, b storage.TokenCount) int {
		return slices.Compare(append(a.Set[:], a.Type...), append(b.Set[:], b.Type...))
	})
	return n
}

func countUpTo(w *dbTest) {
	tenant := w.id()
	var c storage.Change
	for range 5 {
		c.InsertJobs = append(c.InsertJobs, w.job(later))
		c.InsertRecords = append(c.InsertRecords, w.record("session", ""))
	}
	c.Tenant, c.Now = tenant, now
	w.write(&c)
	got := w.counts(storage.CountFilter{Tenant: tenant, Now: now, Kind: "session", UpTo: 3})
	w.same("counts", got, storage.Counts{Records: 3, Waiting: 3})
}

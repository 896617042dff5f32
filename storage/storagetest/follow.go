package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func followRules() []rule {
	return []rule{
		{"FollowLogs returns every entry once, whatever the limit", followAll},
		{"a follower that begins now gets what is written then", followFromNow},
		{"a follower that begins at a time gets what was created then or later", followSince},
		{"entries come in the order of their changes, not in that of their ids", followOrder},
		{"a place is good when the entries before it are gone", followAfterPrune},
		{"a place that is none is an error", followNowhere},
		{"a follower that catches up gets what is written meanwhile once", followCatchUp},
	}
}

func countingRules() []rule {
	return []rule{
		{"Count stops counting jobs and records where it may", countUpTo},
	}
}

// follower reads the log from a place on.
type follower struct {
	*world
	storage.LogFollowing
	got []storage.Log
}

func (w *world) follower(f storage.LogFollowing) *follower {
	if f.Limit == 0 {
		f.Limit = 100
	}
	return &follower{world: w, LogFollowing: f}
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

func (w *world) manyLogs(n int) []storage.Log {
	all := make([]storage.Log, n)
	for i := range all {
		all[i] = w.log(types[i%len(types)], fmt.Sprint(i))
	}
	return all
}

func followAll(w *world) {
	tenant, entries := w.id(), w.manyLogs(20)
	for part := range slices.Chunk(entries, 3) {
		w.writeLogs(tenant, part...)
	}
	w.writeLogs(w.id(), w.manyLogs(3)...)
	for _, limit := range []int{1, 2, 7, 20, 50} {
		f := w.follower(storage.LogFollowing{Tenant: tenant, From: earlier, Limit: limit})
		whole := f.until(20)
		w.sameFor("entries", limit, whole, entries)
		if f.step() {
			w.Errorf("limit %d: more entries than there are", limit)
		}
		ids := w.follower(storage.LogFollowing{Tenant: tenant, From: earlier, Limit: limit, IDsOnly: true})
		for i, l := range ids.until(20) {
			if l.ID != entries[i].ID || l.Seq != whole[i].Seq {
				w.Errorf("limit %d: id %d is %x with number %d, want %x with %d", limit, i, l.ID, l.Seq, entries[i].ID, whole[i].Seq)
			}
		}
		if ids.IDsOnly = false; ids.step() {
			w.Errorf("limit %d: more entries than there are, after ids", limit)
		}
	}
}

func followFromNow(w *world) {
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

func followSince(w *world) {
	tenant, entries := w.id(), w.manyLogs(6)
	for i := range entries {
		at := now.Add(time.Duration(i) * 500 * time.Microsecond)
		entries[i].CreatedAt, entries[i].ID = at, idAt(at, w.last.Add(1))
	}
	w.writeLogs(tenant, entries[4], entries[1])
	f := w.follower(storage.LogFollowing{Tenant: tenant, From: entries[2].CreatedAt})
	w.same("entries", f.until(1), []storage.Log{entries[4]})
	w.writeLogs(tenant, entries[0], entries[2])
	w.writeLogs(tenant, entries[3])
	w.same("entries", f.until(3), []storage.Log{entries[4], entries[2], entries[3]})
	if f.step() {
		w.Error("got entries that were created before")
	}
}

func followOrder(w *world) {
	tenant, entries := w.id(), w.manyLogs(6)
	f := w.follower(storage.LogFollowing{Tenant: tenant, Limit: 2})
	f.step()
	var want []storage.Log
	for _, i := range []int{4, 0, 5, 2, 1, 3} {
		w.writeLogs(tenant, entries[i])
		want = append(want, entries[i])
	}
	w.same("entries", f.until(6), want)
}

func followAfterPrune(w *world) {
	tenant, entries := w.id(), w.manyLogs(4)
	f := w.follower(storage.LogFollowing{Tenant: tenant, From: earlier})
	w.writeLogs(tenant, entries[:2]...)
	f.until(2)
	if n, err := w.store.DeleteLogs(w.Context(), tenant, later, 10); err != nil || n != 2 {
		w.Fatalf("delete logs: %d, %v", n, err)
	}
	f.step()
	w.writeLogs(tenant, entries[2:]...)
	w.same("entries", f.until(4), entries)
}

func followNowhere(w *world) {
	f := storage.LogFollowing{Tenant: w.id(), After: storage.LogPlace("nowhere"), Limit: 1}
	if _, _, err := w.store.FollowLogs(w.Context(), f); err == nil {
		w.Error("got no error")
	}
}

// followCatchUp reads a page of the past before others write, and the rest
// while they write.
func followCatchUp(w *world) {
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
	for _, err := range <-done {
		if err != nil {
			f.Fatal(err)
		}
	}
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
func (w *world) writeMeanwhile(tenant storage.ID) <-chan []error {
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

func (w *world) counts(f storage.CountFilter) storage.Counts {
	w.Helper()
	n := must(w.store.Count(w.Context(), f))(w, "count")
	slices.SortFunc(n.Tokens, func(a, b storage.TokenCount) int {
		return slices.Compare(append(a.Set[:], a.Type...), append(b.Set[:], b.Type...))
	})
	return n
}

func countUpTo(w *world) {
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

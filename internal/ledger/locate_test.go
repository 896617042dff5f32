package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// Entries are found wherever they are expected, and entries that are in no tree are
// left out.
func TestLocate(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	logs := r.write(l, tenant, 1500)
	ids, want := make([]uuid.UUID, len(logs)), make([]Located, len(logs))
	for i, e := range expected(tenant, logs) {
		ids[i], want[i] = e.ID, Located{int64(i), evidence.LeafHash(evidence.KindEntry, e.ID, e.Commit)}
	}
	for _, part := range [][2]int{{0, 1}, {0, 500}, {500, 1000}, {1000, 1500}, {1499, 1500}, {0, 1500}} {
		for _, near := range []int64{0, int64(part[0]), 1400, 1 << 40} {
			some := append([]uuid.UUID{r.id()}, ids[part[0]:part[1]]...) // the first is in no tree
			found, err := l.Locate(t.Context(), tenant, some, near)
			if err != nil || len(found) != len(some)-1 {
				t.Fatalf("%v near %d: %d of %d found: %v", part, near, len(found), len(some)-1, err)
			}
			for i := part[0]; i < part[1]; i++ {
				if found[ids[i]] != want[i] {
					t.Fatalf("%v near %d: entry %d is at %d", part, near, i, found[ids[i]].Index)
				}
			}
		}
	}
	apart := slices.Concat(ids[:2*maxLookups], ids[1400:]) // the first need no lookup
	if found, err := l.Locate(t.Context(), tenant, apart, 0); err != nil || len(found) != len(apart) {
		t.Errorf("%d of %d entries in two places found: %v", len(found), len(apart), err)
	}
}

// Proofs cache a bounded number of hashes.
func TestCachedHashesAreBounded(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 10)
	r.checkpoint(l)
	h := l.hashes(t.Context(), tenant)
	for n := range int64(maxSeen + 1) {
		h.seen[merkle.Subtree{N: 1<<40 + n}] = merkle.Hash{}
	}
	must.Get(h.subtree(merkle.Subtree{N: 3}))(t)
	if len(h.seen) > storage.LeavesPerBlock {
		t.Errorf("%d hashes are cached", len(h.seen))
	}
}

// An error of the storage at any call ends a proof and an export with this error.
func TestExportEndsWithTheErrorOfItsStorage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken, calls, fails := errors.New("broken"), 0, 0
	l, tenant := r.openOn(&tapped{database: r.store, before: func(context.Context, any) error {
		if calls++; calls == fails {
			return broken
		}
		return nil
	}}), r.id()
	logs := r.write(l, tenant, 600)
	r.checkpoint(l)
	for name, call := range map[string]func() error{
		"Proof":       func() error { return must.Err(l.Proof(t.Context(), tenant, uuid.UUID(logs[300].ID))) },
		"Consistency": func() error { _, _, err := l.Consistency(t.Context(), tenant, 300); return err },
		"Export":      func() error { return l.Export(t.Context(), tenant, io.Discard) },
	} {
		n := 0
		for ; ; n++ {
			calls, fails = 0, n+1
			err := call()
			if calls < fails {
				must.Match(t, name, err, nil)
				break
			}
			must.Match(t, fmt.Sprintf("%s with an error of call %d", name, n+1), err, broken)
		}
		if n < 2 {
			t.Errorf("%s calls the storage %d times", name, n)
		}
	}
}

// TestProofsReadFewRows reads proofs from trees of two sizes. A proof needs the
// blocks of a binary search, the blocks at both ends of its path, and little memory.
func TestProofsReadFewRows(t *testing.T) { //nolint:paralleltest // it measures memory
	var small uint64
	for _, n := range []int{1000, 8000} {
		r := newRig(t)
		var rows int64
		l, tenant := r.openOn(&tapped{database: r.store, after: func(_, result any) error {
			switch part := result.(type) {
			case storage.TreePart:
				rows += int64(len(part.Nodes))
				for _, batch := range part.Leaves {
					rows += int64(len(batch.Refs))
				}
			case []storage.TreeEvent:
				rows += int64(len(part))
			}
			return nil
		}}), r.id()
		var logs []storage.Log
		for range n / 1000 {
			logs = append(logs, r.write(l, tenant, 1000)...)
		}
		r.settle(l, tenant, int64(n))
		r.checkpoint(l)
		for _, at := range []int{0, n / 3, n - 1} {
			rows = 0
			allocated := bytesOf(func() {
				must.Get(l.Proof(t.Context(), tenant, uuid.UUID(logs[at].ID)))(t)
			})
			blocks := bits.Len(uint(n / storage.LeavesPerBlock))
			if most := int64((4 + blocks) * storage.LeavesPerBlock); rows > most {
				t.Errorf("the proof of entry %d of %d read %d rows, want %d at most", at, n, rows, most)
			}
			if n == 1000 {
				small = max(small, allocated)
			}
			if allocated > 2*small {
				t.Errorf("the proof of entry %d of %d allocated %d bytes, and %d among 1,000", at, n, allocated, small)
			}
		}
	}
}

// bytesOf returns how many bytes of the heap a function allocates.
func bytesOf(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Notes returns notes oldest first, from a size and a time on, up to a limit.
func TestNotes(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	var want [][]byte
	var middle time.Time
	for i := range 7 {
		if i == 4 {
			middle = r.clock()
		}
		r.advance(time.Minute)
		r.write(l, tenant, 1)
		want = append(want, r.checkpoint(l))
	}
	notes := func(size int64, since time.Time, limit int) []storage.Checkpoint {
		t.Helper()
		all := must.Get(l.Notes(t.Context(), size, since, limit))(t)
		return all
	}
	all := notes(0, time.Time{}, 100)
	if len(all) < len(want) || !bytes.Equal(all[len(all)-1].Note, want[6]) {
		t.Fatalf("%d notes, want %d", len(all), len(want))
	}
	first := notes(0, time.Time{}, 3)
	if len(first) != 3 || first[0].Size != all[0].Size || first[2].Size != all[2].Size {
		t.Errorf("the first three of %d: %d", len(all), len(first))
	}
	if rest := notes(first[2].Size, time.Time{}, 100); len(rest) != len(all)-3 || rest[0].Size != all[3].Size {
		t.Errorf("%d notes after the third of %d", len(rest), len(all))
	}
	if late := notes(0, middle, 100); len(late) != 3 || !bytes.Equal(late[0].Note, want[4]) {
		t.Errorf("%d notes since the fifth of %d", len(late), len(all))
	}
}

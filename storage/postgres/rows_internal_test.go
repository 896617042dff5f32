package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
)

// TestKeptRowsAreLikeNewOnes puts rows into memory that held other rows before. The
// parameters are the same as in new memory, and large values are not kept.
func TestKeptRowsAreLikeNewOnes(t *testing.T) {
	t.Parallel()
	small := storage.Job{ID: storage.ID{1}, Kind: "a", RunAt: time.UnixMicro(5), Owner: storage.ID{2}, Payload: []byte("xy")}
	batches := [][]storage.Job{
		{small},
		{{ID: storage.ID{3}, Kind: "b", RunAt: time.UnixMicro(6), Dead: true, LeaseUntil: time.UnixMicro(7), Payload: []byte("zz")}},
		{{Kind: "a longer kind", Payload: bytes.Repeat([]byte{1}, maxCopied)}},
		{{Kind: "c", Payload: bytes.Repeat([]byte{2}, maxKept+1)}},
		{small, {Kind: "d"}, small},
		{{Kind: "e", Payload: bytes.Repeat([]byte{3}, maxCopied+1)}},
		{},
		{{Kind: "", Payload: []byte{}}},
		{small},
	}
	for name, many := range map[string]bool{"arrays": true, "scalars": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &slot{}
			for i, batch := range batches {
				kept, fresh := s.keep(jobColumns, many), newRow(jobColumns)
				if many {
					fresh = newRows(jobColumns, 1)
				} else if len(batch) != 1 {
					continue
				}
				for j := range batch {
					putJob(kept, &batch[j])
					putJob(fresh, &batch[j])
				}
				if diff := cmp.Diff(fresh.values(nil), kept.values(nil)); diff != "" || kept.n != fresh.n {
					t.Errorf("batch %d, %d rows, want %d (-new +kept):\n%s", i, kept.n, fresh.n, diff)
				}
			}
			kept := s.keep(jobColumns, many)
			for i := range kept.arrays {
				if n := cap(kept.arrays[i].buf); n > maxKept {
					t.Errorf("column %d keeps %d bytes", i, n)
				}
			}
		})
	}
}

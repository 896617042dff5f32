package statements

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// TestKeptRowsAreLikeNewOnes puts rows into memory that held other rows before. The
// parameters are the same as in new memory, and large values are not kept.
func TestKeptRowsAreLikeNewOnes(t *testing.T) {
	t.Parallel()
	small := storage.Job{ID: storage.ID{1}, Kind: "a", RunAt: time.UnixMicro(5), Owner: storage.ID{2}, Payload: []byte("xy")}
	batches := [][]storage.Job{
		{small},
		{{ID: storage.ID{3}, Kind: "b", RunAt: time.UnixMicro(6), Dead: true, LeaseUntil: time.UnixMicro(7), Payload: []byte("zz")}},
		{{Kind: "a longer kind", Payload: bytes.Repeat([]byte{1}, wire.MaxCopied)}},
		{{Kind: "c", Payload: bytes.Repeat([]byte{2}, wire.MaxKept+1)}},
		{small, {Kind: "d"}, small},
		{{Kind: "e", Payload: bytes.Repeat([]byte{3}, wire.MaxCopied+1)}},
		{},
		{{Kind: "", Payload: []byte{}}},
		{small},
	}
	for name, many := range map[string]bool{"arrays": true, "scalars": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept *wire.Rows
			for i, batch := range batches {
				fresh := wire.NewRow(wire.JobColumns)
				if many {
					fresh = wire.NewRows(wire.JobColumns, 1)
				} else if len(batch) != 1 {
					continue
				}
				kept = emptied(kept, wire.JobColumns, !many)
				for j := range batch {
					sqlstore.PutJob(kept, &batch[j])
					sqlstore.PutJob(fresh, &batch[j])
				}
				if diff := cmp.Diff(fresh.Values(nil), kept.Values(nil)); diff != "" || kept.N != fresh.N {
					t.Errorf("batch %d, %d rows, want %d (-new +kept):\n%s", i, kept.N, fresh.N, diff)
				}
			}
			kept = emptied(kept, wire.JobColumns, !many)
			for i := range kept.Arrays {
				if n := cap(kept.Arrays[i].Buf); n > wire.MaxKept {
					t.Errorf("column %d keeps %d bytes", i, n)
				}
			}
		})
	}
}

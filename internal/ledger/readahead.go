package ledger

import (
	"context"
	"iter"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// chunkSize is how many leaves are read at once, in whole blocks.
	chunkSize = 8 * storage.LeavesPerBlock
	// maxAhead limits how many chunks are being read or wait for their use.
	maxAhead = 3
	// maxEmpty is how many consecutive chunks may have no leaves. After that, the
	// rest is missing too: an attacker may have stored any number as the tree's
	// size.
	maxEmpty = 8
)

// entryLeaf is a stored leaf with the row of its entry. The row is nil if the entry
// does not exist.
type entryLeaf struct {
	leaf
	row *storage.Log
}

// chunk is a range of leaves with the rows of their entries.
type chunk struct {
	leaves []storage.Leaves
	rows   map[storage.ID]*storage.Log
	err    error
}

// readAhead yields the leaves that the database has from an index on. It reads
// several chunks at a time, while earlier chunks are used. Leaves of batches that
// overlap come twice, so that a verifier finds them.
func (x *exported) readAhead(from int64) iter.Seq2[entryLeaf, error] {
	return func(yield func(entryLeaf, error) bool) {
		ctx, cancel := context.WithCancel(x.ctx)
		var reads sync.WaitGroup
		defer reads.Wait()
		defer cancel()
		var now chunk
		var ahead []chan chunk
		for next, empty := from, 0; empty < maxEmpty; empty++ {
			for next < x.size && len(ahead) < maxAhead {
				first, to, done := next, min(x.size, next-next%chunkSize+chunkSize), make(chan chunk, 1)
				reads.Go(func() { done <- x.readChunk(ctx, first, to) })
				ahead, next = append(ahead, done), to
			}
			if len(ahead) == 0 {
				return
			}
			if x.pause != nil && now.leaves != nil {
				x.pause()
			}
			if now, ahead = <-ahead[0], ahead[1:]; now.err != nil {
				yield(entryLeaf{}, now.err)
				return
			}
			if !now.each(from, x.size, yield) {
				return
			}
			if len(now.leaves) > 0 {
				empty = -1
			}
		}
	}
}

// each yields the leaves of a chunk from one index up to another. It reports false
// if no more are wanted.
func (c *chunk) each(from, to int64, yield func(entryLeaf, error) bool) bool {
	for i := range c.leaves {
		for j, ref := range c.leaves[i].Refs {
			x := entryLeaf{leaf{&c.leaves[i], j}, c.rows[ref.ID]}
			if n := x.index(); n >= to || n >= from && !yield(x, nil) {
				return false
			}
		}
	}
	return true
}

// readChunk reads leaves and the rows of their entries.
func (x *exported) readChunk(ctx context.Context, from, to int64) (c chunk) {
	tenant := storage.ID(x.tenant)
	part, err := x.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: tenant, From: from, To: to})
	if err != nil {
		return chunk{err: err}
	}
	var refs []storage.LogRef
	for i := range part.Leaves {
		refs = append(refs, part.Leaves[i].Refs...)
	}
	rows, err := x.l.c.Store.LogsByRef(ctx, tenant, refs)
	c = chunk{part.Leaves, make(map[storage.ID]*storage.Log, len(rows)), err}
	for i := range rows {
		c.rows[rows[i].ID] = &rows[i]
	}
	return c
}

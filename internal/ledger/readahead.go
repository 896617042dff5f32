package ledger

import (
	"context"
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

// chunk is a range of leaves with the rows of their entries.
type chunk struct {
	leaves []storage.Leaves
	rows   map[storage.ID]*storage.Log
}

// readAhead reads the leaves of a tree and their entries in chunks, several at a
// time, while earlier chunks are used.
type readAhead struct {
	x      *exported
	chunks chan chan chunkRead
	ended  func() error // why no chunks come anymore
	cancel context.CancelFunc
	reads  sync.WaitGroup

	now   *chunk
	batch int   // the next leaf is in this batch of the chunk
	leaf  int   // at this position
	from  int64 // index of the first leaf
	read  int64 // index after the last leaf that was read
	empty int   // consecutive chunks without leaves
}

type chunkRead struct {
	chunk *chunk
	to    int64
	err   error
}

// readAhead starts to read the leaves from an index on.
func (x *exported) readAhead(from int64) *readAhead {
	ctx, cancel := context.WithCancel(x.ctx)
	a := &readAhead{x: x, chunks: make(chan chan chunkRead, maxAhead-1), ended: ctx.Err, cancel: cancel, now: &chunk{}, from: from, read: from}
	a.reads.Go(func() {
		defer close(a.chunks)
		for first := from; first < x.size; {
			to := min(x.size, first-first%chunkSize+chunkSize)
			done := make(chan chunkRead, 1)
			select {
			case a.chunks <- done:
			case <-ctx.Done():
				return
			}
			from := first
			a.reads.Go(func() {
				c, err := x.readChunk(ctx, from, to)
				done <- chunkRead{c, to, err}
			})
			first = to
		}
	})
	return a
}

// each calls do for the leaves that the database has, up to an index. The row is
// nil if the entry does not exist. Leaves of batches that overlap come twice, so
// that a verifier finds them.
func (a *readAhead) each(end int64, do func(*storage.Leaves, int, *storage.Log) error) error {
	for a.empty < maxEmpty {
		for ; a.batch < len(a.now.leaves); a.batch, a.leaf = a.batch+1, 0 {
			b := &a.now.leaves[a.batch]
			for ; a.leaf < len(b.Refs); a.leaf++ {
				switch n := b.First + int64(a.leaf); {
				case n >= end:
					return nil
				case n < a.from:
					continue
				}
				if err := do(b, a.leaf, a.now.rows[b.Refs[a.leaf].ID]); err != nil {
					return err
				}
			}
		}
		if a.read >= end {
			return nil
		}
		if err := a.more(); err != nil {
			return err
		}
	}
	return nil
}

// more waits for the next chunk.
func (a *readAhead) more() error {
	if a.x.pause != nil && a.now.leaves != nil {
		a.x.pause()
	}
	done, ok := <-a.chunks
	if !ok {
		return a.ended()
	}
	r := <-done
	if r.err != nil {
		return r.err
	}
	a.now, a.batch, a.leaf, a.read = r.chunk, 0, 0, r.to
	if a.empty++; len(r.chunk.leaves) > 0 {
		a.empty = 0
	}
	return nil
}

// stop ends all reads.
func (a *readAhead) stop() {
	a.cancel()
	a.reads.Wait()
}

// readChunk reads leaves and the rows of their entries.
func (x *exported) readChunk(ctx context.Context, from, to int64) (*chunk, error) {
	tenant := storage.ID(x.tenant)
	part, err := x.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: tenant, From: from, To: to})
	if err != nil {
		return nil, err
	}
	var refs []storage.LogRef
	for i := range part.Leaves {
		refs = append(refs, part.Leaves[i].Refs...)
	}
	rows, err := x.l.c.Store.LogsByRef(ctx, tenant, refs)
	if err != nil {
		return nil, err
	}
	c := &chunk{leaves: part.Leaves, rows: make(map[storage.ID]*storage.Log, len(rows))}
	for i := range rows {
		c.rows[rows[i].ID] = &rows[i]
	}
	return c, nil
}

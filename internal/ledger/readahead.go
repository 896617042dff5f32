package ledger

import (
	"context"
	"sync"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// chunkSize is how many leaves are read at once, in whole blocks.
	chunkSize = 8 * storage.LeavesPerBlock
	// maxAhead limits how many chunks are being read or wait for their use.
	maxAhead = 3
)

// chunk is a range of leaves with the rows of their entries.
type chunk struct {
	to     int64
	leaves []storage.Leaves
	rows   map[storage.ID]*entryRow
}

// entryRow is a row of the log with its hashes.
type entryRow struct {
	storage.Log
	entry  evidence.Entry
	mac    evidence.Mac
	commit evidence.Hash
}

// readAhead reads the leaves of a tree and their entries in chunks, several at a
// time, while earlier chunks are compared.
type readAhead struct {
	chunks chan chan chunkRead
	ended  func() error // why no chunks come anymore
	cancel context.CancelFunc
	reads  sync.WaitGroup
}

type chunkRead struct {
	chunk *chunk
	err   error
}

// readAhead starts to read the leaves from an index on.
func (t *tenantCheck) readAhead(from int64) *readAhead {
	ctx, cancel := context.WithCancel(t.ctx)
	a := &readAhead{chunks: make(chan chan chunkRead, maxAhead-1), ended: ctx.Err, cancel: cancel}
	a.reads.Go(func() {
		defer close(a.chunks)
		for ; from < t.tree.Size; from += chunkSize {
			first, to, done := from, min(t.tree.Size, from+chunkSize), make(chan chunkRead, 1)
			select {
			case a.chunks <- done:
			case <-ctx.Done():
				return
			}
			a.reads.Go(func() {
				c, err := t.readChunk(ctx, first, to)
				done <- chunkRead{c, err}
			})
		}
	})
	return a
}

// next returns the next chunk. It must not be called after the last one.
func (a *readAhead) next() (*chunk, error) {
	done, ok := <-a.chunks
	if !ok {
		return nil, a.ended()
	}
	read := <-done
	return read.chunk, read.err
}

// stop ends all reads.
func (a *readAhead) stop() {
	a.cancel()
	a.reads.Wait()
}

// readChunk reads leaves and the rows of their entries, and hashes the rows.
func (t *tenantCheck) readChunk(ctx context.Context, from, to int64) (*chunk, error) {
	part, err := t.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: t.tree.Tenant, From: from, To: to})
	if err != nil {
		return nil, err
	}
	var refs []storage.LogRef
	for i := range part.Leaves {
		refs = append(refs, part.Leaves[i].Refs...)
	}
	rows, err := t.l.c.Store.LogsByRef(ctx, t.tree.Tenant, refs)
	if err != nil {
		return nil, err
	}
	hashed, c := make([]entryRow, len(rows)), &chunk{to: to, leaves: part.Leaves, rows: make(map[storage.ID]*entryRow, len(rows))}
	for i := range rows {
		r := &hashed[i]
		r.Log, r.entry = rows[i], EntryOf(&rows[i])
		if r.mac, err = t.l.mac(ctx, t.id, &r.entry); err != nil {
			return nil, err
		}
		r.commit = r.entry.Commit(t.id, r.mac)
		c.rows[r.ID] = r
	}
	return c, nil
}

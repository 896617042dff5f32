package ledger

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// naive is a tree that keeps every hash.
type naive struct {
	hashes []tlog.Hash
	size   int64
	seen   map[storage.ID]bool
}

// ReadHashes implements [tlog.HashReader].
func (n *naive) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	all := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		all[i] = n.hashes[index]
	}
	return all, nil
}

// follow adds the new leaves. It must run before they can be pruned.
func (n *naive) follow(r *rig, tenant uuid.UUID) {
	r.Helper()
	part := must.Get(r.store.ReadTree(r.Context(), storage.TreeQuery{Tenant: storage.ID(tenant), From: n.size, To: 1 << 40}))(r)
	for i := range part.Leaves {
		b := &part.Leaves[i]
		for j := range b.Refs {
			if b.First+int64(j) < n.size {
				continue
			}
			if n.seen[b.Refs[j].ID] {
				r.Fatalf("entry %x is in the tree twice", b.Refs[j].ID)
			}
			n.seen[b.Refs[j].ID] = true
			more := must.Get(tlog.StoredHashesForRecordHash(n.size, leaf{b, j}.hash(), n))(r)
			n.hashes, n.size = append(n.hashes, more...), n.size+1
		}
	}
}

// live runs the operations that the bytes encode, each on one of two nodes.
func live(r *rig, program []byte) {
	tenant := r.id()
	old := r.write(nil, tenant, 7)
	r.advance(time.Hour)
	nodes := []*Ledger{r.open(), r.open()}
	r.settle(nodes[0], tenant, int64(len(old))) // before any entry may be deleted
	model := &naive{seen: map[storage.ID]bool{}}
	all := old
	for _, b := range program {
		l, n := nodes[b&1], 1+int(b>>4)*20
		switch b >> 1 & 7 {
		case 0, 1, 2:
			all = append(all, r.write(l, tenant, n)...)
		case 3:
			r.checkpoint(l)
		case 4:
			must.Get(l.Round(r.Context()))(r)
		case 5: // a new node replaces the old one
			nodes[b&1] = r.open()
		case 6:
			must.Do(r, l.RecordErasure(r.Context(), evidence.Event{Tenant: tenant, ID: r.id(), Reason: "asked for", Count: 1}, time.Time{}))
		case 7:
			must.Get(l.Sequence(r.Context(), tenant))(r)
			model.follow(r, tenant) // before leaves are pruned
			cutoff, err := l.Retain(r.Context(), tenant, all[len(all)/2].CreatedAt.Add(time.Hour))
			if err == nil {
				_, err = r.store.DeleteLogs(r.Context(), storage.ID(tenant), cutoff, 10_000)
			}
			must.Do(r, err)
		}
		r.advance(20 * time.Minute)
		model.follow(r, tenant)
	}
	r.settle(nodes[0], tenant, int64(len(all)))
	model.follow(r, tenant)
	tree := must.Get(nodes[1].tree(r.Context(), tenant))(r)
	if root, err := tlog.TreeHash(model.size, model); err != nil || model.size != int64(len(all)) || root != tlog.Hash(tree.Root) {
		r.Errorf("the root of %d leaves differs from the naive tree with %d: %v", tree.Size, model.size, err)
	}
	r.isGood(nodes[0], tenant, nil)
}

// FuzzLife runs random operations.
func FuzzLife(f *testing.F) {
	f.Add([]byte{0x00, 0x06, 0xf1, 0x07, 0xe2, 0x0a, 0x0c, 0x06})
	f.Add([]byte{0xf0, 0xf1, 0x08, 0xf4, 0x0c, 0x0d, 0x0e, 0x0f, 0xf0, 0x09})
	f.Add([]byte{0xf0, 0xf0, 0x0e, 0xf1, 0x0f, 0xf0, 0x0c, 0x0b, 0x0e, 0x06, 0x0f})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 24 {
			return
		}
		live(newRig(t), program)
	})
}

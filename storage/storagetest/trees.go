package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// trees is a database with trees.
type trees struct {
	*dbTest
	storage.TreeStorage
}

// onTrees returns the test of a rule that applies only to a [storage.TreeStorage].
func onTrees(holds func(*dbTest, trees)) func(*dbTest) {
	return optional(func(w *dbTest, s storage.TreeStorage) { holds(w, trees{w, s}) })
}

// leaves returns a batch of leaves.
func (t trees) leaves(first int64, n int) storage.Leaves {
	l := storage.Leaves{First: first, Kind: 2}
	for i := range n {
		l.Refs = append(l.Refs, storage.LogRef{ID: t.id(), Seq: int64(i) << 40})
		l.Hash = append(l.Hash, t.key())
	}
	return l
}

// grown returns a change that makes a tree larger, and the tree after it.
func (t trees) grown(was storage.Tree, size int64) (*storage.TreeChange, storage.Tree) {
	next := storage.Tree{Tenant: was.Tenant, Size: size, Root: t.key(), State: fmt.Appendf(nil, "state %d", size)}
	return &storage.TreeChange{Was: was, Tree: next}, next
}

func (t trees) mustWrite(c *storage.TreeChange) {
	t.Helper()
	t.ok("write tree", t.WriteTree(t.Context(), c))
}

// read returns rows of a tree, and the tree itself.
func (t trees) read(q storage.TreeQuery) (storage.TreePart, []storage.Tree) {
	t.Helper()
	part := must(t.ReadTree(t.Context(), q))(t.dbTest, "read tree")
	all := must(t.Trees(t.Context(), storage.TreeFilter{Tenants: []storage.ID{q.Tenant}}))(t.dbTest, "trees")
	return part, all
}

func treeRows(w *dbTest, t trees) {
	tenant, other := w.id(), w.id()
	if part, all := t.read(storage.TreeQuery{Tenant: tenant, To: 1000, Nodes: []storage.NodeRange{{Level: 8, To: 10}}}); part.Leaves != nil || part.Nodes != nil || all != nil {
		w.Errorf("a tree that does not exist: %v, %v", part, all)
	}
	c, tree := t.grown(storage.Tree{Tenant: tenant}, 300)
	c.Leaves = []storage.Leaves{t.leaves(0, 250), t.leaves(250, 6), t.leaves(256, 44)}
	c.Nodes = []storage.Node{{Level: 8, N: 0, Hash: w.key()}, {Level: 16, N: 3, Hash: w.key()}}
	t.mustWrite(c)
	more, _ := t.grown(storage.Tree{Tenant: other}, 1)
	more.Leaves = []storage.Leaves{t.leaves(0, 1)}
	t.mustWrite(more)
	part, all := t.read(storage.TreeQuery{Tenant: tenant, To: 300, Nodes: []storage.NodeRange{{Level: 8, From: 0, To: 2}, {Level: 16, From: 0, To: 3}, {Level: 16, From: 3, To: 4}, {Level: 24, From: 0, To: 9}}})
	w.same("tree", all, []storage.Tree{tree})
	w.same("leaves", part.Leaves, c.Leaves)
	w.same("nodes", part.Nodes, c.Nodes)
	for from, want := range map[int64][]storage.Leaves{249: c.Leaves, 250: c.Leaves[1:], 255: c.Leaves[1:], 256: c.Leaves[2:], 299: c.Leaves[2:], 300: nil} {
		part, _ := t.read(storage.TreeQuery{Tenant: tenant, From: from, To: 301})
		w.same(fmt.Sprint("leaves from ", from), part.Leaves, want)
	}
	holding, _ := t.read(storage.TreeQuery{Tenant: tenant, To: 300, Holding: c.Leaves[1].Refs[3].ID})
	w.same("leaves that hold an entry", holding.Leaves, c.Leaves[1:2])
	holding, _ = t.read(storage.TreeQuery{Tenant: other, To: 300, Holding: c.Leaves[1].Refs[3].ID})
	w.same("leaves that hold an entry of another tenant", holding.Leaves, []storage.Leaves(nil))
	part, _ = t.read(storage.TreeQuery{Tenant: tenant, To: 250})
	w.same("leaves below 250", part.Leaves, c.Leaves[:1])
}

func treeStale(w *dbTest, t trees) {
	tenant := w.id()
	c, tree := t.grown(storage.Tree{Tenant: tenant}, 3)
	c.Leaves = []storage.Leaves{t.leaves(0, 3)}
	t.mustWrite(c)
	for name, was := range map[string]storage.Tree{
		"new":           {Tenant: tenant},
		"another size":  {Tenant: tenant, Size: 2, State: tree.State},
		"another state": {Tenant: tenant, Size: 3, State: []byte("x")},
		"no such tree":  {Tenant: w.id(), Size: 3, State: tree.State},
	} {
		bad, _ := t.grown(was, 4)
		bad.Leaves, bad.Nodes = []storage.Leaves{t.leaves(3, 1)}, []storage.Node{{Level: 8, Hash: w.key()}}
		bad.Checkpoint, bad.PruneBelow = &storage.Checkpoint{Size: 1, Note: []byte("n"), At: now}, 256
		err := t.WriteTree(w.Context(), bad)
		w.isConflict(err, storage.TreeStale, 0)
		part, all := t.read(storage.TreeQuery{Tenant: tenant, To: 10, Nodes: []storage.NodeRange{{Level: 8, From: 0, To: 9}}})
		w.same(name, all, []storage.Tree{tree})
		w.same(name, part, storage.TreePart{Leaves: c.Leaves})
	}
}

func treeRace(w *dbTest, t trees) {
	tenant, nodes := w.id(), w.nodes()
	const writers, rounds = 4, 5
	errs := try(writers, func(i int) error {
		s := nodes[i%len(nodes)].(storage.TreeStorage)
		for won := 0; won < rounds; {
			was := storage.Tree{Tenant: tenant}
			all, err := s.Trees(w.Context(), storage.TreeFilter{Tenants: []storage.ID{tenant}})
			if err != nil {
				return err
			}
			if len(all) > 0 {
				was = all[0]
			}
			c, _ := t.grown(was, was.Size+1)
			c.Leaves = []storage.Leaves{t.leaves(was.Size, 1)}
			switch err := s.WriteTree(w.Context(), c); {
			case err == nil:
				won++
			case !errors.Is(err, storage.ErrStale):
				return err
			}
		}
		return nil
	})
	w.ok("append", errors.Join(errs...))
	part, all := t.read(storage.TreeQuery{Tenant: tenant, To: 100})
	if len(all) != 1 || all[0].Size != writers*rounds || len(part.Leaves) != writers*rounds {
		w.Errorf("got %v and %d batches, want %d", all, len(part.Leaves), writers*rounds)
	}
}

func treeEvents(w *dbTest, t trees) {
	c, tree := t.grown(storage.Tree{}, 3)
	about := w.id()
	c.Events = []storage.TreeEvent{{N: 0, Body: []byte("{}")}, {N: 1, About: about, Body: []byte("größe \x00")}, {N: 2, Body: []byte{}}}
	c.Checkpoint = &storage.Checkpoint{Size: 3, Note: []byte("three"), At: now}
	t.mustWrite(c)
	next, _ := t.grown(tree, 4)
	next.Events = []storage.TreeEvent{{N: 3, About: about, Body: []byte("four")}}
	next.Checkpoint = &storage.Checkpoint{Size: 4, Note: []byte("four"), At: now.Add(time.Minute)}
	t.mustWrite(next)
	all := append(slices.Clone(c.Events), next.Events...)
	for what, is := range map[string]struct {
		q    storage.EventQuery
		want []storage.TreeEvent
	}{
		"events":                     {storage.EventQuery{From: 1, To: 9}, all[1:]},
		"the first events":           {storage.EventQuery{From: 1, To: 9, Limit: 2}, all[1:3]},
		"events about a tenant":      {storage.EventQuery{To: 9, About: &about}, []storage.TreeEvent{all[1], all[3]}},
		"the next about a tenant":    {storage.EventQuery{From: 2, To: 9, About: &about}, all[3:]},
		"events about the vault":     {storage.EventQuery{To: 9, About: &storage.ID{}}, []storage.TreeEvent{all[0], all[2]}},
		"events about nothing known": {storage.EventQuery{To: 9, About: &tree.Tenant, From: 3}, nil},
	} {
		got := must(t.TreeEvents(w.Context(), is.q))(w, "TreeEvents")
		w.same(what, got, is.want)
	}
	for q, want := range map[storage.CheckpointQuery][]storage.Checkpoint{
		{Below: 100, Limit: 10}:               {*next.Checkpoint, *c.Checkpoint},
		{Below: 100, Limit: 10, Oldest: true}: {*c.Checkpoint, *next.Checkpoint},
		{Below: 100, Limit: 1}:                {*next.Checkpoint},
		{Below: 4, Limit: 10}:                 {*c.Checkpoint},
		{Above: 3, Below: 100, Limit: 10}:     {*next.Checkpoint},
		{Below: 3, Limit: 10}:                 nil,
	} {
		got := must(t.Checkpoints(w.Context(), q))(w, "Checkpoints")
		w.same(fmt.Sprintf("checkpoints %+v", q), got, want)
	}
}

func treeCheckpointStays(w *dbTest, t trees) {
	tree := storage.Tree{}
	for _, note := range []string{"first", "second"} {
		c, next := t.grown(tree, 5)
		c.Checkpoint = &storage.Checkpoint{Size: 5, Note: []byte(note), At: now}
		t.mustWrite(c)
		tree = next
	}
	if got, err := t.Checkpoints(w.Context(), storage.CheckpointQuery{Below: 100, Limit: 9}); err != nil || len(got) != 1 || string(got[0].Note) != "first" {
		w.Errorf("got %v, %v", got, err)
	}
}

func treeList(w *dbTest, t trees) {
	var want []storage.Tree
	for range 5 {
		c, tree := t.grown(storage.Tree{Tenant: w.id()}, 1)
		t.mustWrite(c)
		want = append(want, tree)
	}
	c, vault := t.grown(storage.Tree{}, 1)
	t.mustWrite(c)
	var got []storage.Tree
	for after := (storage.ID{}); ; {
		page := must(t.Trees(w.Context(), storage.TreeFilter{After: after, Limit: 2}))(w, "Trees")
		if len(page) == 0 {
			break
		}
		got, after = append(got, page...), page[len(page)-1].Tenant
	}
	w.same("all but the vault's", got, want)
	some := must(t.Trees(w.Context(), storage.TreeFilter{Tenants: []storage.ID{want[3].Tenant, {}, w.id(), want[1].Tenant}}))(w, "Trees")
	w.same("some", some, []storage.Tree{vault, want[1], want[3]})
	if none, err := t.Trees(w.Context(), storage.TreeFilter{Tenants: []storage.ID{}}); err != nil || len(none) > 0 {
		w.Errorf("no tenants: %v, %v", none, err)
	}
}

func treePrune(w *dbTest, t trees) {
	tenant, other := w.id(), w.id()
	change := map[storage.ID]*storage.TreeChange{}
	state := map[storage.ID]storage.Tree{}
	for _, id := range []storage.ID{tenant, other} {
		change[id], state[id] = t.grown(storage.Tree{Tenant: id}, 600)
		change[id].Leaves = []storage.Leaves{t.leaves(0, 256), t.leaves(256, 256), t.leaves(512, 88)}
		change[id].Nodes = []storage.Node{{Level: 8, N: 0, Hash: w.key()}, {Level: 8, N: 1, Hash: w.key()}}
		t.mustWrite(change[id])
	}
	c, _ := t.grown(state[tenant], 600)
	c.PruneBelow = 512
	t.mustWrite(c)
	for id, leaves := range map[storage.ID][]storage.Leaves{tenant: change[tenant].Leaves[2:], other: change[other].Leaves} {
		part, _ := t.read(storage.TreeQuery{Tenant: id, To: 600, Nodes: []storage.NodeRange{{Level: 8, From: 0, To: 2}}})
		w.same("leaves", part.Leaves, leaves)
		w.same("nodes", part.Nodes, change[id].Nodes)
	}
}

// followed returns a tenant's entries as a follower from the beginning gets
// them.
func (t trees) followed(tenant storage.ID, n int) []storage.Log {
	t.Helper()
	return t.follower(storage.LogFollowing{Tenant: tenant, From: time.UnixMicro(1)}).until(n)
}

func refsOf(logs []storage.Log) []storage.LogRef {
	refs := make([]storage.LogRef, len(logs))
	for i, l := range logs {
		refs[i] = storage.LogRef{ID: l.ID, Seq: l.Seq}
	}
	return refs
}

func treeLogs(w *dbTest, t trees) {
	tenant := w.id()
	entries := w.manyLogs(8)
	for i := 0; i < len(entries); i += 2 {
		w.writeLogs(tenant, entries[i:i+2]...)
	}
	w.writeLogs(w.id(), w.manyLogs(2)...)
	got := t.followed(tenant, 8)
	seq := int64(0)
	for i, l := range got {
		if l.Seq <= 0 || l.Seq < seq || l.Seq == seq && i%2 == 0 {
			w.Errorf("entry %d of 8 has the number %d after %d", i, l.Seq, seq)
		}
		seq = l.Seq
	}
	for _, some := range [][]storage.Log{got, got[2:5], {got[7], got[0]}} {
		found := must(t.LogsByRef(w.Context(), tenant, append(refsOf(some), storage.LogRef{ID: w.id(), Seq: seq})))(w, "LogsByRef")
		for _, l := range some {
			if !slices.Contains(found, l) {
				w.Errorf("entry %x is not found", l.ID)
			}
		}
		if len(found) != len(some) {
			w.Errorf("found %d entries, want %d", len(found), len(some))
		}
	}
	unknown := must(t.LogsByRef(w.Context(), tenant, []storage.LogRef{{ID: got[3].ID, Seq: storage.AnySeq}, {ID: w.id(), Seq: storage.AnySeq}}))(w, "LogsByRef")
	w.same("an entry whose number is not known", unknown, got[3:4])
	if none, err := t.LogsByRef(w.Context(), w.id(), refsOf(got)); err != nil || len(none) > 0 {
		w.Errorf("another tenant finds %d entries, %v", len(none), err)
	}
}

// treeLogPages reads more entries than a backend looks up one by one: next to each
// other, with others between them, and with one far behind them.
func treeLogPages(w *dbTest, t trees) {
	tenant := w.id()
	w.writeLogs(tenant, w.manyLogs(200)...)
	all := t.followed(tenant, 200)
	byID := func(a, b storage.Log) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	slices.SortFunc(all, byID)
	var spread []storage.Log
	for i := 0; i < len(all); i += 5 {
		spread = append(spread, all[i])
	}
	for name, some := range map[string][]storage.Log{
		"all": all, "a page": all[40:110], "one in five": spread, "a page and the last": append(slices.Clone(all[:40]), all[199]),
	} {
		refs := refsOf(some)
		slices.Reverse(refs)
		found := must(t.LogsByRef(w.Context(), tenant, append(refs, storage.LogRef{ID: w.id(), Seq: all[0].Seq})))(w, "LogsByRef")
		slices.SortFunc(found, byID)
		w.same(name, found, some)
	}
}

func treeUntil(w *dbTest, t trees) {
	tenant := w.id()
	before, later := w.manyLogs(5), w.manyLogs(4)
	w.writeLogs(tenant, before[:2]...)
	w.writeLogs(tenant, before[2:]...)
	t.followed(tenant, 5) // now no transaction of another test holds them back
	_, until, err := w.store.FollowLogs(w.Context(), storage.LogFollowing{Tenant: tenant, Limit: 1})
	if err != nil {
		w.Fatal(err)
	}
	w.writeLogs(tenant, later...)
	w.same("later", w.follower(storage.LogFollowing{Tenant: tenant, After: until}).until(4), later)
	f := w.follower(storage.LogFollowing{Tenant: tenant, From: time.UnixMicro(1), Until: until, Limit: 2})
	w.same("before", f.until(5), before)
	for !slices.Equal(f.After, until) {
		if f.step() {
			w.Fatalf("got entry %x that was written later", f.got[len(f.got)-1].ID)
		}
	}
	empty := w.id()
	f = w.follower(storage.LogFollowing{Tenant: empty, From: time.UnixMicro(1), Until: until})
	for !slices.Equal(f.After, until) {
		f.step()
	}
	w.same("entries of an empty log", f.got, []storage.Log(nil))
}

func treePurge(w *dbTest, t trees) {
	tenant := w.id()
	c, _ := t.grown(storage.Tree{Tenant: tenant}, 256)
	c.Leaves, c.Nodes = []storage.Leaves{t.leaves(0, 256)}, []storage.Node{{Level: 8, N: 0, Hash: w.key()}}
	t.mustWrite(c)
	w.purge(tenant, 10)
	if part, all := t.read(storage.TreeQuery{Tenant: tenant, To: 999, Nodes: []storage.NodeRange{{Level: 8, From: 0, To: 9}}}); part.Leaves != nil || part.Nodes != nil || all != nil {
		w.Errorf("left: %v, %v", part, all)
	}
}

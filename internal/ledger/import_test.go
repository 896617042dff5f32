package ledger

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// The row of a tree from the minute in which an import was open is put back, at the
// same size, with an invented entry from before evidence. The row is found, and the
// entry does not get into the tree.
func TestRowOfAnOpenImport(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		r := newRig(t)
		tenant := r.id()
		old := r.write(nil, tenant, 3)
		invented := r.logs(tenant, 1)
		invented[0].Mac = storage.Hash{}
		l := r.open()
		r.checkpoint(l)
		must.Get(l.Sequence(t.Context(), tenant))(t)
		r.checkpoint(l)
		open := r.treeRow(tenant)
		for range 3 { // the rows of an open import have any size
			if _, _, err := l.Import(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		}
		closed := must.Get(l.tree(t.Context(), tenant))(t)
		r.checkpoint(l)
		must.Same(t, "the import has ended", true, l.vault.tenants.head(tenant).closed)
		if closed.Size != int64(len(old)) {
			t.Fatalf("the tree has %d leaves", closed.Size)
		}
		// An attacker cannot make this row; the vault has made it at another size.
		var st state
		must.Do(t, l.openState(t.Context(), &open, &st))
		same := closed
		same.State = must.Get(l.sealState(t.Context(), &same, &st))(t)
		r.exec("UPDATE vault_log_trees SET state = ? WHERE tenant_id = ?", same.State, tenant[:])
		r.put(nil, tenant, invented)
		if !running {
			l = r.open()
		}
		report := r.verify(l)
		if !slices.Contains(verdictsOf(report), evidence.Altered) || !slices.Contains(verdictsOf(report), evidence.Forged) {
			t.Errorf("running %t: in place: %v", running, report.Findings)
		}
		_, _ = l.Round(t.Context())
		if ids := r.leafIDs(tenant); slices.Contains(ids, invented[0].ID) {
			t.Errorf("running %t: the tree has the invented entry", running)
		}
		if bundle := r.bundle(l, tenant); bytes.Contains(bundle, []byte(uuid.UUID(invented[0].ID).String())) {
			t.Errorf("running %t: the bundle has the invented entry", running)
		}
	}
}

// Every older row of a tree is found, whatever its size: by a node that knew a newer
// one, and by a node that knows the newest head.
func TestOlderRowsOfATreeAreFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	r.write(nil, tenant, 2)
	l := r.open()
	var rows []storage.Tree
	keep := func() {
		r.checkpoint(l)
		if row := r.treeRow(tenant); len(rows) == 0 || !bytes.Equal(rows[len(rows)-1].State, row.State) {
			rows = append(rows, row)
		}
	}
	must.Get(l.Sequence(t.Context(), tenant))(t)
	keep()
	for range 2 {
		if _, _, err := l.Import(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		keep()
	}
	r.advance(48 * 3600e9)
	must.Get(l.Retain(t.Context(), tenant, r.clock().Add(-40*3600e9)))(t) // another state of the same size
	keep()
	r.write(l, tenant, 1)
	keep()
	if len(rows) < 4 {
		t.Fatalf("only %d rows", len(rows))
	}
	for i, old := range rows[:len(rows)-1] {
		newest := rows[len(rows)-1]
		r.exec("UPDATE vault_log_trees SET size = ?, root = ?, state = ? WHERE tenant_id = ?", old.Size, old.Root[:], old.State, tenant[:])
		for name, node := range map[string]*Ledger{"running": l, "new": r.open()} {
			if report := r.verify(node); report.OK() {
				t.Errorf("row %d of %d (size %d of %d) on a %s node: no finding", i, len(rows), old.Size, newest.Size, name)
			}
			must.Match(t, name+" node: Sequence", must.Err(node.Sequence(t.Context(), tenant)), ErrTampered)
		}
		r.exec("UPDATE vault_log_trees SET size = ?, root = ?, state = ? WHERE tenant_id = ?", newest.Size, newest.Root[:], newest.State, tenant[:])
	}
	r.isGood(l, tenant, nil)
}

// treeRow returns the row of a tenant's tree.
func (r *rig) treeRow(tenant uuid.UUID) storage.Tree {
	r.Helper()
	return must.Get(r.store.Trees(r.Context(), storage.TreeFilter{Tenants: []storage.ID{storage.ID(tenant)}}))(r)[0]
}

// An older row of the vault's tree, at the same size, stops a node that knew a newer
// one.
func TestOlderRowOfTheVaultsTree(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 1)
	must.Get(l.Sequence(t.Context(), tenant))(t)
	must.Do(t, l.Record(t.Context(), evidence.Event{Kind: evidence.EventErasure, Tenant: tenant}))
	before := r.treeRow(uuid.UUID{})
	l.mu.Lock()
	must.Get(l.signTree(t.Context(), l.vault.tree.Size))(t) // the same size, with a note
	l.mu.Unlock()
	after := r.treeRow(uuid.UUID{})
	must.Same(t, "size", before.Size, after.Size)
	r.exec("UPDATE vault_log_trees SET state = ? WHERE tenant_id = ?", before.State, make([]byte, 16))
	r.write(l, tenant, 1)
	must.Match(t, "Checkpoint", must.Err(l.Checkpoint(t.Context())), ErrSuspended)
	must.Same(t, "alarms", 1, len(r.raised(AlarmRestore)))
}

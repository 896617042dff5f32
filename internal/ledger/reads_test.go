package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// Somebody replaces an event after the vault's tree was read, and puts it back later. The
// other event would explain what is wrong.
func TestEventsThatChangeBetweenReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var forged []byte
	l := r.openOn(&tapped{database: r.store, after: func(query, result any) error {
		if q, ok := query.(storage.EventQuery); ok && (q.About != nil || q.To == q.From+1) && forged != nil {
			for i, e := range result.([]storage.TreeEvent) {
				if strings.Contains(string(e.Body), `"begun"`) {
					result.([]storage.TreeEvent)[i].Body = forged
				}
			}
		}
		return nil
	}})
	tenant := r.id()
	logs := r.write(l, tenant, 3)
	r.settle(l, tenant, 3)

	erasure := evidence.Event{Kind: evidence.EventErasure, Tenant: tenant, ID: r.id(), Reason: "case 7", Time: r.clock()}
	forged = erasure.Body()
	must.Do(t, l.RecordErasure(t.Context(), erasure, r.clock()))
	forged = nil
	must.Same(t, "the erasure is in the vault's tree", true, must.Get(l.hasErasure(t.Context(), &erasure, r.clock()))(t))

	foreign := []byte("a note of another vault")
	forged = (&evidence.Event{Kind: evidence.EventRestored, Notes: []string{string(foreign)}}).Body()
	must.Same(t, "a restore explains the note", false, must.Get(l.explained(t.Context(), l.vault.tree, foreign))(t))

	forged = nil
	r.exec("DELETE FROM vault_logs WHERE tenant_id = ? AND id = ?", tenant[:], logs[1].ID[:])
	forged = (&evidence.Event{Kind: evidence.EventPruned, Tenant: tenant, Cutoff: r.clock().Add(time.Hour).UnixMilli()}).Body()
	if report := r.verify(l); report.OK() {
		t.Errorf("a deleted entry has expired: %v", verdictsOf(report))
	}
}

// A verification that finds too many rows reads the leaves again. Then an attacker shows it
// another leaf, of an entry that the vault did not write.
func TestLeavesThatChangeBetweenReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads, forged := 0, storage.ID{}
	l := r.openOn(&tapped{database: r.store, after: func(_, result any) error {
		if part, ok := result.(storage.TreePart); ok && !forged.IsZero() && len(part.Leaves) > 0 {
			if reads++; reads%2 == 0 {
				b := &part.Leaves[0]
				b.Refs, b.Hash = append(b.Refs, storage.LogRef{ID: forged}), append(b.Hash, storage.Key{})
			}
		}
		return nil
	}})
	tenant := r.id()
	r.write(l, tenant, 1)
	r.settle(l, tenant, 1)
	r.write(l, tenant, 2)
	r.settle(l, tenant, 3)
	invented := r.id()
	r.exec(`INSERT INTO vault_logs (tenant_id, entity_type, id, created_at, actor_type, entity_id, operation, message, seq)
		VALUES (?, 'token', ?, 0, 'user', 'x', 'read', 'Token read', 1)`, tenant[:], invented[:])
	forged = storage.ID(invented)
	if report := r.verify(l); report.OK() {
		t.Errorf("an invented entry is verified: %v", verdictsOf(report))
	}
}

// Somebody alters an entry right after it was sequenced, and the leaf with it.
func TestRecentEntryWithItsLeaf(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	e := EntryOf(&r.write(l, tenant, 3)[1])
	must.Do(t, l.SequenceDirty(t.Context()))
	e.ActorName = "john"
	mac := evidence.Mac{1}
	commit := e.Commit(tenant, mac)
	r.exec("UPDATE vault_logs SET actor_name = 'john', mac = ? WHERE tenant_id = ? AND id = ?", mac[:], tenant[:], e.ID[:])
	r.exec("UPDATE vault_log_leaves SET hashes = CAST(substr(hashes, 1, 32) || ? || substr(hashes, 65) AS BLOB) WHERE tenant_id = ?", commit[:], tenant[:])
	must.Do(t, l.verifyRecent(t.Context()))
	if len(r.raised(AlarmTampered)) == 0 {
		t.Error("nobody noticed the altered entry")
	}
}

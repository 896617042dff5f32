package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// readRows remembers of which entries it has read the rows.
type readRows struct {
	database
	ids []storage.ID
}

func (r *readRows) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	page, next, err := r.database.FollowLogs(ctx, f)
	for i := range page {
		if !f.IDsOnly {
			r.ids = append(r.ids, page[i].ID)
		}
	}
	return page, next, err
}

func (r *readRows) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	for _, ref := range refs {
		r.ids = append(r.ids, ref.ID)
	}
	return r.database.LogsByRef(ctx, tenant, refs)
}

// Entries of this node enter the tree from memory. Only rows of other nodes are read.
func TestOwnRowsAreNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := &readRows{database: r.store}
	l, tenant := r.openOn(store), r.id()
	own := r.write(l, tenant, 3)
	other := r.write(nil, tenant, 2)
	more := r.write(l, tenant, 1)
	must.Do(t, l.SequenceDirty(t.Context()))
	must.Same(t, "rows that were read", []storage.ID{other[0].ID, other[1].ID}, store.ids)
	r.isGood(l, tenant, nil, append(append(own, other...), more...)...)
}

// On SQLite, two rows can have one id, because the key also has the entity type.
func TestOwnEntryOccursTwice(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	logs := r.write(l, tenant, 3)
	r.exec(`INSERT INTO vault_logs (tenant_id, entity_type, id, created_at, actor_type, entity_id, operation, message, seq, mac)
		SELECT tenant_id, 'card', id, created_at, actor_type, entity_id, operation, message, seq + 1, mac FROM vault_logs WHERE id = ?`, logs[0].ID[:])
	must.Do(t, l.SequenceDirty(t.Context()))
	if got := r.raised(AlarmTampered); len(got) != 1 || got[0].Entry != uuid.UUID(logs[0].ID) || got[0].Verdict != evidence.Altered {
		t.Errorf("alarms: %v", r.all())
	}
	if r.verify(l).OK() {
		t.Error("the second row was not found")
	}
}

// PostgreSQL returns ids side by side. Two of other lengths do not shift the ids
// between them.
func TestIDsOfOtherLengths(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, pgtest.Alone(t), true)
	l, tenant := r.open(), r.id()
	logs := r.write(nil, tenant, 3)
	r.exec(`UPDATE vault_logs SET id = substr(id, 1, 15) WHERE id = ?`, logs[0].ID[:])
	r.exec(`UPDATE vault_logs SET id = id || id WHERE id = ?`, logs[2].ID[:])
	for {
		tree, err := l.Sequence(t.Context(), tenant)
		if errors.Is(err, ErrTampered) {
			break
		}
		if err != nil || tree.Size > 0 {
			t.Fatalf("%d leaves: %v", tree.Size, err)
		}
	}
}

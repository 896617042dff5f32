package ledger

import (
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A node remembers a bounded number of entries, and what it does not remember raises no
// alarm.
func TestPendingEntriesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var p Pending
	tenant, all := r.id(), make([]Expected, maxPending+10)
	for i := range all {
		all[i].ID = uuid.New()
	}
	if altered := p.Written(r.clock(), tenant, all[0]); len(altered) > 0 || p.Len() > 0 {
		t.Errorf("an entry that nobody expected: %d altered, %d wait", len(altered), p.Len())
	}
	p.Expect(r.clock(), tenant, all...)
	p.Expect(r.clock(), tenant, all[:20]...)
	must.Same(t, "entries", maxPending, p.Len())
	must.Same(t, "altered entries", 0, len(p.Written(r.clock(), tenant, all...)))
	r.advance(MissingAfter)
	must.Same(t, "late entries", maxPending, len(p.Late(r.clock())[tenant]))
	p.Failed(tenant, all...)
	must.Same(t, "entries after they failed", 0, p.Len())
}

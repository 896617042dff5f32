package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// bundle returns the bundle of a tenant.
func (r *rig) bundle(l *Ledger, tenant uuid.UUID) []byte {
	r.Helper()
	var b bytes.Buffer
	must.Do(r, l.Export(r.Context(), tenant, &b))
	return b.Bytes()
}

func TestImport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	old := r.write(nil, tenant, maxStep+300)
	r.advance(time.Hour)
	l := r.open()
	live := r.write(l, tenant, 10)
	must.Get(l.Sequence(t.Context(), tenant))(t)
	if n := len(r.leafIDs(tenant)); n > 10 { // new entries do not wait for old ones
		t.Errorf("%d leaves", n)
	}
	report := r.verify(l)
	if !report.OK() {
		t.Errorf("during the import: %v", verdictsOf(report))
	}
	r.checkpoint(l) // an import follows the begun event
	for more := true; more; {
		var err error
		if _, more, err = l.Import(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	live = append(live, r.write(l, tenant, 5)...)
	r.isGood(l, tenant, nil, append(old, live...)...)
	kinds := map[string]int{"imported": len(old) + 10, "entry": 5} // the first ten were written before the tree began
	for kind, want := range kinds {
		if n := bytes.Count(r.bundle(l, tenant), []byte(`"kind":"`+kind+`"`)); n != want {
			t.Errorf("%d leaves have kind %s, want %d", n, kind, want)
		}
	}
}

// holding is a store whose old entries, or all entries, are held back, as by an
// open transaction.
type holding struct {
	tapped
	all bool
}

func (h *holding) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	if h.all || f.Until != nil {
		return nil, storage.LogPlace("the beginning"), nil
	}
	return h.tapped.FollowLogs(ctx, f)
}

func TestWatchLooksForLateEntriesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	looks := 0
	store := &holding{all: true, tapped: tapped{database: r.store, before: func(_ context.Context, query any) error {
		if _, ok := query.([]storage.LogRef); ok {
			looks++
		}
		return nil
	}}}
	l := r.openOn(store)
	r.write(l, r.id(), 100)
	r.advance(MissingAfter)
	must.Do(t, l.Watch(t.Context()))
	if looks != 1 || len(r.all()) > 0 {
		t.Errorf("%d queries for entries that are held back, alarms %v", looks, r.all())
	}
}

func TestImportStopsWhileEntriesAreHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	r.write(nil, tenant, 3)
	r.advance(time.Hour)
	writes := 0
	store := &holding{tapped: tapped{database: r.store, before: func(_ context.Context, query any) error {
		if _, ok := query.(*storage.TreeChange); ok {
			writes++
		}
		return nil
	}}}
	l := r.openOn(store)
	_, err := l.Checkpoint(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		writes = 0
		for n, more := 0, true; more; n++ {
			if _, more, err = l.Import(t.Context(), tenant); err != nil || n > 2 {
				t.Fatalf("the import continues after %d steps: %v", n, err)
			}
		}
	}
	if writes > 0 {
		t.Errorf("%d changes were written, and no entry", writes)
	}
}

// The end of an import has the number of its leaves, without the leaves of entries
// under the vault's own keys.
func TestEndOfImport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	old := r.logs(tenant, 3)
	e := EntryOf(&old[2])
	old[2].Mac = storage.Hash(macOf(uuid.UUID{}, AppendVaultMacFields(nil, tenant, e)))
	r.put(nil, tenant, old)
	r.advance(time.Hour)
	l := r.open()
	r.settle(l, tenant, 3)
	must.Get(l.Round(t.Context()))(t)
	if !l.vault.tenants.head(tenant).closed {
		t.Error("the import has not ended")
	}
	r.isGood(l, tenant, nil, old...)
}

func TestRetain(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	var logs []storage.Log
	for range 6 {
		logs = append(logs, r.write(l, tenant, 100)...)
		r.advance(2 * time.Hour)
	}
	before := r.checkpoint(l)
	cutoff := must.Get(l.Retain(t.Context(), tenant, logs[350].CreatedAt.Add(time.Hour)))(t)
	if again, err := l.Retain(t.Context(), tenant, logs[350].CreatedAt); err != nil || again.Before(cutoff) {
		t.Errorf("again: %v, %v", again, err)
	}
	r.isGood(l, tenant, before) // nothing is deleted yet
	must.Get(r.store.DeleteLogs(t.Context(), storage.ID(tenant), cutoff, 10_000))(t)
	r.isGood(l, tenant, before)
	must.Same(t, "leaves", 600, len(r.leafIDs(tenant)))
	must.Get(l.Retain(t.Context(), tenant, cutoff.Add(time.Hour)))(t)
	r.isGood(l, tenant, before)
	must.Same(t, "leaves", 600-256, len(r.leafIDs(tenant)))
	if got := verdictsOf(r.verify(l)); !slices.Equal(got, []evidence.Verdict{evidence.Expired}) {
		t.Error(got)
	}
	// An entry newer than the cutoff must not be missing.
	r.exec("DELETE FROM vault_logs WHERE id = ?", logs[599].ID[:])
	report := r.verify(l)
	if report.OK() || !finds(report, evidence.Finding{Tenant: tenant, Index: 599, EntryID: uuid.UUID(logs[599].ID), Verdict: evidence.Missing}) {
		t.Errorf("%v", verdictsOf(report))
	}
}

func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.open()
	tenant, other := r.id(), r.id()
	r.write(l, tenant, 5)
	r.write(l, other, 5)
	r.checkpoint(l)
	must.Do(t, l.DeleteTenant(t.Context(), tenant))
	for more := true; more; {
		more = must.Get(r.store.Purge(t.Context(), storage.ID(tenant), 100))(t)
	}
	must.Match(t, "a deletion that is repeated", l.DeleteTenant(t.Context(), tenant), nil)
	r.isGood(l, other, nil)
	r.exec("DELETE FROM vault_log_trees WHERE tenant_id = ?", other[:])
	if got := verdictsOf(r.verify(l)); !slices.Contains(got, evidence.Truncated) {
		t.Errorf("deleted tree: %v", got)
	}
}

// TestTenantDeletedByAnotherNode sequences a log that another node has deleted. The
// tree no longer exists, but was not tampered with.
func TestTenantDeletedByAnotherNode(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	other := r.open()
	r.write(l, tenant, 5)
	r.checkpoint(l)
	r.write(l, tenant, 5)
	must.Do(t, other.DeleteTenant(t.Context(), tenant))
	for more := true; more; {
		more = must.Get(r.store.Purge(t.Context(), storage.ID(tenant), 100))(t)
	}
	must.Match(t, "the log of a deleted tenant", must.Err(l.Sequence(t.Context(), tenant)), ErrGone)
	if got := r.all(); len(got) > 0 {
		t.Errorf("alarms: %v", got)
	}
}

// TestEntryOfTenantDeletedByAnotherNode looks for an acknowledged entry that the deletion
// of its tenant by another node has taken away.
func TestEntryOfTenantDeletedByAnotherNode(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	other := r.open()
	must.Do(t, other.DeleteTenant(t.Context(), tenant))
	r.write(l, tenant, 3)
	for more := true; more; {
		more = must.Get(r.store.Purge(t.Context(), storage.ID(tenant), 100))(t)
	}
	r.advance(MissingAfter)
	must.Match(t, "Watch", l.Watch(t.Context()), nil)
	if got := r.all(); len(got) > 0 {
		t.Errorf("alarms: %v", got)
	}
	must.Same(t, "waiting entries", 0, l.pending.Len())
}

func TestMissingEntryRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]string{
		"deleted": "DELETE FROM vault_logs WHERE id = ?",
		"altered": "UPDATE vault_logs SET operation = 'read' WHERE id = ?",
	} {
		r, l, tenant := begun(t)
		logs := r.write(l, tenant, 3)
		r.exec(how, logs[1].ID[:])
		must.Do(t, l.SequenceDirty(t.Context()))
		r.advance(MissingAfter)
		must.Do(t, errors.Join(l.Watch(t.Context()), l.verifyRecent(t.Context())))
		kind := map[string]AlarmKind{"deleted": AlarmMissing, "altered": AlarmTampered}[name]
		if got := r.raised(kind); len(got) != 1 || got[0].Entry != uuid.UUID(logs[1].ID) {
			t.Errorf("%s: %v", name, r.all())
		}
		if name == "altered" { // the tree has it as it was written
			if report := r.verify(l); report.OK() {
				t.Error("an altered entry was not found")
			}
		}
	}
}

// A tenant whose tree cannot be written, as behind a trigger that raises an error, keeps
// no other tenant from notes, and hides neither a missing entry nor the lag.
func TestTreeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"leaves": "INSERT ON vault_log_leaves", "the tree": "UPDATE ON vault_log_trees"} {
		r, l, shut := begun(t)
		other, ctx := r.id(), t.Context()
		r.write(l, shut, 1)
		r.write(l, other, 1)
		r.checkpoint(l)
		r.exec(fmt.Sprintf("CREATE TRIGGER refuses BEFORE %s WHEN NEW.tenant_id = X'%x' BEGIN SELECT RAISE(ABORT, 'refused'); END", table, shut[:]))
		gone := r.write(l, shut, 3)[1]
		r.write(l, other, 3)
		r.exec("DELETE FROM vault_logs WHERE id = ?", gone.ID[:])

		must.Fail(l.Checkpoint(ctx))(t, name+": a note over all", must.Text("refused"))
		must.Fail(l.Checkpoint(ctx, shut))(t, name+": a note over this tenant", must.Text("refused"))
		must.Get(l.Checkpoint(ctx, other))(t)
		must.Same(t, name+": entries of the other tenant in a head", int64(4), must.Get(l.headOf(other))(t).size)
		must.Contain(t, name, must.Err(l.Round(ctx)).Error(), "refused")

		r.advance(MissingAfter)
		must.Contain(t, name, l.second(ctx).Error(), "refused")
		if got := r.raised(AlarmMissing); len(got) != 1 || got[0].Entry != uuid.UUID(gone.ID) {
			t.Errorf("%s: %v", name, r.all())
		}
		r.advance(lagAfter)
		must.Contain(t, name, l.second(ctx).Error(), "refused")
		must.Same(t, name+": alarms about the lag", 1, len(r.raised(AlarmLag)))
		r.exec("DROP TRIGGER refuses")
		must.Get(l.Checkpoint(ctx, shut))(t)
	}
}

// The storage fills in the entity type of a read, and the ledger learns of it after
// the write. It raises an alarm if the tree has another type by then.
func TestTypeOfAReadIsCompared(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sequenceFirst, alter bool
		verdicts             []evidence.Verdict
	}{
		"sequenced after the read":          {false, false, nil},
		"sequenced before the read ends":    {true, false, nil},
		"altered, sequenced after":          {false, true, []evidence.Verdict{evidence.Altered}},
		"altered, sequenced before the end": {true, true, []evidence.Verdict{evidence.Altered}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, tenant := begun(t)
			row := r.logs(tenant, 1)
			row[0].Operation = "read"
			e := EntryOf(&row[0])
			row[0].Mac = storage.Hash(macOf(tenant, e.AppendMacFields(nil)))
			expected := Expected{ID: e.ID, Relaxed: true, Untyped: true}
			l.Expect(tenant, expected)
			r.put(nil, tenant, row)
			if test.alter {
				r.exec("UPDATE vault_logs SET entity_type = 'card' WHERE id = ?", row[0].ID[:])
			}
			if test.sequenceFirst {
				r.checkpoint(l)
			}
			expected.Untyped, expected.Commit = false, e.Commit(tenant, evidence.Mac(row[0].Mac))
			l.Written(tenant, expected)
			r.checkpoint(l)
			must.Do(t, l.verifyRecent(t.Context()))
			var got []evidence.Verdict
			for _, a := range r.raised(AlarmTampered) {
				got = append(got, a.Verdict)
			}
			must.Same(t, "got", test.verdicts, got)
			must.Same(t, "pending entries", 0, l.pending.Len())
		})
	}
}

func TestForgedEntryStaysOutOfTheTree(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	logs := r.write(l, tenant, 3)
	forged := r.logs(tenant, 1)
	forged[0].Mac[0] ^= 1
	r.put(nil, tenant, forged)
	report := r.verify(l)
	if !finds(report, evidence.Finding{Tenant: tenant, Index: -1, EntryID: uuid.UUID(forged[0].ID), Verdict: evidence.Forged}) {
		t.Error(report.Findings)
	}
	if n := len(r.leafIDs(tenant)); n != len(logs) || len(r.raised(AlarmTampered)) == 0 {
		t.Errorf("%d leaves, alarms %v", n, r.all())
	}
	must.Fail(l.Proof(t.Context(), tenant, uuid.UUID(forged[0].ID)))(t, "a proof of it", ErrNotSequenced)
}

func TestLostReads(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	lost := expected(tenant, r.logs(tenant, 2))
	for i := range lost {
		lost[i].Relaxed = true
	}
	l.Expect(tenant, lost...)
	l.Written(tenant, lost...)
	r.advance(time.Second)
	r.server.Started = r.clock() // the server has crashed
	r.advance(MissingAfter)
	must.Do(t, l.Watch(t.Context()))
	report := r.verify(l)
	if !report.OK() || !slices.Equal(verdictsOf(report), []evidence.Verdict{evidence.LostRead}) || len(report.Findings) != 2 {
		t.Error(report.Findings)
	}
	offline, err := evidence.Verify(bytes.NewReader(r.bundle(l, tenant)), r.vkey, nil)
	if err != nil || !offline.OK() || !slices.Equal(verdictsOf(offline), []evidence.Verdict{evidence.LostRead}) {
		t.Errorf("offline: %v, %v", verdictsOf(offline), err)
	}
	if len(r.all()) > 0 {
		t.Error(r.all())
	}
}

func TestEventBeforeTheFirstEntryRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	must.Do(t, l.RecordErasure(t.Context(), evidence.Event{Tenant: tenant, ID: r.id(), Reason: "asked for", Count: 3}, time.Time{}))
	if len(r.all()) > 0 {
		t.Error(r.all())
	}
	r.isGood(l, tenant, nil, r.write(l, tenant, 2)...)
}

func TestWritesOfUnknownOutcomeRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	logs := r.logs(tenant, 3)
	want := expected(tenant, logs)
	l.Expect(tenant, want...) // a transaction of the application
	r.advance(time.Minute)
	if err := l.Watch(t.Context()); err != nil || len(r.all()) > 0 {
		t.Errorf("%v, %v", r.all(), err)
	}
	must.Do(t, r.store.Write(t.Context(), &storage.Change{Tenant: storage.ID(tenant), Logs: logs[:1]}))
	r.isGood(l, tenant, nil, logs[0])
	l.Failed(tenant, want[1])
	r.advance(UnsureFor)
	if err := l.Watch(t.Context()); err != nil || len(r.all()) > 0 {
		t.Errorf("%v, %v", r.all(), err)
	}
	must.Same(t, "pending entries", 0, l.pending.Len())
}

package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// A node that starts reads the newest summary and what follows it, and knows all
// heads and deletions.
func TestStartReadsTheNewestSummary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.open()
	tenants, gone := []uuid.UUID{r.id(), r.id(), r.id()}, r.id()
	r.write(l, gone, 2)
	r.checkpoint(l)
	must.Do(t, l.DeleteTenant(t.Context(), gone))
	many := make([]evidence.Event, 3000)
	for i := range many {
		many[i] = evidence.Event{Kind: evidence.EventErasedAgain}
	}
	for range 3 {
		for _, tenant := range tenants {
			r.write(l, tenant, 1)
		}
		r.checkpoint(l)
		must.Do(t, l.Record(t.Context(), many...))
	}
	events := 0
	next := r.openOn(&tapped{database: r.store, after: func(_, result any) error {
		read, _ := result.([]storage.TreeEvent)
		events += len(read)
		return nil
	}})
	if max := 4096 + len(many) + 100; events > max || next.vault.tree.Size < int64(max) {
		t.Errorf("%d of %d events were read, want %d at most", events, next.vault.tree.Size, max)
	}
	if !next.Deleted(gone) || next.Deleted(tenants[0]) {
		t.Error("the deletion is not known")
	}
	opts := cmp.AllowUnexported(head{})
	if diff := cmp.Diff(l.vault.tenants.heads, next.vault.tenants.heads, opts); diff != "" || !next.vault.tenants.began.Equal(l.vault.tenants.began) {
		t.Error(diff)
	}
	if report := r.verify(next); !report.OK() {
		t.Error(report.Findings)
	}
}

func TestSummaryOfOtherBytesIsRefused(t *testing.T) {
	t.Parallel()
	known := newTenants()
	known.heads[uuid.New()] = head{index: 3, size: 2, begun: true}
	known.deleted[uuid.New()] = time.Time{}
	text := known.encode()
	for n := range text {
		if n == len(text)-16 {
			continue // without the deleted tenant
		}
		must.Match(t, fmt.Sprintf("%d of %d bytes were accepted", n, len(text)), (&tenants{}).decode(text[:n]), ErrTampered)
	}
	must.Do(t, (&tenants{}).decode(text))
}

// A tree that has no head yet does not begin again beside its leaves.
func TestTreeWithoutAHeadDoesNotBeginAgain(t *testing.T) {
	t.Parallel()
	r, l, _ := begun(t)
	tenant := r.id()
	r.write(l, tenant, 2)
	must.Get(l.Sequence(t.Context(), tenant))(t)
	r.exec("DELETE FROM vault_log_trees WHERE tenant_id = ?", tenant[:])
	l = r.open()
	r.write(l, tenant, 1)
	must.Match(t, "an append", must.Err(l.Sequence(t.Context(), tenant)), ErrTampered)
	must.Same(t, "the verdict of the alarm", evidence.Truncated, r.raised(AlarmTampered)[0].Verdict)
}

// A tree that does not extend the newest head does not grow, and gets no head. Most cases
// are noticed by another guard of appends. The state of a tree has a MAC over its size
// and root, so an attacker can only put back a whole row, or change the leaves.
func TestGuardsOfAppends(t *testing.T) {
	t.Parallel()
	back := func(to int) func(r *rig, tenant uuid.UUID, was []storage.Tree) {
		return func(r *rig, tenant uuid.UUID, was []storage.Tree) {
			r.exec("UPDATE vault_log_trees SET size = ?, root = ?, state = ? WHERE tenant_id = ?", was[to].Size, was[to].Root[:], was[to].State, tenant[:])
			r.exec("DELETE FROM vault_log_leaves WHERE tenant_id = ? AND first >= ?", tenant[:], was[to].Size)
		}
	}
	gone := func(r *rig, tenant uuid.UUID, _ []storage.Tree) {
		for _, table := range []string{"trees", "leaves", "nodes"} {
			r.exec("DELETE FROM vault_log_"+table+" WHERE tenant_id = ?", tenant[:])
		}
	}
	leaves := func(r *rig, tenant uuid.UUID, was []storage.Tree) {
		r.exec("UPDATE vault_log_leaves SET hashes = zeroblob(length(hashes)) WHERE tenant_id = ? AND first >= ?", tenant[:], was[1].Size)
	}
	fork := func(r *rig, tenant uuid.UUID, was []storage.Tree) { // puts back what another head has replaced
		r.exec("CREATE TABLE saved AS SELECT * FROM vault_log_leaves WHERE tenant_id = ? AND first >= ?", tenant[:], was[1].Size)
		back(1)(r, tenant, was)
		r.exec("DELETE FROM vault_logs WHERE id = (SELECT max(id) FROM vault_logs WHERE tenant_id = ?)", tenant[:])
		l := r.open()
		r.write(l, tenant, 1)
		r.checkpoint(l)
		back(2)(r, tenant, was)
		r.exec("REPLACE INTO vault_log_leaves SELECT * FROM saved")
	}
	for name, test := range map[string]struct {
		restart, others bool // the last entries are sequenced by another node
		attack          func(r *rig, tenant uuid.UUID, was []storage.Tree)
		want            evidence.Verdict
		bundle          bool // it does not verify
	}{
		"gone":                                 {false, false, gone, evidence.Truncated, true},
		"gone before a start":                  {true, false, gone, evidence.Truncated, true},
		"smaller than its head":                {true, false, back(0), evidence.Truncated, true},
		"smaller than the head of the process": {false, false, back(0), evidence.Truncated, true},
		"smaller than the node knew":           {false, false, back(1), evidence.Forked, false},
		"not the tree of its head":             {true, false, fork, evidence.Forked, false},
		"leaves after its head":                {true, false, leaves, evidence.Altered, false},
		"leaves that another node made":        {false, true, leaves, evidence.Forked, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, tenant := begun(t)
			last, other, was := l, r.id(), []storage.Tree(nil)
			if test.others {
				last = r.open()
			}
			for i, n := range []int{2, 3, 4} { // the newest head is after the second step
				r.write(l, tenant, n)
				if i < 2 {
					r.checkpoint(l)
				} else if _, err := last.Sequence(t.Context(), tenant); err != nil {
					t.Fatal(err)
				}
				trees := must.Get(r.store.Trees(t.Context(), storage.TreeFilter{Tenants: []storage.ID{storage.ID(tenant)}}))(t)
				was = append(was, trees...)
			}
			test.attack(r, tenant, was)
			if test.restart {
				l = r.open()
			}
			r.write(l, tenant, 1)
			r.write(l, other, 1)
			before := l.vault.tenants.head(tenant)
			must.Match(t, "an append", must.Err(l.Sequence(t.Context(), tenant)), ErrTampered)
			var got []evidence.Verdict
			for _, a := range r.raised(AlarmTampered) {
				got = append(got, a.Verdict)
			}
			if !slices.Contains(got, test.want) {
				t.Errorf("alarms %v, want %v", got, test.want)
			}
			r.isGoodBundle(l, other, r.checkpoint(l)) // the other tenant is not held up
			must.Same(t, "the head", before, l.vault.tenants.head(tenant), cmp.AllowUnexported(head{}))
			report := must.Get(evidence.Verify(bytes.NewReader(r.bundle(l, tenant)), r.vkey, nil))(t)
			if test.bundle && report.OK() {
				t.Error("the bundle verifies")
			}
		})
	}
}

// isGoodBundle verifies a tenant's bundle.
func (r *rig) isGoodBundle(l *Ledger, tenant uuid.UUID, since []byte) {
	r.Helper()
	report, err := evidence.Verify(bytes.NewReader(r.bundle(l, tenant)), r.vkey, since)
	if err != nil || !report.OK() {
		r.Errorf("bundle: %v, %v", verdictsOf(report), err)
	}
}

// A suspension is stored: a process without the anchor obeys it, and so does a node
// after a restart. Accepting the restore in one process reaches the others.
func TestSuspensionReachesEveryProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	anchor := &memory{}
	r.anchors = []Anchor{anchor}
	l := r.open()
	tenant := r.id()
	r.write(l, tenant, 3)
	r.checkpoint(l)
	backup := r.backUp()
	r.write(l, tenant, 3)
	r.checkpoint(l)
	r.close(l)
	r.restore(backup)
	server := r.open()
	if server.Status().Suspended == "" {
		t.Fatal("the node is not suspended from the start")
	}
	must.Match(t, "Round", must.Err(server.Round(t.Context())), ErrSuspended)
	r.anchors = nil
	tool := r.open()
	r.write(tool, tenant, 1)
	must.Match(t, "a note of a process without the anchor", must.Err(tool.Checkpoint(t.Context())), ErrSuspended)
	must.Get(tool.AcceptRestore(t.Context(), "disk failure"))(t)
	must.Do(t, server.second(t.Context()))
	r.write(server, tenant, 1)
	r.checkpoint(server)
	if s := server.Status(); s.Suspended != "" || slices.ContainsFunc(s.Alarms, func(a Alarm) bool { return a.Kind == AlarmRestore }) {
		t.Errorf("after the restore was accepted: %+v", s)
	}
	r.isGood(server, tenant, nil)
}

// An anchor with an unexplained note stops the ledger, and gets no notes until a
// restore is accepted.
func TestForeignNoteStopsTheLedger(t *testing.T) {
	t.Parallel()
	foreign := []byte("other.example\n1\nAAAA\n\n— other.example AAAA\n")
	for _, begun := range []bool{false, true} {
		r := newRig(t)
		if begun {
			l := r.open()
			r.write(l, r.id(), 1)
			r.checkpoint(l)
		}
		anchor := &memory{notes: [][]byte{foreign}}
		r.anchors = []Anchor{anchor}
		l := r.open()
		must.Match(t, fmt.Sprintf("begun %t", begun), must.Err(l.Checkpoint(t.Context())), ErrSuspended)
		must.Get(l.AcceptRestore(t.Context(), "a new key"))(t)
		r.write(l, r.id(), 1)
		msg := r.checkpoint(l)
		must.Do(t, l.anchors[0].drain(t.Context()))
		if last, _ := anchor.Latest(t.Context()); string(last) != string(msg) {
			t.Errorf("begun %t: the anchor has %q", begun, last)
		}
		must.Same(t, fmt.Sprintf("begun %t: suspended again", begun), "", r.open().Status().Suspended)
	}
}

// away is an anchor that does not respond for a while.
type away struct {
	memory
	gone atomic.Bool
}

func (a *away) Latest(ctx context.Context) ([]byte, error) {
	if a.gone.Load() {
		return nil, errors.New("no route to host")
	}
	return a.memory.Latest(ctx)
}

// A note that was signed while an anchor did not respond does not hide the note
// that the anchor has, of a newer state of the database.
func TestNoteDoesNotFollowOneThatIsAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	anchor := &away{}
	r.anchors = []Anchor{anchor}
	l := r.open()
	tenant := r.id()
	r.write(l, tenant, 3)
	r.checkpoint(l)
	backup := r.backUp()
	r.write(l, tenant, 3)
	ahead := r.checkpoint(l)
	r.close(l)
	r.restore(backup)
	anchor.gone.Store(true)
	l = r.open()
	for i := range 2 {
		r.write(l, tenant, 1)
		anchor.gone.Store(i == 0)
		r.checkpoint(l)
		<-l.anchors[0].idle()
	}
	if last, _ := anchor.Latest(t.Context()); !bytes.Equal(last, ahead) {
		t.Errorf("the anchor has %q", last)
	}
	r.write(l, tenant, 1)
	if _, err := l.Checkpoint(t.Context()); !errors.Is(err, ErrSuspended) || len(r.raised(AlarmForked))+len(r.raised(AlarmRestore)) == 0 {
		t.Errorf("%v, alarms %v", err, r.all())
	}
}

// idle returns a channel that is closed when the anchor has nothing to do.
func (a *anchored) idle() <-chan struct{} {
	a.Lock()
	defer a.Unlock()
	if busy := a.Busy(); busy != nil {
		return busy
	}
	idle := make(chan struct{})
	close(idle)
	return idle
}

// Entries of reads are lost in a crash only if they were acknowledged in the two
// seconds before it.
func TestOlderReadsAreNotLostInACrash(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	lost := expected(tenant, r.logs(tenant, 2))
	for i := range lost {
		lost[i].Relaxed = true
		l.Expect(tenant, lost[i])
		l.Written(tenant, lost[i])
		r.advance(3 * time.Second)
	}
	r.server.Started = r.clock()
	r.advance(MissingAfter)
	must.Do(t, l.Watch(t.Context()))
	if got := r.raised(AlarmMissing); len(got) != 1 || got[0].Entry != lost[0].ID {
		t.Error(got)
	}
}

// A tenant may exist for a short time after its deletion was signed.
func TestTenantDuringItsDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	c := r.config(r.store)
	c.Living = func(_ context.Context, do func(uuid.UUID) error) error { return do(tenant) }
	l := must.Get(Open(t.Context(), c))(t)
	defer func() { _ = l.Close(context.Background()) }()
	r.write(l, tenant, 1)
	r.checkpoint(l)
	must.Do(t, l.DeleteTenant(t.Context(), tenant))
	if report := r.verify(l); !report.OK() {
		t.Error(report.Findings)
	}
	l.Dropped(tenant)
	if report := r.verify(l); report.OK() {
		t.Error("the deleted tenant is not found")
	}
}

// A tenant from before evidence whose log was empty cannot get entries without a
// mac later.
func TestOldTenantDoesNotBeginLate(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		r := newRig(t)
		tenant := r.id()
		r.advance(time.Hour)
		l := r.open()
		r.write(l, r.id(), 1)
		must.Get(l.Round(t.Context()))(t)
		if restart {
			l = r.open()
		}
		invented := r.logs(tenant, 2)
		invented[0].Mac = storage.Hash{}
		r.put(nil, tenant, invented)
		must.Get(l.Round(t.Context()))(t)
		report := r.verify(l)
		want := evidence.Finding{Tenant: tenant, Index: -1, EntryID: uuid.UUID(invented[0].ID), Verdict: evidence.Forged}
		if ids := r.leafIDs(tenant); len(ids) != 1 || ids[0] != invented[1].ID || !finds(report, want) {
			t.Errorf("restart %t: %d leaves, %v", restart, len(ids), report.Findings)
		}
	}
}

// An event costs the same for a vault with many tenants: what the node knows of
// them is not copied.
func TestEventsDoNotCopyTheTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.open()
	tenant, gone := r.id(), r.id()
	r.write(l, tenant, 1)
	r.write(l, gone, 1)
	r.checkpoint(l)
	maps := func() [2]uintptr {
		known := &l.vault.tenants
		return [2]uintptr{reflect.ValueOf(known.heads).Pointer(), reflect.ValueOf(known.deleted).Pointer()}
	}
	before := maps()
	must.Do(t, l.Record(t.Context(), evidence.Event{Kind: evidence.EventPruned, Tenant: tenant, Cutoff: 1}))
	must.Do(t, l.DeleteTenant(t.Context(), gone))
	l.Dropped(gone)
	if maps() != before || !l.Deleted(gone) {
		t.Errorf("the maps were copied, or the deletion is unknown (%t)", l.Deleted(gone))
	}
}

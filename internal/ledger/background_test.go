package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// While the background verification waits for the database, entries are sequenced
// and notes are signed.
func TestBackgroundVerificationDoesNotStopSigning(t *testing.T) {
	t.Parallel()
	r, tenant := newRig(t), uuid.New()
	first := r.open()
	r.write(first, tenant, 3*storage.LeavesPerBlock)
	r.settle(first, tenant, 3*storage.LeavesPerBlock)
	held, release, hold := make(chan struct{}), make(chan struct{}), sync.Once{}
	// A read of the first block of a tree of more than one block, which only a
	// verification makes, waits.
	l := r.openOn(&tapped{database: r.store, before: func(ctx context.Context, query any) error {
		q, ok := query.(storage.TreeQuery)
		if !ok || q.Tenant == (storage.ID{}) || q.From != 0 || q.To == 0 {
			return nil
		}
		hold.Do(func() { close(held) })
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}})
	ctx, stop := context.WithCancel(t.Context())
	var ran sync.WaitGroup
	ran.Go(func() {
		l.Run(ctx, Schedule{Sequence: time.Millisecond, Checkpoint: 2 * time.Millisecond, Verify: 3 * time.Millisecond}, func(error) {})
	})
	defer ran.Wait()
	defer stop()
	defer close(release)
	<-held
	before := l.Status().Size
	r.write(l, tenant, 1)
	tick, over := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		if s := l.Status(); s.Pending == 0 && s.Size > before {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("during a verification %d entries wait", l.Status().Pending)
		}
	}
}

// A node leaves the verification to the node that verifies, continues where a silent
// node has stopped, and starts none before the interval has passed.
func TestBackgroundVerificationWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	now, last := newRig(t).clock().Add(time.Hour), uuid.UUID{15: 1}
	for name, test := range map[string]struct {
		e          evidence.Event
		runs       bool
		continues  bool
		waits      bool          // at the first look
		recordedAt time.Duration // before now
	}{
		"another node verifies":         {e: evidence.Event{Began: now.Add(-time.Minute)}},
		"another node is gone":          {e: evidence.Event{Began: now.Add(-time.Hour), Last: last}, runs: true, continues: true, recordedAt: passLease},
		"the interval has not passed":   {e: evidence.Event{Began: now.Add(-time.Hour), Done: true}, recordedAt: time.Minute},
		"the interval has passed":       {e: evidence.Event{Began: now.Add(-3 * time.Hour), Done: true}, runs: true, recordedAt: 2 * time.Hour},
		"the end is in the future":      {e: evidence.Event{Began: now.Add(-3 * time.Hour), Done: true}, runs: true, recordedAt: -2 * time.Hour},
		"a clock ahead has begun it":    {e: evidence.Event{Began: now.Add(24 * time.Hour), Last: last}, runs: true, continues: true, recordedAt: passLease},
		"a clock ahead has ended it":    {e: evidence.Event{Began: now.Add(24 * time.Hour), Done: true}, recordedAt: time.Minute},
		"its last step is far ahead":    {e: evidence.Event{Began: now.Add(-time.Hour), Last: last}, runs: true, continues: true, waits: true, recordedAt: -24 * time.Hour},
		"the other has found something": {e: evidence.Event{Began: now.Add(-time.Hour), Last: last, Bad: true}, runs: true, continues: true, recordedAt: passLease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, tenant := begun(t)
			r.write(l, tenant, 1)
			r.checkpoint(l)
			test.e.Kind, test.e.ID = evidence.EventVerified, uuid.New()
			r.advance(now.Add(-test.recordedAt).Sub(r.clock()))
			must.Do(t, l.Record(t.Context(), test.e))
			r.advance(now.Sub(r.clock()))
			node := r.open() // it learns of it from the tree
			must.Do(t, node.verifyInBackground(t.Context(), time.Hour))
			if test.waits {
				must.Same(t, "the node has verified at its first look", false, node.vault.tenants.pass.owner == node.id)
				r.advance(passLease)
				must.Do(t, node.verifyInBackground(t.Context(), time.Hour))
			}
			is := node.vault.tenants.pass
			must.Same(t, "the node has verified", test.runs, is.owner == node.id)
			if !test.runs {
				return
			}
			must.Same(t, "began again", !test.continues, is.began.After(test.e.Began))
			must.Same(t, "result", !test.e.Bad, is.ok)
			must.Same(t, "the end is known to others", is.done, r.open().Status().Verified)
			must.Do(t, node.verifyInBackground(t.Context(), time.Hour))
			must.Same(t, "the next one waits for the interval", true, is == node.vault.tenants.pass)
		})
	}
}

// A node leaves the verification to another node that advances, whatever the clock of the
// other says, and continues it when the other is silent.
func TestBackgroundVerificationBesideOtherClocks(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"far ahead": 24 * time.Hour, "ahead": 30 * time.Minute, "behind": -30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, tenant := begun(t)
			r.advance(time.Hour)
			r.write(l, tenant, 1)
			r.checkpoint(l)
			node, other := r.open(), evidence.Event{Kind: evidence.EventVerified, ID: uuid.New(), Began: r.clock().Add(ahead)}
			step := func() {
				t.Helper()
				r.advance(ahead)
				other.Count++
				must.Do(t, l.Record(t.Context(), other))
				r.advance(time.Minute - ahead)
			}
			look := func() bool {
				t.Helper()
				must.Do(t, node.verifyInBackground(t.Context(), time.Hour))
				return node.vault.tenants.pass.owner == node.id
			}
			step()
			if look() != (ahead < 0) {
				t.Error("the first look does not go by the time of the step")
			}
			for range 10 {
				step()
				must.Same(t, "the node has verified beside the other", false, look())
			}
			r.advance(passLease)
			must.Same(t, "the node continues after the other", true, look())
		})
	}
}

// The summary of the vault's tree has how far the verification has come.
func TestSummaryHasTheVerification(t *testing.T) {
	t.Parallel()
	known := newTenants()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, done := range []bool{false, true} {
		known.pass.apply(&evidence.Event{ID: uuid.New(), Began: at, Time: at.Add(time.Hour), Last: uuid.New(), Count: 7, Bad: !done, Done: done})
		again := newTenants()
		must.Do(t, again.decode(known.encode()))
		must.Same(t, "the verification is the same", true, known.pass == again.pass)
	}
}

// A trigger drops all changes of the vault's tree, so that a verification which is due
// cannot advance. That is an alarm within an hour. The node still verifies.
func TestVerificationThatDoesNotAdvance(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		stalled(r, "CREATE TRIGGER dropped BEFORE UPDATE ON vault_log_trees WHEN OLD.tenant_id = zeroblob(16) BEGIN SELECT RAISE(IGNORE); END",
			"DROP TRIGGER dropped")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		r := newRigOn(t, pgtest.Alone(t), true)
		stalled(r, `CREATE FUNCTION dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER dropped BEFORE UPDATE ON vault_log_trees FOR EACH ROW WHEN (OLD.tenant_id = decode(repeat('00', 16), 'hex')) EXECUTE FUNCTION dropped()`,
			"DROP TRIGGER dropped ON vault_log_trees")
	})
}

func stalled(r *rig, drop, allow string) {
	r.Helper()
	l, tenant, seen := r.open(), r.id(), watched{}
	r.write(l, tenant, 3)
	r.settle(l, tenant, 3)
	look := func() error {
		err := l.verifyInBackground(r.Context(), time.Hour)
		l.watchPass(&seen, time.Hour)
		return err
	}
	must.Do(r, look())
	r.exec(drop)
	r.exec("UPDATE vault_logs SET message = 'x' WHERE tenant_id = ?", tenant[:])
	const due, step = 60, 5 // minutes
	for minute := 0; minute < due+60; minute += step {
		if alarms := r.raised(AlarmStalled); minute <= due && len(alarms) > 0 {
			r.Fatalf("after %d minutes: %v", minute, alarms)
		}
		r.advance(step * time.Minute)
		_ = look()
	}
	if len(r.raised(AlarmStalled)) != 1 || len(r.raised(AlarmTampered)) == 0 {
		r.Errorf("alarms: %v", r.all())
	}
	r.exec(allow)
	must.Do(r, look())
	l.watchPass(&seen, time.Hour)
	must.Same(r, "lasting alarms", false, slices.ContainsFunc(l.Status().Alarms, func(a Alarm) bool { return a.Kind == AlarmStalled }))
}

// Events that a trigger drops are noticed with the next look at new leaves.
func TestDroppedEventsAreNoticed(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.checkpoint(l)
	must.Do(t, l.verifyRecent(t.Context()))
	r.exec("CREATE TRIGGER dropped BEFORE INSERT ON vault_log_events BEGIN SELECT RAISE(IGNORE); END")
	r.write(l, tenant, 1)
	r.checkpoint(l)
	must.Do(t, l.verifyRecent(t.Context()))
	must.Same(t, "alarms", 1, len(r.raised(AlarmTampered)))
}

// A verification that begins and fails, over and over, does not advance.
func TestVerificationThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := errors.New("a row cannot be read")
	failing := false
	l := r.openOn(&tapped{database: r.store, before: func(_ context.Context, query any) error {
		if q, ok := query.(storage.TreeQuery); ok && failing && q.Tenant != (storage.ID{}) {
			return broken
		}
		return nil
	}})
	tenant, seen := r.id(), watched{}
	r.write(l, tenant, 3)
	r.settle(l, tenant, 3)
	failing = true
	for minute := 0; minute < 60; minute += 5 {
		must.Match(t, "the verification", l.verifyInBackground(t.Context(), time.Hour), broken)
		l.watchPass(&seen, time.Hour)
		r.advance(5 * time.Minute)
	}
	must.Same(t, "alarms", 1, len(r.raised(AlarmStalled)))
}

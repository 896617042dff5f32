package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// Schedule sets the intervals of [Ledger.Run].
type Schedule struct {
	Sequence   time.Duration // sequence the tenants this node has written to; 1 s if zero
	Checkpoint time.Duration // sequence all tenants and sign a note; 1 min if zero
	Verify     time.Duration // verify everything; 12 h if zero
	// Paused reports whether nothing is done now. It may be nil.
	Paused func() bool
}

// Run keeps the trees up to date and verifies them until ctx ends. It passes
// errors to failed and tries again in the next round.
func (l *Ledger) Run(ctx context.Context, s Schedule, failed func(error)) {
	s = Schedule{cmp.Or(s.Sequence, time.Second), cmp.Or(s.Checkpoint, time.Minute), cmp.Or(s.Verify, 12*time.Hour), s.Paused}
	report := func(err error) {
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	every := func(interval time.Duration, do func()) {
		pace.Every(ctx, interval, func() {
			if s.Paused == nil || !s.Paused() {
				do()
			}
		})
	}
	var verifying sync.WaitGroup
	defer verifying.Wait()
	verifying.Go(func() {
		every(min(s.Checkpoint, time.Minute), func() { report(l.verifyInBackground(ctx, s.Verify)) })
	})
	verifying.Go(func() {
		every(min(s.Checkpoint, recentEvery), func() { report(l.verifyRecent(ctx)) })
	})
	verifying.Go(func() {
		every(s.Sequence, func() { report(l.second(ctx)) })
	})
	var seen watched
	verifying.Go(func() {
		every(min(s.Checkpoint, time.Minute), func() { l.watchPass(&seen, s.Verify) })
	})
	first := true
	every(s.Checkpoint, func() {
		began := l.c.Now()
		_, err := l.Round(ctx)
		if first || err == nil {
			first = false
			l.rounds.succeeded(began)
		}
		report(err)
	})
}

// second does the work that is due once a second.
func (l *Ledger) second(ctx context.Context) error {
	if err := l.resume(ctx); err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	err := ignoreSuspended(l.SequenceDirty(ctx))
	if err == nil || isOfSome(err) {
		err = errors.Join(err, ignoreSuspended(l.Watch(ctx)))
	}
	return err
}

// ignoreSuspended drops ErrSuspended, which an alarm reports.
func ignoreSuspended(err error) error {
	if errors.Is(err, ErrSuspended) {
		return nil
	}
	return err
}

// Round does the work that is due once a minute, and returns the newest note. It
// calls Config.Refresh, reads the anchors, sequences all tenants, signs, continues
// imports and looks for missing entries.
func (l *Ledger) Round(ctx context.Context) ([]byte, error) {
	if l.c.Refresh != nil {
		if err := l.c.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	for _, a := range l.anchors {
		a.kick(nil)
	}
	var failed []error
	also := func(err error) { failed = append(failed, ignoreSuspended(err)) }
	err := l.SequenceAll(ctx)
	if also(err); err == nil || errors.Is(err, ErrTampered) {
		also(l.closeBeginning(ctx))
	}
	msg, err := l.Checkpoint(ctx)
	if errors.Is(err, ErrSuspended) {
		return nil, errors.Join(err, l.storeSuspension(ctx))
	}
	if also(err); err != nil && !isOfSome(err) {
		return nil, err
	}
	imported, err := l.importSome(ctx)
	if also(err); imported {
		msg, err = l.Checkpoint(ctx)
		also(err)
	}
	also(l.Watch(ctx))
	return msg, errors.Join(slices.DeleteFunc(failed, func(err error) bool { return errors.Is(err, ErrTampered) })...) // an alarm reports it
}

// importSteps limits how many steps of each tenant's import a round does.
const importSteps = 100

// importSome continues the imports of all tenants. It reports whether it has
// appended entries.
func (l *Ledger) importSome(ctx context.Context) (moved bool, err error) {
	err = l.eachTenant(ctx, func(tenant uuid.UUID) error {
		for range importSteps {
			n, more, err := l.Import(ctx, tenant)
			if moved = moved || n > 0; err != nil || !more {
				return err
			}
		}
		return nil
	})
	return moved, err
}

// recentEvery is how often a node compares its new leaves with their rows. Sequencing
// does not read the rows of entries that the node wrote itself.
const recentEvery = 10 * time.Second

// verifyRecent compares the leaves that this node has appended since the last
// call with their rows. If something is wrong, it verifies the tenant.
func (l *Ledger) verifyRecent(ctx context.Context) error {
	l.treesMu.Lock()
	recent := l.recent
	l.recent = map[uuid.UUID]int64{}
	l.treesMu.Unlock()
	failed := []error{l.verifyEvents(ctx)}
	for _, tenant := range sortedIDs(recent) {
		if err := l.verifyFrom(ctx, tenant, recent[tenant]); err != nil {
			l.noteRecent(tenant, recent[tenant])
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// verifyEvents compares the events that the vault's tree has got since the last call
// with the database. A node does not read the events that it appended itself.
func (l *Ledger) verifyEvents(ctx context.Context) error {
	l.mu.Lock()
	to, f, unsure := l.vault.tree, l.looked, l.vault.suspended != ""
	l.mu.Unlock()
	if unsure || f.Size() >= to.Size {
		return nil
	}
	f = f.Clone()
	for e, err := range l.events(ctx, storage.EventQuery{From: f.Size(), To: to.Size}) {
		if err != nil {
			return err
		}
		f.Add(tlog.RecordHash(e.Body))
	}
	if f.Size() != to.Size || f.Root() != merkle.Hash(to.Root) {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Verdict: evidence.Missing, Text: "events of the vault's tree are not in the database"})
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Size() > l.looked.Size() {
		l.looked = f
	}
	return nil
}

// verifyFrom compares the leaves of a tenant from an index on with their rows.
func (l *Ledger) verifyFrom(ctx context.Context, tenant uuid.UUID, from int64) error {
	good, err := l.isGood(ctx, tenant, from)
	if good || errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrTampered) && !errors.Is(err, storage.ErrMalformed) {
		return err
	}
	_, err = l.Verify(ctx, VerifyOptions{Tenants: []uuid.UUID{tenant}})
	return err
}

// isGood reports whether each leaf from an index on has the row of its entry, and is in
// the tree.
func (l *Ledger) isGood(ctx context.Context, tenant uuid.UUID, from int64) (bool, error) {
	tree, err := l.tree(ctx, tenant)
	if err == nil {
		err = l.openState(ctx, &tree, &state{})
	}
	if err != nil {
		return false, err
	}
	f, err := l.hashes(ctx, tenant).frontier(from)
	if err != nil {
		return false, err
	}
	x := &exported{l: l, ctx: ctx, tenant: tenant, size: tree.Size}
	x.pause = l.pauses(ctx)
	for l, err := range x.readAhead(from) {
		var leaf evidence.Leaf
		if err == nil {
			leaf = l.exported()
		}
		if err != nil || leaf.N != f.Size() || leaf.Mac == nil || leaf.Entry.Commit(tenant, evidence.Mac(leaf.Mac)) != leaf.C {
			return false, err
		}
		f.Add(evidence.LeafHash(leaf.Kind, leaf.ID, leaf.C))
	}
	return f.Size() == tree.Size && f.Root() == merkle.Hash(tree.Root), nil
}

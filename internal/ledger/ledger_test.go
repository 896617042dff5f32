package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func TestSequenceAndSign(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.open()
	tenant, other := r.id(), r.id()
	var all []storage.Log
	var first []byte
	for i := range 6 {
		all = append(all, r.write(l, tenant, 1+i*60)...)
		r.write(l, other, 3)
		if msg := r.checkpoint(l); i == 2 {
			first = msg
		}
	}
	r.isGood(l, tenant, first, all...)
	must.Same(t, "a note was signed although nothing has changed", string(r.checkpoint(l)), string(r.checkpoint(l)))
	for _, n := range []int{0, 1, 255, 256, 300, len(all) - 1} {
		text := must.Get(l.Proof(t.Context(), tenant, uuid.UUID(all[n].ID)))(t)
		p, err := evidence.OpenProof(text, r.vkey)
		if err != nil || p.Fields["entity_id"] != all[n].EntityID || p.Tenant != tenant {
			t.Fatalf("the proof of entry %d: %v, %v", n, p, err)
		}
	}
	must.Match(t, "proof of an entry that does not exist", must.Err(l.Proof(t.Context(), tenant, r.id())), ErrNotSequenced)
	if s := l.Status(); s.Lag != 0 || s.Pending != 0 || s.Suspended != "" || s.Origin != origin {
		t.Errorf("status %+v", s)
	}
	if len(r.all()) > 0 {
		t.Error(r.all())
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	roots := map[int64]evidence.Hash{}
	for range 12 {
		r.write(l, tenant, 50)
		tree := must.Get(l.Sequence(t.Context(), tenant))(t)
		roots[tree.Size] = evidence.Hash(tree.Root)
	}
	for size, root := range roots {
		to, hashes, err := l.Consistency(t.Context(), tenant, size)
		must.Do(t, err)
		err = evidence.CheckConsistency(&evidence.Checkpoint{Size: size, Root: root}, &evidence.Checkpoint{Size: to, Root: roots[to]}, hashes)
		if err != nil {
			t.Errorf("from %d: %v", size, err)
		}
	}
	for _, size := range []int64{-1, 601, 1000} {
		_, _, err := l.Consistency(t.Context(), tenant, size)
		must.Match(t, "a size outside the tree", err, must.Text("the tree has 600 leaves"))
	}
}

var errBroken = errors.New("broken")

// broken returns a store whose nth tree change fails, before or after it is applied.
func (r *rig) broken(nth int, after bool) *tapped {
	var changes atomic.Int64
	fail := func(query any) error {
		if _, ok := query.(*storage.TreeChange); ok && changes.Add(1) == int64(nth) {
			return errBroken
		}
		return nil
	}
	if after {
		return &tapped{database: r.store, after: func(query, _ any) error { return fail(query) }}
	}
	return &tapped{database: r.store, before: func(_ context.Context, query any) error { return fail(query) }}
}

// life makes every kind of tree change and returns the first error.
func (r *rig) life(ctx context.Context, store Store, tenant uuid.UUID, logs [][]storage.Log) error {
	l, err := Open(ctx, r.config(store))
	if err != nil {
		return err
	}
	l.SetPace(0)
	defer func() { _ = l.Close(ctx) }()
	for _, some := range logs {
		r.put(l, tenant, some)
		if _, err := l.Checkpoint(ctx); err != nil {
			return err
		}
	}
	if _, err := l.Retain(ctx, tenant, logs[1][0].CreatedAt.Add(2*time.Hour)); err != nil {
		return err
	}
	if _, _, err := l.Import(ctx, tenant); err != nil {
		return err
	}
	_, err = l.Checkpoint(ctx)
	return err
}

// TestCrashAtEachStep stops a node at each tree change, before and after it is
// applied. Another node then continues.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			r := newRig(t)
			old := r.id()
			before := r.write(nil, old, 5) // older than the vault's tree
			r.advance(time.Hour)
			logs := [][]storage.Log{r.logs(old, 3), r.logs(old, 300), r.logs(old, 7)}
			err := r.life(t.Context(), r.broken(step, after), old, logs)
			l := r.open()
			for range 3 {
				must.Get(l.Round(t.Context()))(t)
			}
			r.isGood(l, old, nil)
			ids := r.leafIDs(old)
			slices.SortFunc(ids, func(a, b storage.ID) int { return slices.Compare(a[:], b[:]) })
			if n := len(slices.Compact(ids)); n != len(ids) {
				t.Fatalf("step %d: %d of %d entries are in the tree twice", step, len(ids)-n, len(ids))
			}
			if err == nil {
				tree, err := l.tree(t.Context(), old)
				if want := int64(len(before) + 310); err != nil || tree.Size != want {
					t.Errorf("the tree has %d leaves, want %d: %v", tree.Size, want, err)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Fatalf("step %d: %v", step, err)
			}
		}
	}
}

// A log that gets entries and heads during each run of its verification is good.
func TestGrowingLogVerifies(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	r.checkpoint(l)
	h := l.vault.tenants.head(tenant)
	heads := slices.Repeat([]evidence.Event{{Kind: evidence.EventHead, Tenant: tenant, Size: h.size, Root: h.root, State: h.state}}, maxStep)
	if err := l.Record(t.Context(), heads...); err != nil { // more than are read at once
		t.Fatal(err)
	}
	grows := 0
	store := &tapped{database: r.store, before: func(_ context.Context, query any) error {
		if _, ok := query.([]storage.LogRef); ok { // the entries of leaves are read
			grows++
			r.write(l, tenant, 1)
			r.checkpoint(l)
		}
		return nil
	}}
	report := r.verify(r.openOn(store))
	if !report.OK() || grows == 0 || len(r.all()) > 0 {
		t.Errorf("after %d heads: %v, alarms %v", grows, report.Findings, r.all())
	}
}

// Close waits for a round only as long as its context allows.
func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store, asked := &tapped{database: r.store}, make(chan struct{}, 100)
	l := r.openOn(store)
	store.before = func(ctx context.Context, _ any) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = l.Checkpoint(t.Context()) })
	<-asked
	calls.Go(func() { _, _ = l.Checkpoint(t.Context()) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	_ = l.Close(ctx)
	calls.Wait()
	if took := time.Since(began); took > roundTime/2 {
		t.Errorf("closing took %s", took)
	}
}

// Together, nodes with constant requests for notes sign one note a second.
func TestNodesShareThePaceOfNotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := r.id()
	nodes := []*Ledger{r.open(), r.open(), r.open()}
	began := time.Now()
	var signing sync.WaitGroup
	for _, l := range nodes {
		l.SetPace(time.Second)
		signing.Go(func() {
			for range 3 {
				r.write(l, tenant, 1)
				must.Match(t, "Checkpoint", must.Err(l.Checkpoint(t.Context())), nil)
			}
		})
	}
	signing.Wait()
	notes, err := r.store.Checkpoints(t.Context(), storage.CheckpointQuery{Below: newest, Limit: 100})
	if most := 2 + int(time.Since(began)/time.Second); err != nil || len(notes) > most {
		t.Errorf("%d notes, want %d at most: %v", len(notes), most, err)
	}
}

//go:build !race

package tampering

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// watched is a database whose reads of the log and its trees a test follows.
type watched struct {
	storage.Storage
	storage.TreeStorage
	before func(ctx context.Context, query any)
	after  func(rows int64)
}

func (w *watched) Instance(ctx context.Context) (storage.Instance, error) {
	if s, ok := w.Storage.(storage.Instanced); ok {
		return s.Instance(ctx)
	}
	return storage.Instance{}, nil
}

// watch performs a read, and counts its rows. The rows that the database has to
// search count too.
func watch[T any](ctx context.Context, w *watched, query any, read func() (T, error), rows func(T) int) (T, error) {
	if w.before != nil {
		w.before(ctx, query)
	}
	got, err := read()
	if w.after != nil {
		n := int64(rows(got))
		if q, ok := query.(storage.TreeQuery); ok && q.Holding != (storage.ID{}) {
			n += q.To - q.From
		}
		w.after(n)
	}
	return got, err
}

func length[T any](all []T) int { return len(all) }

func (w *watched) Trees(ctx context.Context, f storage.TreeFilter) ([]storage.Tree, error) {
	return watch(ctx, w, f, func() ([]storage.Tree, error) { return w.TreeStorage.Trees(ctx, f) }, length)
}

func (w *watched) ReadTree(ctx context.Context, q storage.TreeQuery) (storage.TreePart, error) {
	return watch(ctx, w, q, func() (storage.TreePart, error) { return w.TreeStorage.ReadTree(ctx, q) }, func(p storage.TreePart) int {
		n := len(p.Nodes)
		for i := range p.Leaves {
			n += len(p.Leaves[i].Refs)
		}
		return n
	})
}

func (w *watched) TreeEvents(ctx context.Context, q storage.EventQuery) ([]storage.TreeEvent, error) {
	return watch(ctx, w, nil, func() ([]storage.TreeEvent, error) { return w.TreeStorage.TreeEvents(ctx, q) }, length)
}

func (w *watched) Checkpoints(ctx context.Context, q storage.CheckpointQuery) ([]storage.Checkpoint, error) {
	return watch(ctx, w, nil, func() ([]storage.Checkpoint, error) { return w.TreeStorage.Checkpoints(ctx, q) }, length)
}

func (w *watched) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return watch(ctx, w, nil, func() ([]storage.Log, error) { return w.TreeStorage.LogsByRef(ctx, tenant, refs) }, length)
}

func (w *watched) FollowLogs(ctx context.Context, f storage.LogFollowing) (page []storage.Log, next storage.LogPlace, err error) {
	page, err = watch(ctx, w, f, func() (got []storage.Log, err error) {
		got, next, err = w.Storage.FollowLogs(ctx, f)
		return got, err
	}, length)
	return page, next, err
}

// watched makes the next node read through a watched database.
func (a *attacked) watched() *watched {
	a.Helper()
	w, open := &watched{}, a.open
	a.open = func() vault.Storage {
		store := open()
		w.Storage, w.TreeStorage = store, store.(storage.TreeStorage)
		return w
	}
	a.node(nil)
	a.open = open
	return w
}

// marked marks the reads of one call.
type marked struct{}

// atRead calls do once, before the n-th read of a marked call that is selected. The
// result reports whether there was such a read.
func (w *watched) atRead(n int64, selected func(query any) bool, do func()) (reached func() bool) {
	var reads atomic.Int64
	w.before = func(ctx context.Context, query any) {
		if ctx.Value(marked{}) != nil && selected(query) && reads.Add(1) == n {
			do()
		}
	}
	return func() bool { return reads.Load() >= n }
}

func anyRead(any) bool { return true }

// hourly writes entries of several hours, which then expire hour by hour.
func (a *attacked) hourly(hours int) {
	a.Helper()
	for range hours {
		for _, o := range a.owners {
			must.Get(o.Tokenize(a.Context(), make([]string, 48)))(a)
		}
		a.clock.Advance(time.Hour)
	}
}

// Case 8: whatever the vault does while it verifies, verification does not mistake
// it for tampering.
func TestVerificationBesideWork(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(*attacked, *vault.Vault) (func() error, error){
		"retention": func(a *attacked, v *vault.Vault) (func() error, error) {
			a.hourly(1)
			return func() error { return sweepLogs(a, v) }, nil
		},
		"a deleted tenant": func(a *attacked, v *vault.Vault) (func() error, error) {
			tenant, err := v.CreateTenant(a.Context(), "Gone")
			return func() error { return v.DeleteTenant(a.Context(), tenant.ID) }, err
		},
		"new entries": func(a *attacked, v *vault.Vault) (func() error, error) {
			return func() error {
				if _, err := v.Tenant(a.owners[0].TenantID()).Tokenize(a.Context(), []string{"x", "y"}); err != nil {
					return err
				}
				return must.Err(v.Checkpoint(a.Context()))
			}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) { besideWork(a, work) })
		})
	}
}

// sweepLogs deletes entries past their retention.
func sweepLogs(a *attacked, v *vault.Vault) error {
	swept, err := v.Sweep(a.Context())
	if err == nil && swept.Logs == 0 {
		err = errors.New("nothing has expired")
	}
	return err
}

// besideWork does work on another node before each read of a verification.
func besideWork(a *attacked, prepare func(*attacked, *vault.Vault) (func() error, error)) {
	a.Helper()
	a.retain = 24 * time.Hour
	a.node(nil)
	other := a.v
	defer func() { _ = other.Close() }()
	a.hourly(26)
	a.mustVerify()
	a.v = nil // stays open
	w := a.watched()
	must.Do(a, sweepLogs(a, other))
	tried := long.Rounds(100, 1000)
	if a.pg {
		tried /= 2
	}
	for n := range int64(tried) {
		work := must.Get(prepare(a, other))(a)
		reached := w.atRead(n+1, anyRead, func() {
			must.Match(a, fmt.Sprintf("before read %d", n+1), work(), nil)
		})
		report, err := a.v.VerifyLogs(context.WithValue(a.Context(), marked{}, true), nil)
		if err != nil || !report.OK() {
			a.Fatalf("after work before read %d: %v, %d findings", n+1, err, len(report.Findings)+int(report.More))
		}
		if !reached() {
			a.Logf("%d moments were tried", n)
			return
		}
	}
}

// Case 10: a proof reads a number of rows that grows with the logarithm of the log.
func TestProofsAreLogarithmic(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		o := a.owners[0]
		w := a.watched()
		o = a.v.Tenant(o.TenantID())
		var reads, rows atomic.Int64
		w.after = func(n int64) {
			reads.Add(1)
			rows.Add(n)
		}
		first := a.rows("vault_logs", "WHERE tenant_id = ? ORDER BY id", binary(o.TenantID()))[0].entry()
		cost := func(entries int) (calls, read int64) {
			for range entries / 1000 {
				must.Get(o.Tokenize(a.Context(), make([]string, 1000)))(a)
			}
			a.mustVerify()
			reads.Store(0)
			rows.Store(0)
			must.Get(o.LogProof(a.Context(), first))(a)
			return reads.Load(), rows.Load()
		}
		calls, few := cost(2000)
		more, many := cost(14_000) // eight times as many in all
		a.Logf("a proof in 2,000 entries: %d reads, %d rows; in 16,000: %d reads, %d rows", calls, few, more, many)
		if more > calls+8 || few > 6*storage.LeavesPerBlock || many > 8*storage.LeavesPerBlock {
			a.Errorf("a proof in 2,000 entries takes %d reads of %d rows, in 16,000 %d reads of %d rows", calls, few, more, many)
		}
	})
}

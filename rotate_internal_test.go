package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// hooked calls a function before a read that every scan of a rotation makes.
type hooked struct {
	storage.Storage
	lists, sealed func()
}

func (h *hooked) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	if h.lists != nil {
		h.lists()
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	return h.Storage.ListTokens(ctx, f)
}

func (h *hooked) SealedUnder(ctx context.Context, tenant storage.ID, kind storage.SealedKind, version, limit int) ([]storage.Sealed, error) {
	if h.sealed != nil {
		h.sealed()
	}
	return h.Storage.SealedUnder(ctx, tenant, kind, version, limit)
}

// A rotation that others have overtaken does not destroy the key that they
// have just retired. The horizon is set to nothing, which only this package
// can do, so that the order of events is the test's and no time passes.
func TestRotationDestroysOnlyItsOwnKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{Storage: store}
	v, err := Open(ctx, h, NewKey(), &Config{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.horizon = 0
	tenant, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	c := v.Tenant(tenant.ID)
	tok, err := c.CreateToken(ctx, TokenParams{Type: TypeGeneric, Data: "secret"})
	if err != nil {
		t.Fatal(err)
	}

	var scans atomic.Int32
	h.sealed = func() {
		if scans.Add(1) != 4 { // the last read before the first rotation destroys
			return
		}
		if err := v.RotateKeys(ctx, tenant.ID, nil); err != nil {
			t.Errorf("the rotation that joins in: %v", err)
		}
		cut, cancel := context.WithCancel(ctx)
		h.lists = cancel
		if err := v.RotateKeys(cut, tenant.ID, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the next rotation, cut off before its first row: %v", err)
		}
		h.lists = nil
	}
	if err := v.RotateKeys(ctx, tenant.ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetToken(ctx, tok.ID); err != nil {
		t.Errorf("the token can no longer be read: %v", err)
	}
	if err := v.RotateKeys(ctx, tenant.ID, nil); err != nil {
		t.Errorf("going on with the rotation that was cut off: %v", err)
	}
	if _, err := c.GetToken(ctx, tok.ID); err != nil {
		t.Errorf("the token after it: %v", err)
	}
}

// The old key is destroyed when no node can use it any more: keys are used for
// MaxAge, and a write that began before may take a little longer.
func TestRotationWaits(t *testing.T) {
	t.Parallel()
	v, err := Open(t.Context(), &hooked{Storage: memory(t)}, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	synctest.Test(t, func(t *testing.T) {
		r, promoted := &rotation{v: &Vault{store: v.store, horizon: v.horizon}}, time.Now()
		if err := r.wait(t.Context(), promoted); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(promoted); waited != keyring.Horizon {
			t.Errorf("the rotation waited for %s", waited)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.wait(gone, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("a rotation without a caller: %v", err)
		}
	})
}

// A write that a rotation overtakes is sealed again, also when the rotation does
// not wait.
func TestRotationBehindAGate(t *testing.T) {
	t.Parallel()
	v, err := Open(t.Context(), &gatedStore{Storage: memory(t)}, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	err = runErr(t.Context(), v.Tenant(tenant.ID), &verbCreateToken, func(ctx context.Context, op *operation) error {
		ins := &insertion{}
		n, bad := newToken{operation: op, clearToken: clearToken{row: &ins.tokens[0]}}, &form.Problems{}
		if n.prepare(ctx, TokenParams{ID: "late", Type: TypeGeneric, Data: "x"}, bad); bad.Any() {
			return fault.Of(bad)
		}
		if err := v.RotateKeys(ctx, tenant.ID, nil); err != nil {
			return err
		}
		_, err := n.create(ctx, ins)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if tok, err := v.Tenant(tenant.ID).GetToken(t.Context(), "late"); err != nil || string(tok.Data) != `"x"` {
		t.Errorf("the token: %v", err)
	}
}

// gatedStore is a storage on which rotations do not wait.
type gatedStore struct {
	storage.Storage
	keyring.Gate
}

func (g *gatedStore) Write(ctx context.Context, ch *storage.Change) error {
	return g.Gate.Write(ctx, g.Storage, ch)
}

// memory opens a database in memory.
func memory(t *testing.T) storage.Storage {
	t.Helper()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Rows that are too large to be sealed anew together are sealed in smaller
// batches.
func TestRotationOfLargeRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, _, tenant := slow(t, Config{MaxPageBytes: 5000})
	c := v.Tenant(tenant)
	for range 10 {
		if _, err := c.CreateToken(ctx, TokenParams{Type: TypeGeneric, Data: strings.Repeat("x", 2000)}); err != nil {
			t.Fatal(err)
		}
		_, err := c.CreateReactor(ctx, ReactorParams{Name: "r", Code: strings.Repeat("/", 2000), Configuration: map[string]string{}})
		if err != nil {
			t.Fatal(err)
		}
	}
	last := 0
	err := v.RotateKeys(ctx, tenant, &RotateOptions{Progress: func(done int) {
		if done-last > 2 {
			t.Errorf("%d rows of 2 kB in one batch", done-last)
		}
		last = done
	}})
	if err != nil {
		t.Fatal(err)
	}
	if last < 20 {
		t.Errorf("%d rows were sealed anew", last)
	}
}

// rotatingNodes are two vaults on one database, whose rotations wait for nobody.
func rotatingNodes(t *testing.T) (nodes [2]*Vault, store *hooked, c *Client) {
	t.Helper()
	path, key := filepath.Join(t.TempDir(), "vault.db"), NewKey()
	for i := range nodes {
		opened, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		store = &hooked{Storage: opened}
		if nodes[i], err = Open(t.Context(), store, key, &Config{SweepEvery: -1, WorkEvery: -1}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nodes[i].Close() })
		nodes[i].horizon = 0
	}
	tenant, err := nodes[0].CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	c = nodes[0].Tenant(tenant.ID)
	for range rotateChunk + 50 { // more than one batch
		if _, err := c.CreateToken(t.Context(), TokenParams{Type: TypeGeneric, Data: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	return nodes, store, c
}

// Rotations of one tenant on two nodes at once do not get into each other's way.
func TestRotationsOnTwoNodes(t *testing.T) {
	t.Parallel()
	nodes, _, c := rotatingNodes(t)
	for range 3 {
		var wg sync.WaitGroup
		for _, v := range nodes {
			wg.Go(func() {
				if err := v.RotateKeys(t.Context(), c.TenantID(), nil); err != nil {
					t.Errorf("rotate: %v", err)
				}
			})
		}
		wg.Wait()
	}
	for _, v := range nodes {
		state, err := v.core.Tenants.Reload(t.Context(), c.TenantID())
		if err != nil {
			t.Fatal(err)
		}
		if version := state.Ring.Version(); version < 4 || version > 7 || state.Ring.Retired() {
			t.Errorf("six rotations, in three pairs, left key %d, with one retired: %v", version, state.Ring.Retired())
		}
		n := 0
		for _, err := range v.Tenant(c.TenantID()).AllTokens(t.Context(), ListTokensParams{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != rotateChunk+50 {
			t.Errorf("%d tokens can be read", n)
		}
	}
}

// A tenant that is deleted while its keys are rotated is gone, wherever the
// rotation is.
func TestTenantIsDeletedDuringARotation(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(*hooked, func()){
		"before the tokens": func(h *hooked, f func()) { h.lists = f },
		"after them":        func(h *hooked, f func()) { h.sealed = f },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, store, c := rotatingNodes(t)
			var once sync.Once
			hook(store, func() {
				once.Do(func() {
					if err := nodes[0].DeleteTenant(t.Context(), c.TenantID()); err != nil {
						t.Errorf("delete: %v", err)
					}
				})
			})
			if err := nodes[1].RotateKeys(t.Context(), c.TenantID(), nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("rotate: %v, want ErrNotFound", err)
			}
			store.lists, store.sealed = nil, nil
			rows, _, err := store.ListTokens(t.Context(), storage.TokenFilter{Tenant: storage.ID(c.TenantID()), Limit: 10})
			if err != nil || len(rows) != 0 {
				t.Errorf("%d tokens are left (%v)", len(rows), err)
			}
			recs, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Tenant: storage.ID(c.TenantID()), Limit: 10})
			if err != nil || len(recs) != 0 {
				t.Errorf("%d records are left, a ring perhaps (%v)", len(recs), err)
			}
		})
	}
}

func TestCardDataValue(t *testing.T) {
	t.Parallel()
	for _, card := range []CardData{
		{},
		{Number: "4242424242424242"},
		{Number: "4242424242424242", ExpirationMonth: 2, ExpirationYear: 2031, CVC: "123"},
		{Number: "not \"valid\" \xff\u2028", ExpirationYear: -1, CVC: "<&>"},
	} {
		text, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		var want, got CardData
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(card.value().JSON(), &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the value of a card decodes to %+v, its JSON to %+v", got, want)
		}
		names := map[string]bool{}
		for _, m := range card.value().Members() {
			names[m.Name] = true
		}
		var members map[string]any
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !names[name] {
				t.Errorf("the value of a card has no member %s", name)
			}
		}
		if len(names) != len(members) {
			t.Errorf("the value of a card has %d members, its JSON %d", len(names), len(members))
		}
	}
}

// Running code reads errors that are made for callers, and nothing of others.
func TestHostErrors(t *testing.T) {
	t.Parallel()
	fields := map[string][]string{"data": {"is required"}}
	own := &script.HostError{Code: "EACCES", Message: "no"}
	for name, c := range map[string]struct {
		err  error
		want *script.HostError
	}{
		"the host's own": {fmt.Errorf("fetch: %w", own), own},
		"of code":        {&script.Error{Kind: script.Thrown, Status: 402, Title: "No Money", Messages: fields}, &script.HostError{Status: 402, Message: "No Money", Errors: fields}},
		"of fields":      {&InvalidError{Fields: fields}, &script.HostError{Status: 400, Message: "One or more validation errors occurred.", Errors: fields}},
		"of a sentinel":  {fault.New(ErrNotFound, "There is no such token."), &script.HostError{Status: 404, Message: "There is no such token."}},
		"of the runtime": {script.ErrBusy, &script.HostError{Status: 429, Message: "too many requests"}},
		"of the machine": {errors.New("secret of the database"), &script.HostError{Status: 500, Message: "the operation failed"}},
	} {
		if diff := cmp.Diff(c.want, hostError(c.err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

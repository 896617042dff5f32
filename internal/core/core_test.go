package core

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// counting counts the lookups of keys.
type counting struct {
	storage.Storage
	lookups atomic.Int32
}

func (c *counting) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	c.lookups.Add(1)
	return c.Storage.Lookup(ctx, key)
}

// clockVault is a vault with a tenant, and a clock that the test moves.
type clockVault struct {
	*Vault
	store  *counting
	tenant uuid.UUID
	now    atomic.Pointer[time.Time]
	events []string
}

func newClockVault(t *testing.T) *clockVault {
	t.Helper()
	db := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	t.Cleanup(func() { _ = db.Close() })
	master := must.Get(seal.NewAEAD(seal.RandomKey()))(t)
	w := &clockVault{store: &counting{Storage: db}, tenant: uuid.New()}
	w.now.Store(new(time.Now()))
	w.Vault = New(Config{
		Store: w.store, Root: master, Clock: func() time.Time { return *w.now.Load() }, Logger: slog.New(slog.DiscardHandler),
		Mac:     func(*seal.Ring, uuid.UUID, bool, storage.Log) storage.Hash { return storage.Hash{} },
		ReadAge: time.Second, MaxBytes: 1 << 20, MaxTokens: 10, MaxPageBytes: 1 << 20, MaxMemory: 1 << 30, Observe: w.observe,
	})
	w.addTenant(t, master)
	return w
}

func (w *clockVault) observe(ctx context.Context, e Event) (context.Context, func(error)) {
	return ctx, func(err error) {
		line := e.Kind + " " + e.Name + " " + e.Method
		if err != nil {
			line += " failed"
		}
		w.events = append(w.events, line)
	}
}

func (w *clockVault) addTenant(t *testing.T, master seal.AEAD) {
	t.Helper()
	ring := must.Get(seal.NewRing(w.Now()))(t)
	wrapped := must.Get(ring.Wrap(master, w.tenant))(t)
	op := &Op{Caller: w.Owner(w.tenant), State: &State{Ring: ring, ReadAt: time.Now()}, Now: w.Now()}
	rec := storage.Record{Kind: keyring.KindTenant, ID: op.TenantID(), Name: "Acme", CreatedAt: op.Now}
	w.add(t, op, rec, Tenant{ID: w.tenant, Name: "Acme"}, storage.Record{Kind: keyring.KindRing, ID: op.TenantID(), Body: wrapped, CreatedAt: op.Now})
}

// add stores a record.
func (w *clockVault) add(t *testing.T, op *Op, rec storage.Record, doc any, also ...storage.Record) {
	t.Helper()
	must.Do(t, op.SealRecord(&rec, doc))
	ch := op.Change()
	ch.InsertRecords = append(also, rec)
	ch.Logs = []storage.Log{op.Entry(audit.Create, rec.Kind, uuid.UUID(rec.ID).String())}
	must.Do(t, op.Write(t.Context(), ch))
}

// begun returns an operation of a caller.
func begun(t *testing.T, c Caller) *Op {
	t.Helper()
	return must.Get(Do(t.Context(), c, &Verb{}, func(_ context.Context, op *Op) (*Op, error) { return op, nil }))(t)
}

// application adds an application that may read tokens, and returns its key.
func (w *clockVault) application(t *testing.T, expires time.Time) string {
	t.Helper()
	op, key := begun(t, w.Owner(w.tenant)), ids.NewKey(ids.PrivateKey)
	k := Key{ID: op.NewID(), Hash: ids.HashKey(key), CreatedAt: op.Now}
	app := Application{ID: op.NewID(), TenantID: w.tenant, Type: "private", Permissions: []string{access.TokenRead}, ExpiresAt: expires, Keys: []Key{k}}
	w.add(t, op, storage.Record{Kind: audit.Application, ID: storage.ID(app.ID), CreatedAt: op.Now}, app)
	w.add(t, op, k.Row(), KeyRecord{Application: app.ID})
	return key
}

func nothing(context.Context, *Op) error { return nil }

// run is Do without a result.
func run(ctx context.Context, c Caller, verb *Verb, do func(context.Context, *Op) error) error {
	_, err := Do(ctx, c, verb, func(ctx context.Context, op *Op) (struct{}, error) { return struct{}{}, do(ctx, op) })
	return err
}

// A verb is refused where it cannot work, and for callers without the right.
func TestVerbsAreRefused(t *testing.T) {
	t.Parallel()
	w := newClockVault(t)
	owner := w.Owner(w.tenant)
	key := must.Get(w.Authenticate(t.Context(), w.application(t, time.Time{})))(t)
	inTx, inOnce := owner.InTx(&sql.Tx{}), owner.Collecting(&Pending{})
	piecewise := errors.New("vault: V cannot be part of Once: it writes piece by piece")
	for name, c := range map[string]struct {
		caller Caller
		verb   Verb
		want   error
	}{
		"in a transaction":                {inTx, Verb{Where: OutsideTx}, fault.ErrInTx},
		"alone, in a transaction":         {inTx, Verb{Where: Alone}, fault.ErrInTx},
		"alone, in Once":                  {inOnce, Verb{Where: Alone}, piecewise},
		"in Once":                         {inOnce, Verb{Where: OutsideTx}, nil},
		"in Once, in a transaction":       {inTx.Collecting(&Pending{}), Verb{}, fault.ErrInTx},
		"without the permission":          {key, Verb{Permission: access.TokenCreate}, fault.ErrForbidden},
		"with the permission":             {key, Verb{Permission: access.TokenRead}, nil},
		"the owner's, by a key":           {key, Verb{Only: "do it"}, fault.ErrForbidden},
		"the owner's":                     {owner, Verb{Only: "do it"}, nil},
		"the owner's, by a masked owner":  {owner.At(owner.Masked()), Verb{Only: "do it"}, fault.ErrForbidden},
		"of a tenant that does not exist": {w.Owner(uuid.New()), Verb{}, fault.ErrNotFound},
	} {
		c.verb.Name = "V"
		err := run(t.Context(), c.caller, &c.verb, nothing)
		if !errors.Is(err, c.want) && (c.want == nil || err == nil || err.Error() != c.want.Error()) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	w.Close()
	must.Match(t, "after the end", run(t.Context(), owner, &Verb{}, nothing), fault.ErrClosed)
}

// An observer is told of each verb that has a kind, when the verb has ended.
// Inside Once it is told when Once has ended. A large verb has a room.
func TestObserverIsNotifiedOfVerbs(t *testing.T) {
	t.Parallel()
	w := newClockVault(t)
	owner := w.Owner(w.tenant)
	broken := errors.New("broken")
	fails := func(context.Context, *Op) error { return broken }
	_ = run(t.Context(), owner, &Verb{Name: "Read", Kind: "read"}, nothing)
	_ = run(t.Context(), owner, &Verb{Name: "Create", Kind: "create"}, fails)
	_ = run(t.Context(), owner, &Verb{Name: "Check"}, fails)
	once, end := w.TellOnce(t.Context())
	_ = run(once, owner, &Verb{Name: "Once", Kind: "create"}, nothing)
	_ = run(once, owner, &Verb{Name: "Second", Kind: "read"}, nothing)
	end(broken)
	want := []string{"call read Read", "call create Create failed", "call read Second", "call create Once failed"}
	must.Same(t, "events", want, w.events)
	for _, large := range []bool{true, false} {
		_ = run(t.Context(), owner, &Verb{Large: large}, func(ctx context.Context, _ *Op) error {
			must.Same(t, "the verb has a room", large, admission.Of(ctx) != nil)
			return nil
		})
	}
}

// A request authenticates once, unless something is revoked during the request.
func TestRequestAuthenticatesOnce(t *testing.T) {
	t.Parallel()
	w := newClockVault(t)
	text := w.application(t, w.Now().Add(time.Hour))
	w.store.lookups.Store(0)
	c := must.Get(w.Authenticate(t.Context(), text))(t)
	derived := c.At(c.AsUser("ops").Masked())
	for range 3 {
		for _, c := range []Caller{c, derived} {
			must.Do(t, run(t.Context(), c, &Verb{Permission: access.TokenRead}, nothing))
		}
	}
	must.Same(t, "look-ups of one key", int32(1), w.store.lookups.Load())
	w.ForgetIdentities()
	if err := run(t.Context(), derived, &Verb{}, nothing); err != nil || w.store.lookups.Load() != 2 {
		t.Errorf("after a revocation: %v, and %d look-ups", err, w.store.lookups.Load())
	}
	w.now.Store(new(w.Now().Add(2 * time.Hour)))
	for name, c := range map[string]Caller{"the key": c, "an identity of it": derived} {
		must.Match(t, name+", expired", run(t.Context(), c, &Verb{}, nothing), fault.ErrUnauthenticated)
	}
}

// A key that is unknown, deleted, or malformed is refused.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	w := newClockVault(t)
	text := w.application(t, time.Time{})
	c := must.Get(w.Authenticate(t.Context(), text))(t)
	op := begun(t, w.Owner(w.tenant))
	rec := must.Get(op.Record(t.Context(), audit.Application, c.ApplicationID()))(t)
	ch := op.Change()
	ch.DeleteRecords = []storage.RecordDelete{{Kind: rec.Kind, ID: rec.ID, Rev: rec.Rev}}
	ch.Logs = []storage.Log{op.Entry(audit.Delete, rec.Kind, c.ApplicationID().String())}
	must.Do(t, op.Write(t.Context(), ch))
	w.ForgetIdentities()
	must.Match(t, "the identity of a deleted application", run(t.Context(), c, &Verb{}, nothing), fault.ErrUnauthenticated)
	must.Fail(op.As(t.Context(), c.ApplicationID()))(t, "a deleted application", fault.ErrNotFound)
	for _, text := range []string{"", "key", text, ids.NewKey(ids.PrivateKey)} {
		must.Fail(w.Authenticate(t.Context(), text))(t, fmt.Sprintf("%q", text), fault.ErrUnauthenticated)
	}
}

// Held-back writes become one change with all their effects. Functions that wait
// for the commit run after it.
func TestPendingWrites(t *testing.T) {
	t.Parallel()
	w := newClockVault(t)
	writes := &Pending{}
	op := begun(t, w.Owner(w.tenant).Collecting(writes))
	jobs := op.Change()
	jobs.UpdateJobs, jobs.DeleteJobs = []storage.JobUpdate{{}}, []storage.JobDelete{{}}
	jobs.Logs = []storage.Log{op.Entry(audit.React, audit.Reactor, "r")}
	committed := false
	for _, err := range []error{op.Write(t.Context(), jobs), op.LogReads(t.Context(), audit.Read, Entity{Type: "token", ID: "t"})} {
		must.Do(t, err)
	}
	op.Afterwards(func() { committed = true })
	all := must.Get(writes.Change(op))(t)
	if len(all.UpdateJobs) != 1 || len(all.DeleteJobs) != 1 || len(all.Logs) != 2 || all.Relaxed || committed {
		t.Errorf("%+v, committed: %v", all, committed)
	}
	if writes.Committed(); !committed {
		t.Error("what waited for the commit was not called")
	}
	// With effects outside the database, reads are entered at once.
	writes = &Pending{Leased: true}
	op = begun(t, w.Owner(w.tenant).Collecting(writes))
	if err := op.LogReads(t.Context(), audit.Read, Entity{Type: "token", ID: "t"}); err != nil || len(writes.Changes()) != 0 {
		t.Errorf("%v, and %d changes wait", err, len(writes.Changes()))
	}
}

package core

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// Place is where an operation works: on the vault's own connections, in a
// transaction of the application, or inside of Once, where writes are held back.
// The zero Place is the vault's own.
type Place struct {
	tx      *txWork
	pending *Pending
}

// InsideTx reports whether the place is a transaction of the application.
func (p Place) InsideTx() bool { return p.tx != nil }

// Pending returns the writes that are held back; nil outside of Once.
func (p Place) Pending() *Pending { return p.pending }

// InTx returns the caller at work in a transaction of the application.
func (c Caller) InTx(tx *sql.Tx) Caller {
	c.tx = c.Vault.txs.of(c.Vault, tx)
	return c
}

// Holding returns the caller with its writes held back.
func (c Caller) Holding(writes *Pending) Caller {
	c.pending = writes
	return c
}

// Reader is what operations read from.
type Reader interface {
	storage.TokenReader
	storage.RecordReader
}

// DB is the database as the place sees it.
func (c Caller) DB() Reader {
	if c.tx != nil {
		return c.tx.store
	}
	return c.Vault.Store
}

// keys returns the keys of a tenant, read again if that is asked for.
func (c Caller) keys(ctx context.Context, tenant uuid.UUID, again bool) (*State, error) {
	switch {
	case c.tx != nil:
		return c.tx.state(ctx, tenant, again)
	case again:
		return c.Vault.Tenants.Reload(ctx, tenant)
	default:
		return c.Vault.Tenants.Get(ctx, tenant)
	}
}

// txWork is a transaction of the application, shared by the callers that work in
// it.
type txWork struct {
	v  *Vault
	tx *sql.Tx

	mu    sync.Mutex
	store storage.Tx // nil until the first operation
}

// txWorks maps transactions to their work, so that all callers in one transaction
// share a lock. It keeps neither alive.
type txWorks struct {
	mu  sync.Mutex
	all map[weak.Pointer[sql.Tx]]weak.Pointer[txWork]
}

func (w *txWorks) of(v *Vault, tx *sql.Tx) *txWork {
	key := weak.Make(tx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.all[key].Value(); known != nil {
		return known
	}
	t := &txWork{v: v, tx: tx}
	if w.all == nil {
		w.all = map[weak.Pointer[sql.Tx]]weak.Pointer[txWork]{}
	}
	w.all[key] = weak.Make(t)
	runtime.AddCleanup(t, w.forget, key)
	return t
}

// forget drops an entry whose work was collected.
func (w *txWorks) forget(key weak.Pointer[sql.Tx]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key].Value() == nil {
		delete(w.all, key)
	}
}

// bindTx makes sure that an operation can be part of its transaction.
func (op *Op) bindTx(ctx context.Context) error {
	if op.pending != nil {
		return fmt.Errorf("%w: Once, whose work is to be done with the client that it gives", fault.ErrInTx)
	}
	return op.tx.bind(ctx)
}

// bind makes sure that the transaction is on the vault's database. It may wait
// for a lock, and ends the turn before that.
func (t *txWork) bind(ctx context.Context) error {
	admission.Of(ctx).Rest()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store != nil {
		return nil
	}
	store, ok := t.v.Store.(storage.TxStorage)
	switch {
	case t.tx == nil:
		return errors.New("vault: InTx was given no transaction")
	case !ok:
		return errors.New("vault: InTx needs a storage that can work in a transaction of the application (storage.TxStorage)")
	}
	in, err := store.InTx(ctx, t.tx)
	if err == nil {
		t.store = in
	}
	return err
}

// beside reports whether the vault can work on its own connections while the
// transaction is open.
func (t *txWork) beside() bool {
	store, ok := t.v.Store.(storage.TxStorage)
	return ok && store.Beside()
}

// state returns the keys of a tenant. Where the vault cannot read beside the
// transaction they are read in it: it has the only lock, so they are committed,
// and no client of a transaction changes them.
func (t *txWork) state(ctx context.Context, tenant uuid.UUID, again bool) (*State, error) {
	if t.beside() {
		if again {
			return t.v.Tenants.Reload(ctx, tenant)
		}
		return t.v.Tenants.Get(ctx, tenant)
	}
	return t.v.Tenants.Read(ctx, t.store, tenant, again)
}

// writeInTx applies a change in the transaction. The keys of the change must stay
// until the transaction ends; if they have been replaced, the change is sealed
// again.
//
// It ends the tenant's turn, because it may wait for another transaction of the
// application, which may need a turn to come to its end. For the same reason it
// takes no turn to write.
func (op *Op) writeInTx(ctx context.Context, ch *storage.Change) error {
	admission.Of(ctx).Rest()
	if ch.Relaxed && op.Vault.StrictReadLogs && op.tx.beside() {
		ch.Relaxed = false
		return op.commit(ctx, op.Vault.Store, ch)
	}
	for range MaxAttempts {
		if op.State != nil && sealed.Any(ch) {
			ch.Hold = &storage.Hold{Kind: keyring.KindRing, ID: op.TenantID(), Rev: op.State.RingRev}
		}
		err := op.commit(ctx, op.tx.store, ch)
		if !errors.Is(err, storage.ErrLate) {
			return err
		}
		from := op.State.Ring
		if err := op.Reload(ctx); err != nil {
			return err
		}
		if err := op.Reseal(ch, from); err != nil {
			return err
		}
	}
	return fault.ErrFaster
}

// Apply writes a change that seals nothing, at once, also inside Once.
func (op *Op) Apply(ctx context.Context, ch *storage.Change) error {
	admission.Of(ctx).Rest()
	if op.tx != nil {
		return op.commit(ctx, op.tx.store, ch)
	}
	return op.commit(ctx, op.Vault.Store, ch)
}
